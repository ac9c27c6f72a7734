"""Written ranges over a head that moved: the ranges that one change after the other would give."""

import random
from collections.abc import Mapping

import pytest

from graveler.committed import apply, diff, reader, writer
from graveler.committed.graft import check_below, follow, reapply, splice
from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.core.errors import Invalid
from graveler.core.ids import NO_METARANGE, MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, BreakParameters, Change
from graveler.core.streams import Prefixes
from tests.committed.stores import NAMESPACE, CountingStore, value
from tests.draws import seeds

Tree = dict[bytes, bytes]
FOLDERS = (b"a", b"b", b"b/x", b"c", b"d")


def drawn_space(generator: random.Random, min_sizes: tuple[int, ...]) -> Keyspace:
    breaks = BreakParameters(
        min_size=generator.choice(min_sizes),
        max_size=generator.choice([400, 2_000, 1_000_000]),
        raggedness=generator.choice([1, 3, 8, 1_000]),
        salt=generator.randbytes(4),
    )
    return Keyspace(CountingStore(), NAMESPACE, breaks)


def drawn_tree(generator: random.Random, count: int) -> Tree:
    return {
        b"%b/%03d" % (generator.choice(FOLDERS), generator.randrange(200)): drawn_value(generator)
        for _ in range(count)
    }


def drawn_value(generator: random.Random) -> bytes:
    return value(generator.randrange(3), generator.randrange(2))


def drawn_changes(generator: random.Random, tree: Tree) -> dict[bytes, bytes | None]:
    """Few or many, in one folder or in all; some keep the identity, some change nothing."""
    count = generator.choice([0, 1, 3, 20, 100])
    folder = generator.choice([b"", b"", *FOLDERS])
    found: dict[bytes, bytes | None] = {}
    for key in [*tree, *drawn_tree(generator, 50)]:
        if key.startswith(folder) and generator.random() < count / 100:
            found[key] = None if generator.random() < 0.3 else drawn_value(generator)
    return found


def changed(tree: Tree, changes: Mapping[bytes, bytes | None]) -> Tree:
    new = {key: held for key, held in {**tree, **changes}.items() if held is not None}
    return dict(sorted(new.items()))


def staged(changes: Mapping[bytes, bytes | None]) -> list[Change]:
    return [(key, TOMBSTONE if held is None else held) for key, held in sorted(changes.items())]


def stored(space: Keyspace, tree: Tree) -> MetarangeId:
    return writer.write(space, sorted(tree.items()))


def applied(space: Keyspace, base: MetarangeId, changes: list[Change]) -> MetarangeId:
    """The reference: one change after the other."""
    return apply.apply(space, base, changes, replace=True).metarange_id


def replaced(
    space: Keyspace, head: MetarangeId, written: MetarangeId, prefix: bytes
) -> MetarangeId:
    """A splice with one prefix."""
    return splice(space, head, written, Prefixes([prefix]))


@pytest.mark.parametrize("min_size", [0, 300])
def test_a_replaced_prefix_has_the_ranges_of_a_sequential_apply(min_size: int) -> None:
    for seed in seeds(50, 150):
        _replace_a_prefix(seed, min_size)


def _replace_a_prefix(seed: int, min_size: int) -> None:
    generator = random.Random(seed)
    space = drawn_space(generator, (min_size,))
    tree = drawn_tree(generator, generator.choice([0, 3, 60, 300]))
    prefix = generator.choice([b"", b"b", b"b/", b"b/x/", b"a/", b"d/1", b"nothing/"])
    fresh = {
        prefix + b"%03d" % generator.randrange(300): drawn_value(generator)
        for _ in range(generator.choice([0, 1, 5, 100]))
    }
    if generator.random() < 0.3:  # part of it is there already
        fresh |= {key: held for key, held in tree.items() if key.startswith(prefix)}
    head = stored(space, tree)
    there: dict[bytes, bytes | None] = {key: None for key in tree if key.startswith(prefix)}
    expected = applied(space, head, staged({**there, **fresh}))
    assert replaced(space, head, stored(space, fresh), prefix) == expected, f"{seed=}"


@pytest.mark.parametrize("min_size", [0, 300])
def test_a_splice_has_the_ranges_of_a_sequential_apply(min_size: int) -> None:
    for seed in seeds(100, 400):
        _splice(seed, min_size)


