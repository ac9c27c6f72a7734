"""What two refs differ in, history and ranges, as DataFrames."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame

from graveler.committed.ranges import Keyspace
from graveler.core.errors import Invalid, NotFound
from graveler.core.records import BreakParameters, RangeRef
from graveler.core.wire import encode_entry
from graveler.spark import Lake, diff, import_, log, ranges
from graveler.spark.diffs import Comparison, comparing, differences, stretches
from graveler.spark.places import Place, opened
from tests.spark.lakes import entry, frame, some_rows
from tests.spark.verbs.test_land import ascii_rows, repository

__all__ = ["repository"]  # a fixture


def told(df: DataFrame) -> list[tuple[str, str]]:
    return sorted((row["type"], row["path"]) for row in df.collect())


def test_a_diff_tells_what_was_added_removed_and_changed(lake: Lake, repository: str) -> None:
    rows = ascii_rows(110, 60)
    import_(lake, frame(lake.spark, rows[:40]), f"{repository}/main/in")
    path, address, size, checksum, *others = rows[39]
    changed = (path, address + "-new", size + 1, checksum[::-1], *others)
    moved = (rows[38][0], rows[38][1] + "-elsewhere", *rows[38][2:])
    import_(
        lake, frame(lake.spark, [*rows[10:38], moved, changed, *rows[40:]]), f"{repository}/main/in"
    )
    refs = f"{repository}/main~1", f"lakefs://{repository}/main"
    expected = {("removed", f"in/{row[0]}") for row in rows[:10]}
    expected |= {("added", f"in/{row[0]}") for row in rows[40:]} | {("changed", f"in/{path}")}
    assert told(diff(lake, *refs)) == sorted(expected)

    found = {row["path"]: row.asDict() for row in diff(lake, *refs).collect()}
    both = found[f"in/{path}"]
    assert (both["left_address"], both["right_address"]) == (address, address + "-new")
    assert (both["left_size"], both["right_size"]) == (size, size + 1)
    gone = found[f"in/{rows[0][0]}"]
    assert (gone["left_checksum"], gone["right_checksum"]) == (rows[0][3], None)
    assert gone["left_mtime"] is not None and gone["right_mtime"] is None

    below = "in/orders/day=1"
    wanted = sorted(each for each in expected if each[1].startswith(below))
    assert wanted and told(diff(lake, *refs, prefix=below)) == wanted
    assert diff(lake, *refs, columns=["metadata"]).columns == [
        *("type", "path", "left_metadata", "right_metadata")
    ]
    assert told(diff(lake, refs[1], refs[1])) == []
    assert len(told(diff(lake, f"{repository}/main~2", refs[1]))) == 50


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Ranges that are small."""
    breaks = BreakParameters(max_size=40_000, raggedness=20, salt=b"s")
    yield Place(f"local:{tmp_path / 'objects'}", "local://lake/r", breaks)
    opened.cache_clear()


@pytest.fixture
def space(place: Place) -> Keyspace:
    """Of that place."""
    return opened(place).space


def stored(space: Keyspace, rows: dict[bytes, bytes], at: int) -> list[RangeRef]:
    """Ranges of so many records each."""
    records = sorted(rows.items())
    pieces = [records[begin : begin + at] for begin in range(0, len(records), at)]
    return [space.store.write_range(space.namespace, piece) for piece in pieces]


@pytest.mark.parametrize(("left_length", "right_length"), [(30, 30), (30, 41), (7, 400), (400, 1)])
def test_stretches_find_every_difference_once(
    space: Keyspace, left_length: int, right_length: int
) -> None:
    """However the two sides are cut, and whatever they share."""
    rows = {row[0].encode(): encode_entry(entry(row)) for row in some_rows(111, 400)}
    keys = sorted(rows)
    before = {key: rows[key] for at, key in enumerate(keys) if at % 90 != 4}
    after = {key: rows[key] for at, key in enumerate(keys) if at % 70 != 9}
    for key in keys[200:210]:
        after[key] = encode_entry(entry(some_rows(112, 1)[0]))
    left, right = stored(space, before, left_length), stored(space, after, right_length)
    found = stretches(left, right)
    told = [(each.kind, each.key) for stretch in found for each in differences(space, stretch)]
    expected = [
        ("added" if key not in before else "removed" if key not in after else "changed", key)
        for key in keys
        if before.get(key) != after.get(key)
    ]
    assert told == expected and len(expected) > 15
    shared = {ref.id for ref in left} & {ref.id for ref in right}
    read = [ref.id for stretch in found for ref in (*stretch.left, *stretch.right)]
    assert not shared & set(read)
    assert sorted(read) == sorted({ref.id for ref in (*left, *right)} - shared)


