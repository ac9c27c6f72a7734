"""Computes the differences between two keyspaces, by the identity of values.

    1  ranges with equal ids, or equal identities, on both sides are not opened
    2  of the other ranges, chunks with equal stored bytes on both sides are not decoded
    3  all other records are compared one by one

Memory is about one range per side.  Nothing is read before the first difference is requested.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from graveler.committed.columns import Chunk
from graveler.committed.ranges import Keyspace, foreseen
from graveler.core.identity import identity_of
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, Absent, Difference, RangeRef, Record
from graveler.core.streams import Prefixes, successor


def diff(
    space: Keyspace,
    left_id: MetarangeId,
    right_id: MetarangeId,
    start: bytes = b"",
    prefix: bytes = b"",
) -> Iterator[Difference]:
    """The paths with `prefix`, from `start` on, whose values differ in identity, in key order:
    `added` (only right), `removed` (only left), `changed`.  Cost: reads the ranges that only one
    side has."""
    if left_id == right_id:
        return iter(())
    left, right = space.metarange(left_id), space.metarange(right_id)
    return compare(space, left.ranges, right.ranges, start, prefix)


def is_equal(
    space: Keyspace, left_id: MetarangeId, right_id: MetarangeId, prefix: bytes = b""
) -> bool:
    """Whether no path with `prefix` has values that differ in identity.

    Cost: reads both metaranges.  Opens no range if those that only one side has differ in their
    number of records and lie below the prefix; else these are read up to the first difference.  So
    the answer does not prove that the ranges are there."""
    if left_id == right_id:
        return True
    beyond = successor(prefix)
    left, right = space.metarange(left_id).ranges, space.metarange(right_id).ranges
    lefts, rights = _unshared(left, right, prefix, beyond, bytewise=False)
    lie_below = all(
        ref.min_key >= prefix and (not beyond or ref.max_key < beyond) for ref in (*lefts, *rights)
    )
    if lie_below and sum(ref.count for ref in lefts) != sum(ref.count for ref in rights):
        return False  # one of them has a path that the other one has not
    return next(_compared(space, lefts, rights, prefix, beyond, bytewise=False), None) is None


def first_difference(
    space: Keyspace, left_id: MetarangeId, right_id: MetarangeId, prefixes: Prefixes
) -> bytes | Absent:
    """The first path below one of the prefixes whose values differ in identity; ABSENT if there is
    none.

    Cost: reads both metaranges, unless they are the same; and the ranges that only one side has and
    that can have a key below one of the prefixes, up to the first difference."""
    if left_id == right_id or not prefixes:
        return ABSENT
    left, right = space.metarange(left_id).ranges, space.metarange(right_id).ranges
    lefts, rights = (
        [ref for ref in refs if prefixes.meet(ref.min_key, ref.max_key)]
        for refs in _unshared(left, right, b"", b"", bytewise=False)
    )
    for difference in _compared(space, lefts, rights, b"", b"", bytewise=False):
        if difference.key in prefixes:
            return difference.key
    return ABSENT


def compare(
    space: Keyspace,
    left: Sequence[RangeRef],
    right: Sequence[RangeRef],
    start: bytes = b"",
    prefix: bytes = b"",
    *,
    bytewise: bool = False,
) -> Iterator[Difference]:
    """As `diff`, over ranges that were read already.  `bytewise`: values of equal identity but
    different bytes count as different too."""
    first, beyond = max(start, prefix), successor(prefix)
    lefts, rights = _unshared(left, right, first, beyond, bytewise=bytewise)
    return _compared(space, lefts, rights, first, beyond, bytewise=bytewise)


def _compared(
    space: Keyspace,
    lefts: Sequence[RangeRef],
    rights: Sequence[RangeRef],
    first: bytes,
    beyond: bytes,
    *,
    bytewise: bool,
) -> Iterator[Difference]:
    """The differences of ranges that the sides do not share."""
    sides = _Side(space, lefts, first), _Side(space, rights, first)
    while ends := [side.end() for side in sides if not side.is_over()]:
        end = min(ends)
        for difference in _differences(sides[0].take(end), sides[1].take(end), bytewise):
            if beyond and difference.key >= beyond:
                return
            if difference.key >= first:
                yield difference


def _unshared(
    left: Sequence[RangeRef],
    right: Sequence[RangeRef],
    first: bytes,
    beyond: bytes,
    *,
    bytewise: bool,
) -> tuple[list[RangeRef], list[RangeRef]]:
    """The ranges that only one side has, with keys from `first` on and before `beyond`."""
    shared: set[str | bytes] = {ref.id for ref in left}
    shared &= {ref.id for ref in right}
    if not bytewise:
        shared |= _identities(left) & _identities(right)
    return _within(left, shared, first, beyond), _within(right, shared, first, beyond)


def _identities(refs: Sequence[RangeRef]) -> set[str | bytes]:
    return {ref.identity for ref in refs if ref.identity}


def _within(
    refs: Sequence[RangeRef], shared: set[str | bytes], first: bytes, beyond: bytes
) -> list[RangeRef]:
    return [
        ref
        for ref in refs
        if ref.id not in shared
        and not (ref.identity and ref.identity in shared)
        and ref.max_key >= first
        and not (beyond and ref.min_key >= beyond)
    ]


Piece = Chunk | list[Record]  # a list is a part of a chunk that was cut at the end of a window


class _Side:
    """The ranges of one side, as pieces that are cut at the ends of the windows."""

    def __init__(self, space: Keyspace, refs: Sequence[RangeRef], first: bytes) -> None:
        self._space = space
        self._refs = refs
        self._begun = foreseen(space, refs, lambda ref: (ref,))
        self._at = 0
        self._first = first
        self._chunks: list[Chunk] | None = None  # of the current range, the next one last
        self._rest: list[Record] = []

    def is_over(self) -> bool:
        return self._at == len(self._refs)

    def end(self) -> bytes:
        """The greatest key of the current range."""
        return self._refs[self._at].max_key

    def take(self, end: bytes) -> list[Piece]:
        """All pieces up to `end` that were not taken yet."""
        pieces: list[Piece] = []
        while not self.is_over() and self._refs[self._at].min_key <= end:
            ref = self._refs[self._at]
            if self._chunks is None:
                next(self._begun)
                self._chunks = [*self._space.open(ref).chunks(self._first)][::-1]
            if self._rest:
                cut = bisect_right(self._rest, end, key=_key)
                pieces.append(self._rest[:cut])
                self._rest = self._rest[cut:]
            while self._chunks and not self._rest:
                chunk = self._chunks.pop()
                if min(chunk.bound, ref.max_key) <= end:
                    pieces.append(chunk)
                    continue
                records = chunk.records()
                cut = bisect_right(records, end, key=_key)
                pieces.append(records[:cut])
                self._rest = records[cut:]
                if not self._rest:
                    continue
            if ref.max_key > end:
                break
            self._chunks, self._rest = None, []
            self._at += 1
        return pieces


def _key(record: Record) -> bytes:
    return record[0]


def _differences(
    left: Sequence[Piece], right: Sequence[Piece], bytewise: bool
) -> Iterator[Difference]:
    shared: set[bytes] = set()
    if left and right:
        shared = {p.stored for p in left if not isinstance(p, list)}
        shared &= {p.stored for p in right if not isinstance(p, list)}
    lefts, rights = _records(left, shared), _records(right, shared)
    differing = set(lefts.items()) ^ set(rights.items()) if lefts and rights else None
    keys = {key for key, _ in differing} if differing is not None else {*lefts, *rights}
    for key in sorted(keys):
        old, new = lefts.get(key, ABSENT), rights.get(key, ABSENT)
        if old is ABSENT:
            yield Difference("added", key, old, new)
        elif new is ABSENT:
            yield Difference("removed", key, old, new)
        elif bytewise or identity_of(old) != identity_of(new):
            yield Difference("changed", key, old, new)


def _records(pieces: Sequence[Piece], shared: set[bytes]) -> dict[bytes, bytes]:
    records: dict[bytes, bytes] = {}
    for piece in pieces:
        if isinstance(piece, list):
            records.update(piece)
        elif piece.stored not in shared:
            records.update(piece.records())
    return records