def _splice(seed: int, min_size: int) -> None:
    generator = random.Random(seed)
    space = drawn_space(generator, (min_size,))
    tree = drawn_tree(generator, generator.choice([0, 3, 60, 300]))
    folders = [
        b"",
        b"b",
        b"b/",
        b"b/x/",
        b"a/",
        b"a/0",
        b"a/01",
        b"d/1",
        b"d/2",
        b"c/",
        b"nothing/",
    ]
    chosen = generator.sample(folders, generator.choice([0, 0, 1, 2, 5]))
    fresh = drawn_tree(generator, generator.choice([0, 1, 5, 100]))
    if generator.random() < 0.3:  # as a compaction: only what is replaced comes back
        fresh = {key: drawn_value(generator) for key in tree if key.startswith(tuple(chosen))}
    if generator.random() < 0.2:  # part of it is there already
        fresh |= {key: held for key, held in tree.items() if generator.random() < 0.5}
    head, written = stored(space, tree), stored(space, fresh)
    gone: dict[bytes, bytes | None] = {key: None for key in tree if key.startswith(tuple(chosen))}
    expected = applied(space, head, staged({**gone, **fresh}))
    found = splice(space, head, written, Prefixes(chosen))
    assert dict(reader.scan(space, found)) == changed(changed(tree, gone), fresh), f"{seed=}"
    assert reader.ranges(space, found) == reader.ranges(space, expected), f"{seed=}"


def test_the_first_difference_below_some_prefixes_is_found() -> None:
    for seed in seeds(100, 400):
        generator = random.Random(seed)
        space = drawn_space(generator, (0, 300))
        tree = drawn_tree(generator, 300)
        ours = drawn_changes(generator, tree)
        left = stored(space, tree)
        right = applied(space, left, staged(ours))
        chosen = [
            key[: generator.choice([1, 2, 4, 5])] for key in generator.sample(sorted(tree), 3)
        ]
        prefixes = tuple(chosen[: generator.randrange(4)])
        differ = diff.diff(space, left, right)
        below = [each.key for each in differ if each.key.startswith(prefixes)] if prefixes else []
        found = diff.first_difference(space, left, right, Prefixes(prefixes))
        assert found == (below[0] if below else ABSENT), f"{seed=} {prefixes=}"


def test_a_splice_opens_no_range_that_it_does_not_change(
    space: Keyspace, store: CountingStore
) -> None:
    folders = (b"a", b"b", b"c", b"d")
    tree = {b"%b/%05d" % (folder, at): value(at) for folder in folders for at in range(1_000)}
    head = stored(space, tree)
    behind = stored(space, {b"z/%05d" % at: value(at) for at in range(1_000)})
    inside = stored(space, {b"b/%05d" % at: value(at + 1) for at in range(500, 510)})
    count = len(reader.ranges(space, head))
    for written, prefixes, most in ((behind, (), 2), (inside, (), 6), (inside, (b"b/", b"d/"), 12)):
        store.forget()
        found = splice(space, head, written, Prefixes(prefixes))
        assert len(store.opened) <= most < count / 4, (store.opened, prefixes)
        assert len(store.written) <= most
        assert set(dict(reader.scan(space, written)).items()) <= set(
            dict(reader.scan(space, found)).items()
        )


@pytest.mark.parametrize("min_size", [0, 300])
def test_changes_on_a_moved_head_have_the_ranges_of_a_sequential_apply(min_size: int) -> None:
    for seed in seeds(50, 150):
        _move_changes(seed, min_size)


def _move_changes(seed: int, min_size: int) -> None:
    generator = random.Random(seed)
    space = drawn_space(generator, (min_size,))
    tree = drawn_tree(generator, generator.choice([0, 3, 60, 300]))
    base = stored(space, tree)
    ours, theirs = drawn_changes(generator, tree), drawn_changes(generator, tree)
    ours = {key: held for key, held in ours.items() if held != tree.get(key)}
    written = applied(space, base, staged(ours))
    head = applied(space, base, staged(theirs))
    expected = applied(space, head, staged(ours))
    found = reapply(space, base, written, head)
    tree = changed(changed(tree, theirs), ours)
    assert dict(reader.scan(space, found)) == tree, f"{seed=}"
    assert found in (expected, stored(space, tree)), f"{seed=}"
    assert reader.ranges(space, found) == reader.ranges(space, expected), f"{seed=}"


def test_heads_of_other_breaks_keep_their_content() -> None:
    for seed in seeds(30, 60):
        generator = random.Random(seed)
        space, foreign = (drawn_space(generator, (0, 300)) for _ in range(2))
        foreign = Keyspace(space.store, NAMESPACE, foreign.breaks)
        tree = drawn_tree(generator, 200)
        fresh = {b"b/%03d" % generator.randrange(300): value(7) for _ in range(50)}
        found = replaced(space, stored(foreign, tree), stored(space, fresh), b"b/")
        kept = {key: held for key, held in tree.items() if not key.startswith(b"b/")}
        assert dict(reader.scan(space, found)) == dict(sorted({**kept, **fresh}.items())), seed
        ours, theirs = drawn_changes(generator, tree), drawn_changes(generator, tree)
        base = stored(foreign, tree)
        written = stored(space, changed(tree, ours))
        head = applied(foreign, base, staged(theirs))
        found = reapply(space, base, written, head)
        ours = {key: held for key, held in ours.items() if held != tree.get(key)}
        assert dict(reader.scan(space, found)) == changed(changed(tree, theirs), ours), seed