@pytest.mark.parametrize(("left_length", "right_length"), [(30, 31), (7, 60), (60, 7), (400, 3)])
def test_stretches_of_many_records_are_cut_and_find_every_difference_once(
    place: Place, space: Keyspace, left_length: int, right_length: int
) -> None:
    """The two sides share no boundary, as after a change of the break parameters."""
    rows = {row[0].encode(): encode_entry(entry(row)) for row in some_rows(114, 800)}
    keys = sorted(rows)
    before = {key: rows[key] for at, key in enumerate(keys) if at % 9 != 4}
    after = {key: rows[key] for at, key in enumerate(keys) if at % 7 != 5}
    left, right = stored(space, before, left_length), stored(space, after, right_length)
    whole = stretches(left, right)
    records = sum(each.records for each in whole)
    parts = stretches(left, right, records_max=100)
    largest = max(left_length, right_length)
    told = [each.key for part in parts for each in differences(space, part)]
    assert told == [key for key in keys if (key in before) != (key in after)]
    assert told == [each.key for part in whole for each in differences(space, part)]
    order = Comparison(place, b"", ("size",))
    batches = iter([pa.RecordBatch.from_pylist([part.row() for part in parts])])
    paths = [row["path"].encode() for out in comparing(order)(batches) for row in out.to_pylist()]
    assert paths == told
    if largest < 400:
        assert len(parts) > 3 and max(part.records for part in parts) < max(100, 4 * largest) * 2
    # What lies across a cut is read twice, once by each neighbour.
    read = sum(part.records for part in parts)
    assert records <= read <= records + 2 * largest * (len(parts) - 1)


@pytest.mark.one_version
def test_damage_in_a_range_of_either_side_is_an_error(lake: Lake, repository: str) -> None:
    rows = ascii_rows(113, 300)
    import_(lake, frame(lake.spark, rows[:150]), f"{repository}/main/a")
    import_(lake, frame(lake.spark, rows), f"{repository}/main/a")
    (ref,) = ranges(lake, f"{repository}/main").collect()
    file = Path(lake.store, "objects", "lake", repository, "_lakefs", ref["id"])
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 3] ^= 1
    file.write_bytes(raw)
    with pytest.raises(PySparkException, match=r"Corrupt: .*checksum"):
        diff(lake, f"{repository}/main~1", f"{repository}/main").count()


def test_history_newest_first(lake: Lake, repository: str) -> None:
    rows = ascii_rows(114, 6)
    landed = [
        import_(lake, frame(lake.spark, rows[at : at + 2]), f"{repository}/main", "merge").commit
        for at in (0, 2, 4)
    ]
    found = log(lake, f"{repository}/main").collect()
    assert [row["id"] for row in found][:3] == landed[::-1] and len(found) == 4
    assert [row["parents"] for row in found[:2]] == [[landed[1]], [landed[0]]]
    assert found[0]["message"] == "Import objects" and found[0]["generation"] == 4
    assert found[0]["created"].year >= 2020 and len(found[0]["metarange"]) == 64
    assert [row["id"] for row in log(lake, f"{repository}/main~1", 2).collect()] == landed[1::-1]


@pytest.mark.one_version
def test_ranges_of_a_prefix(lake: Lake, repository: str) -> None:
    rows = ascii_rows(115, 50)
    import_(lake, frame(lake.spark, rows), f"{repository}/main/in")
    (found,) = ranges(lake, f"{repository}/main").collect()
    paths = sorted(f"in/{row[0]}" for row in rows)
    assert (found["min_path"], found["max_path"]) == (paths[0], paths[-1])
    assert found["count"] == 50 and found["size"] > 50 * len(paths[0]) and len(found["id"]) == 64
    for folder in ("in", "in/", "in/orders"):
        assert ranges(lake, f"{repository}/main/{folder}").count() == 1
    assert ranges(lake, f"{repository}/main/a").count() == 0
    assert ranges(lake, f"{repository}/main~1").count() == 0


@pytest.mark.one_version
def test_what_cannot_be_told_is_refused(lake: Lake, repository: str) -> None:
    main = f"{repository}/main"
    for call, says in (
        (lambda: diff(lake, main, f"{main}/a"), "give the prefix separately"),
        (lambda: diff(lake, main, main, columns=["size", "path"]), "unknown columns .*: path"),
        (lambda: log(lake, main, 0), "limit must be"),
        (lambda: log(lake, f"{main}/a"), "whole ref"),
    ):
        with pytest.raises(Invalid, match=says):
            call()
    with pytest.raises(NotFound):
        diff(lake, main, f"{repository}/nowhere")
    with pytest.raises(NotFound):
        ranges(lake, "nowhere/main")
