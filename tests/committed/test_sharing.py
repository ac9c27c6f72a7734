"""What is not opened, not written, and the same however it was written."""

import itertools
import random

import pytest

from graveler.committed import apply, diff, merge, reader, writer
from graveler.committed.ranges import EMPTY_METARANGE, Keyspace
from graveler.committed.writer import Splitter
from graveler.core.errors import Invalid
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, BreakParameters, Change, RangeRef, Record
from tests.committed.stores import NAMESPACE, CountingStore, value

RECORDS: list[Record] = [(b"%06d" % (2 * at), value(at)) for at in range(5_000)]


@pytest.fixture
def base(space: Keyspace, store: CountingStore) -> MetarangeId:
    written = writer.write(space, RECORDS)
    assert len(reader.ranges(space, written)) > 50
    store.forget()
    return written


def changed(space: Keyspace, base: MetarangeId, *numbers: int) -> MetarangeId:
    changes: list[Change] = [(b"%06d" % number, value(number + 1)) for number in numbers]
    return apply.apply(space, base, changes).metarange_id


def test_one_change_reads_and_writes_one_range(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    result = changed(space, base, 5_000)
    assert len(set(store.opened)) == 1
    assert len(store.written) == 1
    before, after = set(reader.ranges(space, base)), set(reader.ranges(space, result))
    assert len(before - after) == len(after - before) == 1


def test_changes_without_effect_write_nothing(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    same = [(key, value(at, address=7)) for at, (key, _) in enumerate(RECORDS)]
    assert apply.apply(space, base, same[::100]) == (base, 0, 0, 0)
    assert apply.apply(space, base, same) == (base, 0, 0, 0)
    assert apply.apply(space, base, [(b"000001", TOMBSTONE), (b"z", TOMBSTONE)]).total == 0
    assert apply.apply(space, base, []).metarange_id == base
    assert apply.apply(space, MetarangeId(""), []).metarange_id == ""
    assert not store.written


def test_replace_takes_equal_identities_with_other_bytes(
    space: Keyspace, base: MetarangeId
) -> None:
    key, old = RECORDS[10]
    moved = value(10, address=7)
    assert moved != old
    result = apply.apply(space, base, [(key, moved)], replace=True)
    assert result.changed == 1
    assert reader.get(space, result.metarange_id, key) == moved
    assert apply.apply(space, result.metarange_id, [(key, moved)], replace=True).total == 0


def test_a_change_keeps_the_older_record_where_identities_are_equal(
    space: Keyspace, base: MetarangeId
) -> None:
    changes: list[Change] = [(RECORDS[10][0], value(10, address=7)), (RECORDS[11][0], value(0))]
    result = apply.apply(space, base, changes)
    assert (result.changed, result.added, result.removed) == (1, 0, 0)
    assert reader.get(space, result.metarange_id, RECORDS[10][0]) == RECORDS[10][1]


def test_an_emptied_keyspace_has_the_id_of_the_empty_metarange(
    space: Keyspace, base: MetarangeId
) -> None:
    result = apply.apply(space, base, [(key, TOMBSTONE) for key, _ in RECORDS])
    assert result == (EMPTY_METARANGE, 0, 0, 5_000)
    assert list(reader.scan(space, EMPTY_METARANGE)) == []
    assert apply.apply(space, EMPTY_METARANGE, [(b"a", TOMBSTONE)]).metarange_id == EMPTY_METARANGE
    again = apply.apply(space, EMPTY_METARANGE, list(RECORDS))
    assert again == (base, 5_000, 0, 0)


def test_disorder_is_refused(space: Keyspace, base: MetarangeId) -> None:
    falling: list[Change] = [(b"b", value(1)), (b"a", value(1))]
    twice: list[Change] = [(b"a", value(1)), (b"a", TOMBSTONE)]
    for wrong in (falling, twice):
        with pytest.raises(Invalid):
            apply.apply(space, base, wrong)
    with pytest.raises(Invalid):
        writer.write(space, [RECORDS[1], RECORDS[0]])
    broken = [*RECORDS, (RECORDS[0][0], b"")]
    with pytest.raises(Invalid):
        writer.write(space, broken)


def test_diff_opens_only_what_differs(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    result = changed(space, base, 10, 5_000, 9_998)
    store.forget()
    found = [one.key for one in diff.diff(space, base, result)]
    assert found == [b"000010", b"005000", b"009998"]
    assert len(store.opened) == 6
    store.forget()
    assert [one.key for one in diff.diff(space, base, result, start=b"0051")] == [b"009998"]
    assert len(store.opened) == 2
    store.forget()
    assert next(diff.diff(space, base, result)).key == b"000010"
    assert len(store.opened) == 2
    store.forget()
    assert not list(diff.diff(space, base, result, prefix=b"001"))
    assert not store.opened


def test_another_number_of_records_is_another_content_and_opens_nothing(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    result = changed(space, base, 11, 5_001)  # between the records of the base
    store.forget()
    assert not diff.is_equal(space, base, result)
    assert not diff.is_equal(space, result, base, prefix=b"00")
    assert diff.is_equal(space, base, base)
    assert not store.opened
    assert diff.is_equal(space, base, result, prefix=b"0000100")  # between two paths of one range
    assert not diff.is_equal(space, base, result, prefix=b"000011")
    assert store.opened


def test_the_same_number_of_records_is_compared(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    other_bytes: list[Change] = [(b"000010", value(5, address=1))]
    same = apply.apply(space, base, other_bytes, replace=True).metarange_id
    assert same != base
    store.forget()
    assert diff.is_equal(space, base, same)
    assert not diff.is_equal(space, same, changed(space, base, 10))
    assert len(set(store.opened)) == 3


def test_merge_opens_only_what_changed_on_both_sides(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    source = changed(space, base, 10, 5_000)
    destination = changed(space, base, 12, 9_998)
    store.forget()
    merged = merge.merge(space, base, source, destination)
    shared = {ref.id for ref in reader.ranges(space, base)[:2]}
    assert set(store.opened) & shared
    assert len(set(store.opened)) <= 4
    assert len(store.written) <= 1
    store.forget()
    assert not list(merge.conflicts(space, base, source, destination))
    assert len(set(store.opened)) <= 5
    tree = dict(RECORDS)
    tree |= {b"%06d" % number: value(number + 1) for number in (10, 12, 5_000, 9_998)}
    assert merged.metarange_id == writer.write(space, sorted(tree.items()))


def test_sides_that_changed_apart_merge_without_opening_anything(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    source, destination = changed(space, base, 10), changed(space, base, 9_998)
    store.forget()
    merged = merge.merge(space, base, source, destination)
    assert not store.opened
    assert not store.written
    assert reader.get(space, merged.metarange_id, b"000010") == value(11)
    assert reader.get(space, merged.metarange_id, b"009998") == value(9_999)


def test_a_merge_with_conflicts_writes_no_metarange(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    source = changed(space, base, 10)
    destination = apply.apply(space, base, [(b"000010", TOMBSTONE)]).metarange_id
    before = set(store.metaranges)
    assert merge.merge(space, base, source, destination).metarange_id == destination
    assert set(store.metaranges) == before


@pytest.mark.parametrize("seed", range(20))
def test_pieces_cut_at_hash_breaks_are_the_ranges_of_one_pass(seed: int) -> None:
    generator = random.Random(seed)
    breaks = BreakParameters(
        max_size=generator.choice([2_000, 1_000_000]), raggedness=40, salt=generator.randbytes(8)
    )
    space = Keyspace(CountingStore(), NAMESPACE, breaks)
    splitter = Splitter(breaks)
    cuts = [at + 1 for at, (key, _) in enumerate(RECORDS) if splitter.is_hash_break(key)]
    cuts = [0, *sorted(generator.sample(cuts, 10)), len(RECORDS)]
    refs: list[RangeRef] = []
    for begin, end in itertools.pairwise(cuts):
        piece = writer.write(space, RECORDS[begin:end])
        refs.extend(reader.ranges(space, piece))
    whole = writer.write(space, RECORDS)
    assert list(reader.ranges(space, whole)) == refs
    assert space.store.write_metarange(NAMESPACE, refs) == whole


@pytest.mark.parametrize("seed", range(20))
def test_ranges_keep_the_rule_of_breaks(seed: int) -> None:
    generator = random.Random(seed)
    breaks = BreakParameters(
        min_size=generator.choice([0, 500, 5_000]),
        max_size=generator.choice([1, 900, 100_000]),
        raggedness=generator.choice([1, 20, 1_000_000]),
        salt=generator.randbytes(3),
    )
    space = Keyspace(CountingStore(), NAMESPACE, breaks)
    splitter = Splitter(breaks)
    expected, size = [], 0
    for key, held in RECORDS[:500]:
        size += len(key) + len(held)
        if size >= breaks.min_size and (size >= breaks.max_size or splitter.is_hash_break(key)):
            expected.append((key, size))
            size = 0
    if size:
        expected.append((RECORDS[499][0], size))
    refs = reader.ranges(space, writer.write(space, RECORDS[:500]))
    assert [(ref.max_key, ref.size) for ref in refs] == expected


def test_ranges_of_other_break_parameters_are_shared_too(
    space: Keyspace, store: CountingStore, base: MetarangeId
) -> None:
    foreign = Keyspace(store, NAMESPACE, BreakParameters(raggedness=50, salt=b"another"))
    result = changed(foreign, base, 5_000)
    before, after = set(reader.ranges(space, base)), set(reader.ranges(space, result))
    assert len(before - after) == 1
