"""Encodes metaranges.  What a commit does not touch costs one comparison, one hash and one copy.

    ranges ──┬─ a block that a recent metarange had ── as it is ──┬──► id
             └─ the ranges between ── encoded, compressed ────────┴──► blocks of the file

The blocks of recent metaranges stay in memory, each with the bytes by which its records enter the
id.  A block is used again only for equal ranges, so the id is that of one pass over all of them.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from graveler.committed import seal, splice
from graveler.committed.cache import BudgetedCache
from graveler.committed.ranges import METARANGE_PROPERTIES
from graveler.core import wire
from graveler.core.identity import pairs
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import RangeRef

_SMALL = seal.BLOCK_LENGTH // 2  # shorter blocks join what is encoded beside them
_RANGE_COST = 400  # approximate bytes of memory of a decoded range reference, without its keys


class _Block(NamedTuple):
    """Adjacent ranges of a metarange.  `hashed`: the bytes by which they enter its id.  `stored`:
    their block in its file.  `key_size`, `size`: of their records, in bytes."""

    refs: tuple[RangeRef, ...]
    hashed: bytes
    stored: bytes
    key_size: int
    size: int

    @property
    def cost(self) -> int:
        """The approximate memory that the block takes, in bytes."""
        references = _RANGE_COST * len(self.refs) + 2 * self.key_size
        return len(self.hashed) + len(self.stored) + references


class EncodedMetarange(NamedTuple):
    """The id of a metarange, and the bytes of its file, in pieces."""

    id: MetarangeId
    content: list[bytes]


class MetarangeBlocks:
    """The blocks of recent metaranges, within a budget in bytes.  Safe for any number of
    threads."""

    def __init__(self, budget: int) -> None:
        self._recent: BudgetedCache[RangeId, _Block] = BudgetedCache(budget)  # by its first range

    def encoded(self, ranges: Sequence[RangeRef]) -> EncodedMetarange:
        """The metarange over `ranges`, which must be in order and apart."""
        blocks = list(self._blocks(tuple(ranges)))
        digest = sha256()
        for block in blocks:
            digest.update(block.hashed)
        digest.update(pairs(METARANGE_PROPERTIES))
        table = splice.of_blocks(
            ((block.refs[-1].max_key, block.stored) for block in blocks),
            len(ranges),
            sum(block.key_size for block in blocks),
            sum(block.size for block in blocks),
        )
        return EncodedMetarange(MetarangeId(digest.hexdigest()), table.content)

    def _blocks(self, ranges: tuple[RangeRef, ...]) -> Iterator[_Block]:
        new: list[RangeRef] = []
        at = 0
        while at < len(ranges):
            known = self._recent.get(ranges[at].id)
            if known is None or ranges[at : at + len(known.refs)] != known.refs:
                new.append(ranges[at])
                at += 1
                continue
            if new:
                yield from self._new_blocks(new)
                new.clear()
            yield known
            at += len(known.refs)
        yield from self._new_blocks(new)

    def _new_blocks(self, refs: Sequence[RangeRef]) -> Iterator[_Block]:
        records = [wire.encode_range(ref) for ref in refs]
        keys, values = [key for key, _ in records], [value for _, value in records]
        for begin, end in splice.block_bounds(keys, values):
            some, framed = keys[begin:end], values[begin:end]
            key_size = sum(map(len, some))
            block = _Block(
                tuple(refs[begin:end]),
                b"".join(seal.joined(some, framed)),
                seal.compressed(seal.data_payload(some, framed)),
                key_size,
                key_size + sum(map(len, framed)),
            )
            if block.size >= _SMALL:
                self._recent.put(block.refs[0].id, block, block.cost)
            yield block
