"""The records of a range as slices of buffers, a few thousand records at a time.

    blocks ──checked, decompressed──► one buffer ──restart offsets──► where keys and values stand

Graveler writes blocks in which every key stands whole, and restart offsets say where each entry
begins.  Other blocks are parsed record by record.  The records are compared with the range's line
in the metarange.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.vectors import (
    PAD,
    Slices,
    is_ascending,
    octets,
    slices_of,
    varints,
    windows,
)
from graveler.committed.blocks import StoredBlock
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import Census
from graveler.committed.table import StoredChunk
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT, Absent, RangeRef
from graveler.core.streams import successor

_GROUP_BYTES: Final = 2 << 20  # decompressed, about ten thousand records
_RESTART: Final = 4  # bytes of a restart offset, and of their number
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


class Share(NamedTuple):
    """Adjacent records of a group that stand in one range."""

    ref: RangeRef
    first: int
    beyond: int


class Group(NamedTuple):
    """Some adjacent records, and which range each of them stands in."""

    records: Records
    shares: Sequence[Share]


def range_records(space: Keyspace, ref: RangeRef) -> Iterator[Records]:
    """As `grouped`, for one range."""
    return (group.records for group in grouped(space, (ref,)))


def grouped(space: Keyspace, refs: Iterable[RangeRef]) -> Iterator[Group]:
    """All records of some ranges, in groups.  Short ranges share a group if they are in key order:
    a group costs as much as a thousand records.  Raises `Corrupt` unless number, order and bounds
    of the records of each range agree with the metarange.  Memory: 2 MiB of records."""
    census: Census | Absent = ABSENT
    of: RangeRef | Absent = ABSENT
    for group in _groups(space, refs):
        paths = group.records.paths
        is_in_order = is_ascending(paths)
        for ref, first, beyond in group.shares:
            if not is_in_order and not is_ascending(paths.slice(first, beyond - first)):
                raise Corrupt(f"range has keys out of order: range={ref.id}")
            if census is ABSENT or ref is not of:
                if census is not ABSENT:
                    census.close()
                census, of = Census(ref), ref
            if first < beyond:
                edges = paths[first].as_py(), paths[beyond - 1].as_py()
                census.count(*edges, beyond - first)
        if len(group.records):
            yield group
    if census is not ABSENT:
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


def _groups(space: Keyspace, refs: Iterable[RangeRef]) -> Iterator[Group]:
    """Every range has a share in some group, perhaps an empty one."""
    held = _Held()
    for ref in refs:
        if held.refs and ref.min_key <= held.refs[-1].max_key:
            yield held.group()
            held = _Held()
        held.begin(ref)
        for chunk in space.open(ref).chunks():
            if not isinstance(chunk, StoredChunk):  # a table in memory has no blocks
                columns = chunk.columns()
                yield held.group()
                records = records_of(columns.keys, columns.values)
                yield Group(records, [Share(ref, 0, len(records))])
                held = _Held()
                continue
            held.add(chunk)
            if held.length >= _GROUP_BYTES:
                yield held.group()
                held = _Held()
                held.begin(ref)
    yield held.group()


class _Held:
    """Blocks of adjacent ranges, until they are a group."""

    def __init__(self) -> None:
        self.refs: list[RangeRef] = []
        self._begins: list[int] = []  # the number of the first block of each range
        self._chunks: list[StoredChunk] = []
        self._blocks: list[StoredBlock] = []
        self.length = 0

    def begin(self, ref: RangeRef) -> None:
        """The next blocks are of this range."""
        self.refs.append(ref)
        self._begins.append(len(self._chunks))

    def add(self, chunk: StoredChunk) -> None:
        """Add a block.  Raises `Corrupt`, `StoredAgain`."""
        self._chunks.append(chunk)
        self._blocks.append(chunk.block())
        self.length += self._blocks[-1].length

    def group(self) -> Group:
        """All records."""
        records, firsts = self._parsed()
        bounds = [*(firsts[begin] for begin in self._begins), len(records)]
        return Group(records, list(map(Share, self.refs, bounds, bounds[1:])))

    def _parsed(self) -> tuple[Records, Sequence[int]]:
        """The records, and which of them is the first one of each block, and of what follows."""
        if not self._chunks:
            return records_of((), ()), (0,)
        raw, ends = _unsealed(self._blocks)
        records = whole_records(raw, ends)
        if records is not ABSENT:
            return records, np.searchsorted(records.keys.begin, [0, *ends]).tolist()
        columns = [chunk.columns() for chunk in self._chunks]
        keys = list(chain.from_iterable(each.keys for each in columns))
        values = list(chain.from_iterable(each.values for each in columns))
        return records_of(keys, values), list(accumulate((c.count for c in columns), initial=0))


def _unsealed(blocks: Sequence[StoredBlock]) -> tuple[Any, Sequence[int]]:
    """The payloads one after another, `PAD` zeros, and where each payload ends.  One buffer for all
    saves an allocation for each block, whose page faults cost more than its decompression."""
    ends = list(accumulate(block.length for block in blocks))
    raw = np.empty(ends[-1] + PAD, dtype=np.uint8)
    raw[ends[-1] :] = 0
    room = raw.data
    for block, end in zip(blocks, ends, strict=True):
        block.unseal_into(room[end - block.length : end])
    return raw, ends


def whole_records(raw: Any, ends: Sequence[int]) -> Records | Literal[Absent.ABSENT]:
    """The records of blocks in which every key stands whole.  Returns ABSENT if a block is of
    another kind or damaged; the parser that reads record by record then finds the reason.  `raw`:
    the payloads of all blocks and `PAD` bytes, in an array.  `ends`: where each block ends."""
    layout = _entries(raw, np.array(ends, dtype=np.int64))
    if layout is ABSENT:
        return ABSENT
    begin, end = layout
    unshared, length_at = varints(raw, begin + 1)
    length, begin_key = varints(raw, length_at)
    end_key = begin_key + unshared.astype(np.int64) - _TRAILER
    value = end_key + _TRAILER
    sound = not raw[begin].any() and (begin_key > 0).all() and (unshared >= _TRAILER).all()
    sound = sound and max(unshared.max(), length.max()) <= ends[-1]
    sound = sound and (value + length.astype(np.int64) == end).all()
    if not sound or (raw[end_key] != _SET).any():
        return ABSENT
    return Records(pa.py_buffer(raw), Slices(begin_key, end_key), Slices(value, end))


def _entries(raw: Any, ends: Any) -> Slices | Literal[Absent.ABSENT]:
    """Where the entries of all blocks stand, by the restart offsets of the blocks; ABSENT if a
    block has no offsets, or some that do not ascend from 0 to the end of its entries."""
    begins = np.concatenate([[0], ends[:-1]])
    if not (ends - begins > _RESTART).all():
        return ABSENT
    numbers = windows(raw, "<u4")
    counts = numbers[ends - _RESTART].astype(np.int64)
    tails = ends - _RESTART * (1 + counts)
    if not ((counts > 0) & (tails > begins)).all():
        return ABSENT
    following = np.cumsum(counts)
    first = following - counts
    at = np.arange(following[-1]) * _RESTART + np.repeat(tails - first * _RESTART, counts)
    begin = numbers[at].astype(np.int64) + np.repeat(begins, counts)
    end = np.append(begin[1:], 0)
    end[following - 1] = tails
    if not ((begin[first] == begins).all() and (begin < end).all()):
        return ABSENT
    return Slices(begin, end)
