"""The records of a range as slices of buffers, a few thousand records at a time.

    blocks ──checked, decompressed──► one buffer ──restart offsets──► where keys and values stand

Graveler writes blocks in which every key stands whole.  The restart offsets of such a block say
where each entry begins, so all records are found at once.  Blocks of any other kind are parsed
record by record.  The records are compared with the range's line in the metarange.  For this
package and Spark.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.vectors import PAD, Slices, is_ascending, octets, slices_of, varints
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import Census
from graveler.committed.table import StoredChunk
from graveler.errors import Corrupt
from graveler.records import ABSENT, Absent, RangeRef
from graveler.streams import successor

_GROUP_BYTES: Final = 2 << 20  # decompressed, about ten thousand records
_TRAILER: Final = 8  # bytes of type and sequence number after a key
_SET: Final = 1


@dataclass(frozen=True)
class Records:
    """Some adjacent records: their bytes, and where their keys and values stand in these bytes."""

    raw: pa.Buffer  # `PAD` bytes longer than what the slices reach
    keys: Slices
    values: Slices

    def __len__(self) -> int:
        return len(self.keys.begin)

    @cached_property
    def bytes(self) -> Any:
        """All bytes as a numpy array."""
        return np.frombuffer(self.raw, dtype=np.uint8)

    @cached_property
    def paths(self) -> Any:
        """The keys as a binary array."""
        return octets(self.raw, self.keys)

    def part(self, first: int, last: int) -> "Records":
        """The records from `first` up to, but without, `last`."""
        return Records(self.raw, self.keys.rows(first, last), self.values.rows(first, last))


def records_of(keys: Sequence[bytes], values: Sequence[bytes]) -> Records:
    """Records from lists of keys and values."""
    raw = b"".join(chain(keys, values, [bytes(PAD)]))
    at = slices_of(values, sum(map(len, keys)))
    return Records(pa.py_buffer(raw), slices_of(keys, 0), at)


def range_records(space: Keyspace, ref: RangeRef) -> Iterator[Records]:
    """All records of a range, in groups.  Raises `Corrupt` unless their number, order and bounds
    agree with the metarange.  Memory: 2 MiB of records."""
    census = Census(ref)
    for records in _groups(space, ref):
        paths = records.paths
        if not is_ascending(paths):
            raise Corrupt(f"range has keys out of order: range={ref.id}")
        census.count(paths[0].as_py(), paths[-1].as_py(), len(records))
        yield records
    census.close()


def with_prefix(records: Records, prefix: bytes) -> Records:
    """The records with `prefix`; `records` are in key order."""
    paths, beyond = records.paths, successor(prefix)
    begin = pc.sum(pc.less(paths, prefix)).as_py() if prefix else 0
    end = pc.sum(pc.less(paths, beyond)).as_py() if beyond else len(records)
    return records if end - begin == len(records) else records.part(begin, end)


def meeting(refs: Sequence[RangeRef], prefix: bytes) -> Sequence[RangeRef]:
    """Those of `refs` that may hold a key with `prefix`; `refs` are in key order."""
    beyond = successor(prefix)
    first = bisect_left(refs, prefix, key=lambda ref: ref.max_key)
    last = bisect_left(refs, beyond, key=lambda ref: ref.min_key) if beyond else len(refs)
    return refs[first:last]


def _groups(space: Keyspace, ref: RangeRef) -> Iterator[Records]:
    held: list[StoredChunk] = []
    payloads: list[bytes] = []
    length = 0
    for chunk in space.open(ref).chunks():
        if not isinstance(chunk, StoredChunk):  # a table in memory has no blocks
            columns = chunk.columns()
            yield records_of(columns.keys, columns.values)
            continue
        held.append(chunk)
        payloads.append(chunk.payload())
        length += len(payloads[-1])
        if length >= _GROUP_BYTES:
            yield from _parsed(held, payloads)
            held, payloads, length = [], [], 0
    yield from _parsed(held, payloads)


def _parsed(chunks: Sequence[StoredChunk], payloads: Sequence[bytes]) -> Iterator[Records]:
    """The records of some blocks, if there are any."""
    if not chunks:
        return
    records = whole_records(payloads)
    if records is ABSENT:
        columns = [chunk.columns() for chunk in chunks]
        keys = list(chain.from_iterable(each.keys for each in columns))
        records = records_of(keys, list(chain.from_iterable(each.values for each in columns)))
    if len(records):
        yield records


def whole_records(payloads: Sequence[bytes]) -> Records | Literal[Absent.ABSENT]:
    """The records of blocks in which every key stands whole.  Returns ABSENT if a block is of
    another kind or damaged; the parser that reads record by record then finds the reason."""
    layouts = list(map(_restarts, payloads))
    if not all(each is not ABSENT for each in layouts):
        return ABSENT
    begin = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
    counts = np.array([len(each) for each in layouts], dtype=np.int64)
    at = np.concatenate(layouts).astype(np.int64) + np.repeat(begin[:-1], counts)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    ends = np.append(at[1:], 0)
    ends[np.cumsum(counts) - 1] = begin[1:] - 4 - 4 * counts
    raw = pa.py_buffer(b"".join([*payloads, bytes(PAD)]))
    numbers = np.frombuffer(raw, dtype=np.uint8)
    unshared, key = varints(numbers, np.minimum(at + 1, len(numbers) - 1))
    length, begin_key = varints(numbers, np.minimum(key, len(numbers) - 1))
    end_key = begin_key + unshared.astype(np.int64) - _TRAILER
    value = end_key + _TRAILER
    sound = (at[first] == begin[:-1]).all() and (value + length.astype(np.int64) == ends).all()
    sound = sound and (begin_key > 0).all() and (unshared >= _TRAILER).all()
    sound = sound and max(unshared.max(), length.max()) <= begin[-1]
    if not sound or numbers[at].any() or (numbers[end_key] != _SET).any():
        return ABSENT
    return Records(raw, Slices(begin_key, end_key), Slices(value, ends))


def _restarts(payload: bytes) -> Any:
    """The restart offsets of a block; ABSENT if it has none, or they do not fit into it."""
    count = int.from_bytes(payload[-4:], "little")
    end = len(payload) - 4 - 4 * count
    if count == 0 or end <= 0:
        return ABSENT
    return np.frombuffer(payload, dtype="<u4", count=count, offset=end)