def test_whole_ranges_of_both_sides_go_in_unopened(space: Keyspace, store: CountingStore) -> None:
    folders = (b"a", b"b", b"c")
    tree = {b"%b/%05d" % (folder, at): value(at) for folder in folders for at in range(1_000)}
    head, fresh = stored(space, tree), {b"b/%05d" % at: value(at + 1) for at in range(1_000)}
    written = stored(space, fresh)
    store.forget()
    found = replaced(space, head, written, b"b/")
    before, after = reader.ranges(space, head), reader.ranges(space, found)
    assert len(after) > 40 and len(set(store.opened)) <= 6 and len(store.written) <= 3
    ids = {ref.id for ref in after}
    assert {ref.id for ref in before if ref.max_key < b"a/00900"} <= ids
    assert {ref.id for ref in reader.ranges(space, written) if ref.min_key > b"b/00100"} & ids
    assert dict(reader.scan(space, found)) == dict(sorted({**tree, **fresh}.items()))


def test_changes_apart_from_others_open_nothing(space: Keyspace, store: CountingStore) -> None:
    base = stored(space, {b"%05d" % at: value(at) for at in range(3_000)})
    written = applied(space, base, [(b"00010", value(1))])
    head = applied(space, base, [(b"02990", value(1)), (b"02991", TOMBSTONE)])
    store.forget()
    found = reapply(space, base, written, head)
    assert not store.opened and not store.written
    assert reader.get(space, found, b"00010") == value(1) == reader.get(space, found, b"02990")


def test_what_nothing_is_to_be_done_to_stays_as_it_is(
    space: Keyspace, store: CountingStore
) -> None:
    head = stored(space, {b"a/1": value(1), b"b/1": value(2)})
    same = stored(space, {b"b/1": value(2)})
    count = len(store.metaranges)
    assert replaced(space, head, same, b"b/") == head
    assert replaced(space, head, head, b"") == head
    assert replaced(space, NO_METARANGE, same, b"b/") == same
    assert reapply(space, head, head, same) == same
    assert reapply(space, head, same, head) == same
    assert len(store.metaranges) == count
    assert replaced(space, head, EMPTY_METARANGE, b"") == EMPTY_METARANGE


def test_ranges_beside_the_prefix_are_refused(space: Keyspace) -> None:
    for keys in ([b"a", b"b/1"], [b"b/1", b"c"], [b"b"]):
        written = stored(space, dict.fromkeys(keys, value(1)))
        with pytest.raises(Invalid, match="below the prefix"):
            check_below(reader.ranges(space, written), b"b/")


def test_many_written_ranges_between_two_records_go_in_unopened(
    space: Keyspace, store: CountingStore
) -> None:
    head = stored(space, {b"a": value(1), b"b/00000x": value(1), b"c": value(1)})
    fresh = {b"b/%05d" % at: value(at) for at in range(3_000)}
    written = stored(space, fresh)
    count = len(reader.ranges(space, written))
    store.forget()
    found = splice(space, head, written, Prefixes())
    assert count > 40 and len(set(store.opened)) <= 6 and len(store.written) <= 4
    expected = {**dict(reader.scan(space, head)), **fresh}
    assert dict(reader.scan(space, found)) == dict(sorted(expected.items()))


def test_other_ranges_follow_a_head_that_moved() -> None:
    """What the head says, however the ranges that say what the base says are cut."""
    for seed in seeds(100, 300):
        generator = random.Random(seed)
        old, new = drawn_space(generator, (0, 300)), drawn_space(generator, (0, 700))
        new = new._replace(store=old.store)
        tree = drawn_tree(generator, generator.choice([0, 5, 200]))
        base, written = (writer.write(space, sorted(tree.items())) for space in (old, new))
        changes = dict[bytes, bytes | None]()
        for key in generator.sample(sorted(tree), min(len(tree), generator.choice([0, 1, 9]))):
            changes[key] = generator.choice([None, drawn_value(generator)])
        for key in drawn_tree(generator, generator.choice([0, 1, 9])):
            changes[key] = drawn_value(generator)
        said: list[Change] = [
            (key, TOMBSTONE if changed is None else changed)
            for key, changed in sorted(changes.items())
        ]
        head = apply.apply(old, base, said, replace=True).metarange_id
        result = follow(new, base, written, head)
        assert list(reader.scan(new, result)) == list(reader.scan(old, head)), f"{seed=}"
        if head == base:
            assert result == written


def test_following_reads_and_writes_only_what_moved() -> None:
    breaks = BreakParameters(raggedness=20, salt=b"old")
    store = CountingStore()
    old = Keyspace(store, NAMESPACE, breaks)
    new = old._replace(breaks=BreakParameters(min_size=1_000, raggedness=20, salt=b"new"))
    tree = {b"%04d" % number: value(number, 0) for number in range(2_000)}
    base, written = (writer.write(space, sorted(tree.items())) for space in (old, new))
    head = apply.apply(old, base, [(b"1000", value(5, 5))]).metarange_id
    store.forget()
    result = follow(new, base, written, head)
    before, after = (new.metarange(id).ranges for id in (written, result))
    assert len(set(before) - set(after)) == 1
    assert len(set(store.opened)) == 3 and len(store.written) == 1
