"""Entries in their stored form, many at once, field by field (docs/format.md).

    value   40 ‖ identity ‖ zigzag-varint(length) ‖ entry
    entry   0a address 12 (08 seconds 10 nanoseconds) 18 size 22 checksum 2a pair … 30 type 3a type

A cursor a row goes through the entry; each field is looked for in all rows at once, in the order in
which protobuf writes them.  Rows in any other form, which nobody writes but which protobuf reads,
make the caller decode the batch one by one.  Pure; for `decoding.py`.
"""

from collections.abc import Collection
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from graveler.records import ABSENT, Absent
from graveler.spark.scanning import Records
from graveler.spark.vectors import Slices, octets, varints

_IDENTITY: Final = 0x40  # the length of 32 bytes, as zigzag has it
_IDENTITY_LENGTH: Final = 32
_MICROSECONDS: Final = 1_000_000
_NANOS_MAX: Final = 999_999_999
_SECONDS_MAX: Final = 253_402_300_799  # the end of the year 9999
_ADDRESS, _STAMP, _SIZE, _CHECKSUM, _PAIR, _TYPE, _CONTENT = (
    0x0A,
    0x12,
    0x18,
    0x22,
    0x2A,
    0x30,
    0x3A,
)
_SECONDS, _NANOS, _KEY, _ITEM = 0x08, 0x10, 0x0A, 0x12


class _Odd(Exception):
    """Some row is in another form."""


def entry_columns(
    records: Records, wanted: Collection[str]
) -> dict[str, Any] | Literal[Absent.ABSENT]:
    """Columns of `records` by name, those `wanted` and `address_type`: texts as binary, `mtime` in
    microseconds; ABSENT if any row is not in the form above.  Raises `pyarrow.ArrowInvalid` for
    metadata that is not UTF-8."""
    try:
        return _Walk(records).columns(wanted)
    except _Odd:
        return ABSENT


class _Walk:
    """The cursors of all rows; each method goes on behind what it reads."""

    def __init__(self, records: Records) -> None:
        raw, (begin, end) = records.bytes, records.values
        self._buffer, self._raw = records.raw, raw
        self._check(end - begin > _IDENTITY_LENGTH + 1)
        self._check(raw[begin] == _IDENTITY)
        self._identity = Slices(begin + 1, begin + 1 + _IDENTITY_LENGTH)
        length, self._at = varints(raw, self._identity.end)
        self._end = self._at + (length >> np.uint64(1)).astype(np.int64)
        self._check((length & np.uint64(1) == 0) & (length < len(raw)) & (self._at > 0))
        self._check(self._end <= end)

    @staticmethod
    def _check(sound: Any) -> None:
        if not sound.all():
            raise _Odd

    def columns(self, wanted: Collection[str]) -> dict[str, Any]:
        """See `entry_columns`."""
        at = {"address": self._text(_ADDRESS), "stamp": self._text(_STAMP)}
        size = self._number(_SIZE)
        at["checksum"] = self._text(_CHECKSUM)
        counts, pairs = self._pairs("metadata" in wanted)
        found = {"address_type": pa.array(self._number(_TYPE).astype(np.int32))}
        at["content_type"] = self._text(_CONTENT)
        self._check(self._at == self._end)
        for name in wanted:
            if name in at:
                found[name] = octets(self._buffer, at[name])
        if "identity" in wanted:
            found["identity"] = octets(self._buffer, self._identity)
        if "size" in wanted:
            found["size"] = pa.array(size.astype(np.int64))
        if "mtime" in wanted:
            found["mtime"] = pa.array(self._time(at["stamp"]))
        if "metadata" in wanted:
            found["metadata"] = self._maps(counts, pairs)
        return found

    def _has(self, tag: int) -> Any:
        """The rows whose next field is this one; none of them stands at its end."""
        return np.flatnonzero((self._raw[self._at] == tag) & (self._at < self._end))

    def _text(self, tag: int) -> Slices:
        """The field's bytes; empty where it is not."""
        begin, rows = self._at, self._has(tag)
        if len(rows) == len(begin):
            begin, self._at = self._delimited(self._at + 1, self._end)
            return Slices(begin, self._at)
        begin, end = begin.copy(), begin.copy()
        begin[rows], end[rows] = self._delimited(self._at[rows] + 1, self._end[rows])
        self._at = end
        return Slices(begin, end)

    def _delimited(self, at: Any, bound: Any) -> tuple[Any, Any]:
        """A length, and so many bytes, which must not go beyond `bound`."""
        length, begin = varints(self._raw, at)
        self._check((length <= len(self._raw)) & (begin > 0))
        end = begin + length.astype(np.int64)
        self._check(end <= bound)
        return begin, end

    def _number(self, tag: int) -> Any:
        """The field's number; 0 where it is not."""
        found = np.zeros(len(self._at), dtype=np.uint64)
        rows = self._has(tag)
        after = self._at.copy()
        found[rows], after[rows] = varints(self._raw, self._at[rows] + 1)
        self._check((after > 0) & (after <= self._end))
        self._at = after
        return found

    def _time(self, stamp: Slices) -> Any:
        """Microseconds since 1970."""
        inner = self._inside(stamp)
        seconds, nanos = inner._number(_SECONDS), inner._number(_NANOS)
        self._check(inner._at == inner._end)
        self._check((seconds <= _SECONDS_MAX) & (nanos <= _NANOS_MAX))
        return (seconds * np.uint64(_MICROSECONDS) + nanos // np.uint64(1_000)).astype(np.int64)

    def _inside(self, at: Slices) -> "_Walk":
        """Cursors through messages within."""
        inner = _Walk.__new__(_Walk)
        inner._buffer, inner._raw = self._buffer, self._raw
        inner._at, inner._end = at.begin, at.end
        return inner

    def _pairs(self, is_wanted: bool) -> tuple[Any, Slices]:
        """How many pairs each row has, and where all of them stand."""
        counts = np.zeros(len(self._at), dtype=np.int64)
        begins, ends = [], []
        while len(rows := self._has(_PAIR)):
            begin, end = self._delimited(self._at[rows] + 1, self._end[rows])
            self._at = self._at.copy()
            self._at[rows] = end
            if is_wanted:
                counts[rows] += 1
                begins.append(begin)
                ends.append(end)
        if not begins:
            return counts, Slices(np.zeros(0, np.int64), np.zeros(0, np.int64))
        # All pairs of a row stand before those of the next one.
        return counts, Slices(np.sort(np.concatenate(begins)), np.sort(np.concatenate(ends)))

    def _maps(self, counts: Any, pairs: Slices) -> Any:
        inner = self._inside(pairs)
        key, item = inner._text(_KEY), inner._text(_ITEM)
        self._check(inner._at == inner._end)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        texts = (octets(self._buffer, each).cast(pa.string()) for each in (key, item))
        return pa.MapArray.from_arrays(pa.array(offsets), *texts)
