"""A metarange that reuses what recent ones encoded is the one of a single pass over all records."""

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from graveler.committed import apply, diff, merge, reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import MetarangeBlocks, SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core import wire
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import TOMBSTONE, BreakParameters, Change, RangeRef
from tests import draws
from tests.committed.stores import NAMESPACE, memory_blocks, sst_store, value

COMMITS = 40
KEYS = 1_000


class Branch:
    """One line of commits, beside the records that it should hold."""

    def __init__(self, space: Keyspace, draw: random.Random) -> None:
        self.space = space
        self.draw = draw
        self.records = {self.key(): value(0) for _ in range(KEYS)}
        self.head = writer.write(space, sorted(self.records.items()))

    def key(self) -> bytes:
        return b"folder/%06d" % self.draw.randrange(4 * KEYS)

    def changes(self) -> dict[bytes, Change]:
        found: dict[bytes, Change] = {}
        for _ in range(self.draw.choice([1, 1, 1, 3, 40])):
            kind = self.draw.random()
            key = self.draw.choice(list(self.records)) if kind < 0.5 else self.key()
            found[key] = (key, TOMBSTONE if kind < 0.3 else value(self.draw.randrange(9)))
        return found

    def commit(self) -> None:
        changes = self.changes()
        for key, new in changes.values():
            if new is TOMBSTONE:
                self.records.pop(key, None)
            else:
                self.records[key] = new
        ordered = [changes[key] for key in sorted(changes)]
        self.head = apply.apply(self.space, self.head, ordered).metarange_id

    def one_pass(self) -> MetarangeId:
        plain = self.space._replace(store=MemoryRangeStore())
        return writer.write(plain, sorted(self.records.items()))


@pytest.mark.parametrize("case", draws.seeds(3, 250))
def test_commits_have_the_ids_of_one_pass(tmp_path: Path, case: int) -> None:
    """By any parameters: all cases are 10,000 commits."""
    seed = draws.seed() + case
    print(f"{seed=}")
    draw = random.Random(seed)
    max_size = draw.choice([250, 2_000, 20_000, 1 << 20])
    breaks = BreakParameters(
        min(max_size, draw.choice([0, 0, 200, 3_000])),
        max_size,
        draw.choice([2, 3, 25, 400]),
        draw.randbytes(8),
    )
    print(f"{breaks=}")
    branch = Branch(Keyspace(sst_store(tmp_path), NAMESPACE, breaks), draw)
    for number in range(COMMITS):
        branch.commit()
        if number % 3 == 0 or draws.ALL:
            assert branch.head == branch.one_pass()
    assert branch.head == branch.one_pass()
    assert dict(reader.scan(branch.space, branch.head)) == branch.records


def test_a_file_of_reused_blocks_is_read_by_another_process(tmp_path: Path) -> None:
    """Every fourth commit is read through a store that has nothing in memory; two lines of commits
    take turns, and are merged."""
    seed = random.randrange(1 << 40)
    print(f"seed={seed}")
    draw = random.Random(seed)
    blocks = memory_blocks()
    breaks = BreakParameters(raggedness=2, salt=draw.randbytes(8))
    ours = Branch(Keyspace(sst_store(tmp_path, blocks), NAMESPACE, breaks), draw)
    theirs = Branch(ours.space, draw)
    base = theirs.head = ours.head
    theirs.records = dict(ours.records)
    for turn in range(12):
        ours.commit()
        theirs.commit()
        if turn % 4 == 3:
            cold = ours.space._replace(store=SstRangeStore(StoredFiles(blocks)))
            assert dict(reader.scan(cold, ours.head)) == ours.records
            merged = merge.merge(
                ours.space, base, theirs.head, ours.head, merge.Resolutions("dest-wins")
            )
            held = dict(reader.scan(cold, merged.metarange_id))
            plain = ours.space._replace(store=MemoryRangeStore())
            assert writer.write(plain, sorted(held.items())) == merged.metarange_id


def test_two_lengths_of_ranges_are_compared_and_merged(tmp_path: Path) -> None:
    """A repository whose raggedness changes: old ranges stay until a commit touches them."""
    seed = random.randrange(1 << 40)
    print(f"seed={seed}")
    draw = random.Random(seed)
    long = BreakParameters(raggedness=200, salt=draw.randbytes(8))
    ours = Branch(Keyspace(sst_store(tmp_path), NAMESPACE, long), draw)
    base, old = ours.head, dict(ours.records)
    ours.space = ours.space._replace(breaks=replace(long, raggedness=7))
    theirs = Branch(ours.space, draw)
    theirs.head, theirs.records = base, dict(old)
    for _ in range(6):
        ours.commit()
        theirs.commit()
    assert len(reader.ranges(ours.space, ours.head)) > 2 * len(reader.ranges(ours.space, base))
    for branch in (ours, theirs):
        found = {each.key for each in diff.diff(branch.space, base, branch.head)}
        differing = {key for key, _ in set(old.items()) ^ set(branch.records.items())}
        assert found == differing
        assert dict(reader.scan(branch.space, branch.head)) == branch.records
    kept = merge.Resolutions("dest-wins")
    merged = merge.merge(ours.space, base, theirs.head, ours.head, kept).metarange_id
    expected = dict(old)
    for branch in (theirs, ours):
        for key in old.keys() - branch.records.keys():
            expected.pop(key, None)
        changed = dict(branch.records.items() - old.items())
        expected.update(changed)
    for key in old.keys() - ours.records.keys():
        assert key not in expected
    assert dict(reader.scan(ours.space, merged)) == expected


@pytest.mark.parametrize("length", [12, 400])
def test_blocks_of_metaranges_take_the_memory_that_they_may(length: int) -> None:
    """Nothing else holds the ranges, as after a metarange has left its own cache."""

    def ranges(first: int) -> list[RangeRef]:
        found = []
        for number in range(first, first + 200):
            key = b"%0*d" % (length, number)
            id, identity = RangeId(f"{number:064x}"), number.to_bytes(32, "big")
            ref = RangeRef(id, key, key, 1_500_000 + number, 2_000 + number, identity)
            found.append(wire.decode_range(wire.encode_range(ref)[1]))
        return found

    budget = 400_000
    kept = MetarangeBlocks(budget)
    kept.encoded(ranges(0))  # and all that is made once
    tracemalloc.start()
    try:
        for number in range(1, 13):
            kept.encoded(ranges(200 * number))
        assert tracemalloc.get_traced_memory()[0] < 1.1 * budget
    finally:
        tracemalloc.stop()
