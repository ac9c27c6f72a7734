"""The merge rule, row by row, and the neighbours that a careless merge compares."""

import itertools

import pytest

from graveler.committed import apply, merge, reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, BreakParameters, Difference
from tests.committed.stores import NAMESPACE, value

A, B, C, E, F = (value(number) for number in (1, 2, 3, 5, 6))

# base, source, destination, result ("!" is a conflict): the ten published rows
ROWS = (
    (A, A, A, A),
    (A, B, A, B),
    (A, A, B, B),
    (A, B, B, B),
    (A, B, C, "!"),
    (A, ABSENT, A, ABSENT),
    (A, A, ABSENT, ABSENT),
    (A, ABSENT, ABSENT, ABSENT),
    (A, B, ABSENT, "!"),
    (A, ABSENT, B, "!"),
    (ABSENT, A, ABSENT, A),
    (ABSENT, ABSENT, A, A),
    (ABSENT, A, A, A),
    (ABSENT, A, B, "!"),
)


@pytest.fixture(params=[1, 3, 1_000_000], ids=["single", "few", "one range"])
def space(request: pytest.FixtureRequest) -> Keyspace:
    return Keyspace(MemoryRangeStore(), NAMESPACE, BreakParameters(raggedness=request.param))


def stored(space: Keyspace, tree: dict[bytes, bytes]) -> MetarangeId:
    return writer.write(space, sorted(tree.items()))


@pytest.mark.parametrize("row", ROWS)
def test_the_published_table(space: Keyspace, row: tuple[object, ...]) -> None:
    *sides, result = row
    around = {b"a": E, b"y": E}
    ids = [
        stored(space, around if side is ABSENT else {**around, b"k": side})  # type: ignore[dict-item]
        for side in sides
    ]
    base, source, destination = ids
    merged = merge.merge(space, base, source, destination)
    if result == "!":
        assert merged.metarange_id == ids[2]
        assert merged.conflicts == (Difference("conflict", b"k", sides[2], sides[1]),)  # type: ignore[arg-type]
        for strategy, winner in (("dest-wins", sides[2]), ("source-wins", sides[1])):
            won = merge.merge(space, base, source, destination, merge.Resolutions(strategy))  # type: ignore[arg-type]
            assert reader.get(space, won.metarange_id, b"k") == winner
            assert won.conflicts == ()
    else:
        assert merged.conflicts == ()
        assert reader.get(space, merged.metarange_id, b"k") == result
    assert reader.get(space, merged.metarange_id, b"y") == E


def test_a_new_file_equal_to_the_next_one_that_the_destination_deleted_is_kept(
    space: Keyspace,
) -> None:
    base = stored(space, {b"a": A, b"z": E})
    source = stored(space, {b"a": A, b"y": E, b"z": E})
    destination = stored(space, {b"a": A})
    merged = merge.merge(space, base, source, destination)
    assert dict(reader.scan(space, merged.metarange_id)) == {b"a": A, b"y": E}
    back = merge.merge(space, base, destination, source)
    assert dict(reader.scan(space, back.metarange_id)) == {b"a": A, b"y": E}


def test_files_added_on_both_sides_conflict_though_one_equals_the_next_in_the_base(
    space: Keyspace,
) -> None:
    base = stored(space, {b"a": A, b"m": E})
    source = stored(space, {b"a": A, b"k": E, b"m": E})
    destination = stored(space, {b"a": A, b"k": F, b"m": E})
    for one, two in itertools.permutations((source, destination)):
        merged = merge.merge(space, base, one, two)
        assert [found.key for found in merged.conflicts] == [b"k"]
        assert merged.metarange_id == two


def test_merging_nothing_keeps_the_destination(space: Keyspace) -> None:
    base = stored(space, {b"a": A})
    other = stored(space, {b"a": A, b"b": B})
    assert merge.merge(space, base, base, other).metarange_id == other
    assert merge.merge(space, base, other, other).metarange_id == other
    assert merge.merge(space, MetarangeId(""), MetarangeId(""), other).metarange_id == other


def test_merging_into_an_unchanged_destination_gives_the_source(space: Keyspace) -> None:
    base = stored(space, {b"a": A})
    other = stored(space, {b"a": A, b"b": B})
    assert merge.merge(space, base, other, base).metarange_id == other
    assert merge.merge(space, MetarangeId(""), other, MetarangeId("")).metarange_id == other


def test_unrelated_trees_merge_over_the_empty_base(space: Keyspace) -> None:
    left, right = stored(space, {b"a": A, b"b": B}), stored(space, {b"b": B, b"c": C})
    merged = merge.merge(space, MetarangeId(""), left, right)
    assert dict(reader.scan(space, merged.metarange_id)) == {b"a": A, b"b": B, b"c": C}


def test_all_conflicts_can_be_listed_though_a_merge_names_only_the_first(space: Keyspace) -> None:
    base = stored(space, {b"%04d" % at: A for at in range(500)})
    source = stored(space, {b"%04d" % at: B for at in range(500)})
    destination = stored(space, {b"%04d" % at: C for at in range(500)})
    assert len(list(merge.conflicts(space, base, source, destination))) == 500
    assert len(list(merge.conflicts(space, base, source, destination, b"0400"))) == 100
    assert len(list(merge.conflicts(space, base, source, destination, b"", b"00"))) == 100
    assert len(merge.merge(space, base, source, destination).conflicts) == 100


def test_everything_deleted_on_one_side_leaves_the_empty_metarange(space: Keyspace) -> None:
    base = stored(space, {b"a": A, b"b": B})
    one = apply.apply(space, base, [(b"a", TOMBSTONE)]).metarange_id
    two = apply.apply(space, base, [(b"b", TOMBSTONE)]).metarange_id
    merged = merge.merge(space, base, one, two)
    assert merged.metarange_id == stored(space, {})
    assert merged.metarange_id != ""
