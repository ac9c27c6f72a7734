"""Random keyspaces against dictionaries: apply, diff, merge, reads, in every small break rule."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from graveler.committed import apply, diff, merge, reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace, RangeStore
from graveler.core.identity import identity_of
from graveler.core.ids import MetarangeId
from graveler.core.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    BreakParameters,
    Change,
    Difference,
    Strategy,
)
from graveler.core.streams import END
from tests.committed.stores import NAMESPACE, key, some_records, sst_store, value

Tree = dict[bytes, bytes]
Ids = tuple[MetarangeId, MetarangeId, MetarangeId]
UNBOUNDED = 1_000_000


def identity(tree: Mapping[bytes, bytes], path: bytes) -> bytes | Absent:
    return identity_of(tree[path]) if path in tree else ABSENT


def identities(tree: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {path: identity_of(held) for path, held in tree.items()}


def expected_diff(left: Tree, right: Tree) -> Iterator[Difference]:
    for path in sorted({*left, *right}):
        old, new = left.get(path, ABSENT), right.get(path, ABSENT)
        if identity(left, path) != identity(right, path):
            kind = "added" if old is ABSENT else "removed" if new is ABSENT else "changed"
            yield Difference(kind, path, old, new)  # type: ignore[arg-type]


def expected_merge(base: Tree, source: Tree, destination: Tree) -> tuple[Tree, Tree, set[bytes]]:
    """With dest-wins, with source-wins, and the conflicts."""
    trees: tuple[Tree, Tree] = ({}, {})
    conflicts = set()
    for path in {*base, *source, *destination}:
        b, s, d = (identity(tree, path) for tree in (base, source, destination))
        if s in (d, b):
            winners = (destination, destination)
        elif d == b:
            winners = (source, source)
        else:
            winners = (destination, source)
            conflicts.add(path)
        for tree, winner in zip(trees, winners, strict=True):
            if path in winner:
                tree[path] = winner[path]
    return *trees, conflicts


class World:
    """One random keyspace with three related trees."""

    def __init__(self, seed: int, store: RangeStore) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.breaks = BreakParameters(
            min_size=draw.choice([0, 0, 0, 100]),
            max_size=draw.choice([300, 1_000, UNBOUNDED]),
            raggedness=draw.choice([1, 3, 10, 40]),
            salt=draw.randbytes(4),
        )
        self.space = Keyspace(store, NAMESPACE, self.breaks)
        self.is_foreign = seed % 5 == 4  # the first tree was written by another break rule

    @property
    def is_canonical(self) -> bool:
        """Whether the ranges follow from the records alone."""
        bounded = self.breaks.min_size or self.breaks.max_size != UNBOUNDED
        return not bounded and not self.is_foreign

    def tree(self) -> Tree:
        return some_records(self.random, self.random.choice([0, 3, 50, 300]))

    def changes(self, base: Tree) -> dict[bytes, Change]:
        found: dict[bytes, Change] = {}
        if self.random.random() < 0.4:  # a new value for every path, or for nearly every one
            kinds, kept = self.random.choice([1, 4]), self.random.choice([0, 0, 0.02, 0.9])
            for path in sorted(base):
                if self.random.random() >= kept:
                    new = value(self.random.randrange(kinds), self.random.randrange(2))
                    found[path] = (path, new)
        for _ in range(self.random.choice([0, 1, 3, 60])):
            path = key(self.random)
            deleted = self.random.random() < 0.4
            address = self.random.randrange(3)
            new = TOMBSTONE if deleted else value(self.random.randrange(4), address)
            found[path] = (path, new)
        return found

    def write(self, tree: Tree) -> MetarangeId:
        return writer.write(self.space, sorted(tree.items()))

    def write_first(self, tree: Tree) -> MetarangeId:
        if not self.is_foreign:
            return self.write(tree)
        foreign = replace(self.breaks, salt=b"another", raggedness=7)
        return writer.write(self.space._replace(breaks=foreign), sorted(tree.items()))

    def read(self, metarange: MetarangeId) -> Tree:
        return dict(reader.scan(self.space, metarange))

    def check_apply(self, base_id: MetarangeId, base: Tree) -> tuple[MetarangeId, Tree]:
        changes = self.changes(base)
        replacing = self.random.random() < 0.3
        result = apply.apply(
            self.space, base_id, [changes[path] for path in sorted(changes)], replace=replacing
        )
        tree = dict(base)
        counts = {"added": 0, "changed": 0, "removed": 0}
        for path, new in changes.values():
            if new is TOMBSTONE:
                counts["removed"] += tree.pop(path, None) is not None
            elif path not in tree:
                counts["added"] += 1
                tree[path] = new
            elif identity_of(tree[path]) != identity_of(new) or (replacing and tree[path] != new):
                counts["changed"] += 1
                tree[path] = new
        assert result._asdict() == {"metarange_id": result.metarange_id, **counts}
        assert list(reader.scan(self.space, result.metarange_id)) == sorted(tree.items())
        assert not list(reader.metarange_damages(self.space, result.metarange_id))
        if not result.total:
            assert result.metarange_id == base_id
        if self.is_canonical:
            assert result.metarange_id == self.write(tree)
        return result.metarange_id, tree

    def check_diff(
        self, left_id: MetarangeId, left: Tree, right_id: MetarangeId, right: Tree
    ) -> None:
        all_of_them = list(expected_diff(left, right))
        assert list(diff.diff(self.space, left_id, right_id)) == all_of_them
        start, prefix = key(self.random), key(self.random)[:3]
        assert list(diff.diff(self.space, left_id, right_id, start, prefix)) == [
            one for one in all_of_them if one.key >= start and one.key.startswith(prefix)
        ]
        assert diff.is_equal(self.space, left_id, right_id) == (not all_of_them)
        below = [one for one in all_of_them if one.key.startswith(prefix)]
        assert diff.is_equal(self.space, left_id, right_id, prefix) == (not below)

    def check_merge(self, ids: Ids, trees: tuple[Tree, Tree, Tree]) -> None:
        base_id, source_id, destination_id = ids
        base, source, destination = trees
        kept, taken, conflicts = expected_merge(base, source, destination)
        expected: dict[Strategy, Tree] = {"dest-wins": kept, "source-wins": taken}
        for strategy, tree in expected.items():
            merged = merge.merge(self.space, *ids, merge.Resolutions(strategy))
            found = self.read(merged.metarange_id)
            assert identities(found) == identities(tree)
            assert all(held in (source.get(p), destination.get(p)) for p, held in found.items())
            if self.is_canonical:
                assert merged.metarange_id == self.write(found)
        merged = merge.merge(self.space, base_id, source_id, destination_id)
        assert [one.key for one in merged.conflicts] == sorted(conflicts)[:100]
        if conflicts:
            assert merged.metarange_id == destination_id
        else:
            assert identities(self.read(merged.metarange_id)) == identities(kept)
        self.check_preview(ids, trees, conflicts)

    def check_preview(
        self, ids: Ids, trees: tuple[Tree, Tree, Tree], conflicts: set[bytes]
    ) -> None:
        _, source, destination = trees
        kept, _, _ = expected_merge(*trees)
        found = list(merge.differences(self.space, *ids))
        assert [one.key for one in found] == sorted(one.key for one in found)
        clashes = [one for one in found if one.kind == "conflict"]
        assert clashes == list(merge.conflicts(self.space, *ids))
        assert {one.key for one in clashes} == conflicts
        for one in clashes:
            assert one.left == destination.get(one.key, ABSENT)
            assert one.right == source.get(one.key, ABSENT)
        effects = [(one.kind, one.key) for one in found if one.kind != "conflict"]
        assert effects == [(one.kind, one.key) for one in expected_diff(destination, kept)]
        start, prefix = key(self.random), key(self.random)[:3]
        assert list(merge.differences(self.space, *ids, start, prefix)) == [
            one for one in found if one.key >= start and one.key.startswith(prefix)
        ]

    def check_reads(self, metarange: MetarangeId, tree: Tree) -> None:
        ordered = sorted(tree.items())
        start, prefix = key(self.random), key(self.random)[:3]
        assert list(reader.scan(self.space, metarange, start, prefix)) == [
            (path, held) for path, held in ordered if path >= start and path.startswith(prefix)
        ]
        wanted = [key(self.random) for _ in range(self.random.choice([3, 200]))]
        assert reader.get_many(self.space, metarange, wanted) == {
            path: tree[path] for path in wanted if path in tree
        }
        for path in wanted:
            assert reader.get(self.space, metarange, path) == tree.get(path, ABSENT)
        self.check_cursor(metarange, tree)

    def check_cursor(self, metarange: MetarangeId, tree: Tree) -> None:
        ordered = sorted(tree.items())
        cursor = reader.cursor(self.space, metarange)
        position = b""
        for _ in range(60):
            if self.random.random() < 0.4:
                target = key(self.random)
                cursor.seek(target)
                position = max(position, target)
            expected = next((item for item in ordered if item[0] >= position), END)
            assert cursor.peek() == expected
            if expected is END:
                return
            if self.random.random() < 0.7:
                cursor.advance()
                position = expected[0] + b"\0"


def play(seed: int, store: RangeStore) -> None:
    world = World(seed, store)
    base = world.tree()
    base_id = world.write_first(base)
    assert world.read(base_id) == base
    source_id, source = world.check_apply(base_id, base)
    source_id, source = world.check_apply(source_id, source)
    destination_id, destination = world.check_apply(base_id, base)
    world.check_diff(source_id, source, destination_id, destination)
    world.check_merge((base_id, source_id, destination_id), (base, source, destination))
    world.check_reads(source_id, source)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_random_keyspaces_agree_with_dictionaries(batch: int) -> None:
    first = random.randrange(1 << 40)
    print(f"seeds={first}..{first + 39}")
    for seed in range(first, first + 40):
        try:
            play(seed, MemoryRangeStore())
        except BaseException:
            print(f"failed at seed={seed}")
            raise


def test_random_keyspaces_in_tables_agree_with_dictionaries(tmp_path: Path) -> None:
    first = random.randrange(1 << 40)
    for seed in range(first, first + 12):
        print(f"seed={seed}")
        play(seed, sst_store(tmp_path))


@pytest.mark.parametrize("seed", [*range(60), 10710])
def test_the_same_keyspaces_every_time(seed: int) -> None:
    play(seed, MemoryRangeStore())


def test_the_model_notices_a_wrong_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: if no path differs, some seed must fail."""
    monkeypatch.setattr(merge, "differences", lambda *_: iter(()))
    with pytest.raises(AssertionError):
        for seed in range(60):
            play(seed, MemoryRangeStore())
