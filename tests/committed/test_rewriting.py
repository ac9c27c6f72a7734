"""Ranges that another process rewrites: the result is that of a store for which nobody does."""

import random
from collections.abc import Callable, Sequence

import pytest

from graveler.committed import apply, merge, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace, Rewrite, Rewriting, Rewritten
from graveler.core import identity
from graveler.core.errors import Gone, Unavailable
from graveler.core.records import ABSENT, TOMBSTONE, Absent, BreakParameters, Change
from tests.committed.stores import NAMESPACE, CountingStore, key, some_records, value


class SharingStore(CountingStore):
    """Hands ranges to `rewritten`, which fails for a share of them.  It is called when a range is
    handed over, or when its result is wanted."""

    def __init__(self, seed: int, failing: float) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._failing = failing
        self.begun: list[Rewrite] = []
        self.most = 0  # were under way at a time
        self.under_way = 0  # neither taken nor abandoned

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        self.begun.append(rewrite)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        space = Keyspace(self, namespace, breaks)
        if self._random.random() < 0.5:
            done = self.done(space, rewrite)
            return _Begun(self, lambda: done)
        return _Begun(self, lambda: self.done(space, rewrite))

    def done(self, space: Keyspace, rewrite: Rewrite) -> Rewritten | Absent:
        if self._random.random() < self._failing:
            return ABSENT
        return apply.rewritten(space, rewrite)

    def take(self) -> None:
        self.under_way -= 1


class _Begun:
    def __init__(self, store: SharingStore, done: Callable[[], Rewritten | Absent]) -> None:
        self._store = store
        self._done = done

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        self._store.take()
        check()
        return self._done()

    def abandon(self) -> None:
        self._store.take()


def _some_changes(generator: random.Random, count: int) -> list[Change]:
    changes: dict[bytes, Change] = {}
    for _ in range(count):
        path = key(generator)
        new = TOMBSTONE if generator.random() < 0.4 else value(generator.randrange(6))
        changes[path] = (path, new)
    return [changes[path] for path in sorted(changes)]


@pytest.mark.parametrize("seed", range(60))
def test_the_result_is_that_of_one_process(seed: int) -> None:
    generator = random.Random(seed)
    print(f"{seed=}")
    breaks = BreakParameters(
        min_size=generator.choice([0, 0, 150, 600]),
        max_size=generator.choice([400, 2_000, 1_000_000]),
        raggedness=generator.choice([2, 5, 20]),
        salt=b"%d" % seed,
    )
    store = SharingStore(seed, generator.choice([0, 0.3, 1]))
    shared = Keyspace(store, NAMESPACE, breaks)
    alone = Keyspace(MemoryRangeStore(), NAMESPACE, breaks)
    records = sorted(some_records(generator, 300).items())
    base = writer.write(shared, records)
    assert base == writer.write(alone, records)
    for _ in range(6):
        changes = _some_changes(generator, generator.choice([1, 10, 60, 300]))
        replaces = generator.random() < 0.5
        found = apply.apply(shared, base, changes, replace=replaces)
        assert found == apply.apply(alone, base, changes, replace=replaces)
        assert not store.under_way
        base = found.metarange_id


@pytest.mark.parametrize("seed", range(20))
def test_a_merge_of_both_sides_is_that_of_one_process(seed: int) -> None:
    generator = random.Random(seed)
    print(f"{seed=}")
    breaks = BreakParameters(raggedness=4, salt=b"%d" % seed)
    shared = Keyspace(SharingStore(seed, 0.2), NAMESPACE, breaks)
    alone = Keyspace(MemoryRangeStore(), NAMESPACE, breaks)
    records = sorted(some_records(generator, 300).items())
    sides = [_some_changes(generator, 80), _some_changes(generator, 80)]
    results = []
    for space in (shared, alone):
        base = writer.write(space, records)
        ours, theirs = (apply.apply(space, base, each).metarange_id for each in sides)
        results.append(merge.merge(space, base, theirs, ours))
    assert results[0] == results[1]


def _wide(store: MemoryRangeStore) -> tuple[Keyspace, list[bytes]]:
    """A keyspace with a range for each two keys, and its keys."""
    keys = [b"k%04d" % number for number in range(100)]
    breaks = BreakParameters(max_size=2 * len(value(0)), raggedness=1_000_000)
    return Keyspace(store, NAMESPACE, breaks), keys


def test_a_small_change_is_made_here_and_a_large_one_is_shared() -> None:
    store = SharingStore(0, 0)
    space, keys = _wide(store)
    base = writer.write(space, [(each, value(0)) for each in keys])
    few = keys[0:6:2]
    assert apply.apply(space, base, [(each, value(1)) for each in few]).changed == 3
    assert not store.begun
    store.forget()
    done = apply.apply(space, base, [(each, value(1)) for each in keys])
    assert done.changed == len(keys)
    # The first three and the last one are rewritten here, whose end may join what follows.
    assert len(store.begun) == len(keys) // 2 - 4
    assert 1 < store.most <= 9


def test_a_range_is_not_handed_over_with_more_changes_than_memory_is_meant_to_hold() -> None:
    store = SharingStore(0, 0)
    space, keys = _wide(store)
    base = writer.write(space, [(each, value(0)) for each in keys])
    large = identity.frame(b"%032d" % 1, bytes(10_000))
    new = [(b"k0050-%04d" % number, large) for number in range(450)]  # 4.5 MB
    changes: list[Change] = sorted([*new, *((each, value(1)) for each in keys)])
    done = apply.apply(space, base, changes)
    assert (done.added, done.changed) == (len(new), len(keys))
    assert max(len(each.changes) for each in store.begun) < 10
    alone = Keyspace(MemoryRangeStore(), NAMESPACE, space.breaks)
    assert writer.write(alone, [(each, value(0)) for each in keys]) == base
    assert apply.apply(alone, base, changes) == done


def test_an_error_of_another_process_is_met_here() -> None:
    class Failing(SharingStore):
        def done(self, space: Keyspace, rewrite: Rewrite) -> Rewritten | Absent:
            del self.ranges[NAMESPACE, rewrite.ref.id]
            return ABSENT

    store = Failing(0, 0)
    space, keys = _wide(store)
    base = writer.write(space, [(each, value(0)) for each in keys])
    with pytest.raises(Gone, match="content has expired or was lost: range="):
        apply.apply(space, base, [(each, value(1)) for each in keys])
    assert store.most > 1 and not store.under_way


def test_a_check_ends_what_is_handed_over() -> None:
    store = SharingStore(0, 0)
    space, keys = _wide(store)
    base = writer.write(space, [(each, value(0)) for each in keys])
    opened: list[int] = []

    def check() -> None:
        opened.append(1)
        if len(opened) > 10:
            raise Unavailable("deadline")

    changes: Sequence[Change] = [(each, value(1)) for each in keys]
    with pytest.raises(Unavailable, match="deadline"):
        apply.apply(space._replace(check=check), base, changes)
    assert 1 < len(store.begun) < 10 and not store.under_way
