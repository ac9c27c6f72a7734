"""A packed head: the ranges that one writer makes, the entries that were there, and a report."""

import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from graveler.block.local import LocalBlocks
from graveler.committed import reader, writer
from graveler.committed.apply import apply
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Conflict, Invalid, OutcomeUnknown
from graveler.core.records import BreakParameters, RangeRef
from graveler.core.requests import Counts, counted_blocks
from graveler.core.wire import encode_entry
from graveler.lake import bulk
from graveler.lake.session import below
from graveler.spark import Lake, diff
from graveler.spark.packs import (
    Layout,
    expected_ranges,
    layout_of,
    pack,
    pays,
    ranges_of,
    repacked,
    stored_share,
    stretches_of,
)
from graveler.spark.places import Place, opened
from tests.spark.conftest import SHARE
from tests.spark.lakes import entry, named, sequential, some_rows

# ---- what it would be ----------------------------------------------------------------------------


def some_refs(breaks: BreakParameters, count: int = 3_000) -> list[RangeRef]:
    """Ranges of so many entries, in memory alone."""
    from tests.committed.stores import CountingStore

    space = Keyspace(CountingStore(), "mem://lake", breaks)
    records = sorted((row[0].encode(), encode_entry(entry(row))) for row in some_rows(1, count))
    return list(space.metarange(writer.write(space, records)).ranges)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"raggedness": 100},
        {"min_size": 6_000},
        {"min_size": 6_000, "max_size": 9_000},
        {"max_size": 5_000},
        {"min_size": 5_000, "max_size": 5_000},
        {"raggedness": 1_000_000},
        {"salt": b"another"},
    ],
)
@pytest.mark.one_version
def test_how_many_ranges_there_will_be_is_known_before(chosen: dict[str, Any]) -> None:
    old = BreakParameters(raggedness=30, salt=b"old")
    new = replace(old, **chosen)
    expected, found = expected_ranges(layout_of(some_refs(old)), new), len(some_refs(new))
    assert abs(expected - found) <= 1 + 3 * expected**0.5


def test_nothing_is_no_range_and_does_not_pay() -> None:
    nothing = layout_of(())
    assert nothing == Layout(0, 0, 0, 0, 1, 2, 0)
    assert expected_ranges(nothing, BreakParameters()) == 0
    assert pays(10, 7) and not pays(10, 8) and pays(100, 70) and not pays(100, 71)


@pytest.mark.parametrize(("count", "raggedness"), [(3_000, 30), (40_000, 15_000)])
@pytest.mark.one_version
def test_costs_are_those_of_real_requests(tmp_path: Path, count: int, raggedness: int) -> None:
    """Reading everything, and commits of forty changes each, counted at the object store."""
    clock, ids, counts = SystemClock(), SystemIds(), Counts()
    blocks = counted_blocks(LocalBlocks(tmp_path / "objects", clock=clock, ids=ids), counts)
    breaks = BreakParameters(raggedness=raggedness, salt=b"cost")

    def cold() -> Keyspace:
        return Keyspace(SstRangeStore(StoredFiles(blocks)), "local://lake", breaks)

    def spent(call: Callable[[], object]) -> int:
        before = counts.snapshot()
        call()
        return sum(counts.since(before).values())

    keys = [b"some/long/path/%09d" % number for number in range(count)]
    one = entry(some_rows(2, 1)[0])
    records = [(key, encode_entry(one._replace(checksum=f"{key!r:032}"))) for key in keys]
    base = writer.write(cold(), records)
    refs = cold().metarange(base).ranges
    place = Place(f"local:{tmp_path / 'objects'}", "local://lake", breaks)
    said = layout_of(refs, stored_share(place, refs), 40)
    assert said.entries == count and said.stored_bytes < said.size
    assert abs(spent(lambda: list(reader.scan(cold(), base))) - said.read_requests) <= 1
    chance, rounds = random.Random(3), 5
    total = 0
    for number in range(rounds):
        new = encode_entry(one._replace(size=number, checksum="new"))
        changes = [(key, new) for key in sorted(chance.sample(keys, 40))]
        total += spent(lambda changes=changes: apply(cold(), base, changes))  # type: ignore[misc]
    assert abs(total / rounds - said.commit_requests) < 0.2 * said.commit_requests


# ---- the same records, other ends ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 40, SHARE))
def test_stretches_are_all_ranges_in_order(seed: int) -> None:
    chance = random.Random(seed)
    refs = some_refs(BreakParameters(raggedness=20, salt=b"old"), chance.choice((1, 300, 1_500)))
    breaks = BreakParameters(raggedness=chance.choice((20, 40)), salt=chance.choice((b"old", b"x")))
    wanted, expected = chance.choice((1, 3, 50)), chance.choice((1, 100, 1_000))
    found = list(stretches_of(refs, breaks, expected, wanted))
    assert [ref for held in found for ref in held] == refs and all(found)
    assert len(found) <= max(1, min(wanted, expected // 16)) + 1


@pytest.mark.one_version
def test_packed_ranges_are_those_of_one_writer(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = some_rows(11, 4_000)
    beside = Path(place.storage.removeprefix("local:"))
    base, old = sequential(place, rows, beside)
    other = replace(place, breaks=replace(place.breaks, salt=b"other", min_size=30_000))
    expected, refs = sequential(other, rows, tmp_path / "alone")
    found = repacked(spark, other, old, expected=16 * 7, tasks=7)
    assert found.metarange == expected and list(found.ranges) == refs
    assert ranges_of(other, found.metarange) == found.ranges and len(refs) < len(old)
    space = opened(place).space
    assert list(reader.scan(space, found.metarange)) == list(reader.scan(space, base))


# ---- through a server ----------------------------------------------------------------------------


@pytest.fixture
def repository(lake: Lake, request: pytest.FixtureRequest) -> str:
    """Three hundred entries in some thirty ranges."""
    name = f"r{zlib.crc32(request.node.nodeid.encode())}"
    namespace = f"local://lake/{name}"
    lake.session.call("POST", "/repositories", {"name": name, "storage_namespace": namespace})
    fine = replace(bulk.read_breaks(lake.session, name), raggedness=10)
    bulk.swap_breaks(lake.session, name, bulk.read_breaks(lake.session, name), fine)
    job = bulk.begin(lake.session, name, "main", "replace")
    place = Place(f"local:{lake.store}/objects", namespace, fine)
    entries = {
        f"p/{number:03}".encode(): entry(row) for number, row in enumerate(some_rows(4, 300))
    }
    records = [(key, encode_entry(entries[key])) for key in sorted(entries)]
    written = writer.write(opened(place).space, records)
    bulk.finish(lake.session, name, job, bulk.Landing(written, "r", "first"))
    return name


def coarse(lake: Lake, repository: str) -> BreakParameters:
    return replace(bulk.read_breaks(lake.session, repository), min_size=20_000)


def head(lake: Lake, repository: str) -> str:
    where = below("repositories", repository, "branches", "main")
    found: str = lake.session.call("GET", where)["commit_id"]
    return found


def stage(lake: Lake, repository: str, path: str) -> None:
    where = below("repositories", repository, "branches", "main", "objects")
    lake.session.call("POST", f"{where}?path={path}", {"content": path})


def test_a_branch_is_packed_if_it_pays(lake: Lake, repository: str) -> None:
    breaks, base = coarse(lake, repository), head(lake, repository)
    seen = bulk.read_breaks(lake.session, repository)
    rehearsed = pack(lake, f"{repository}/main", breaks, dry_run=True)
    assert rehearsed.before == rehearsed.after and rehearsed.commit == ""
    assert (head(lake, repository), bulk.read_breaks(lake.session, repository)) == (base, seen)
    terms: Any = {"message": "coarser", "metadata": {"by": "packer"}, "job": "weekly-1"}
    found = pack(lake, f"{repository}/main", breaks, **terms)
    assert found.commit == head(lake, repository) != base and found.is_set
    assert found.before == rehearsed.before and found.after.ranges < 0.7 * found.before.ranges
    assert abs(found.expected_ranges - found.after.ranges) <= 2
    assert found.after.entries == 300 and found.after.size == found.before.size
    assert found.after.read_requests < found.before.read_requests
    assert diff(lake, f"{repository}/{base}", f"{repository}/main").count() == 0
    assert bulk.read_breaks(lake.session, repository) == breaks
    made = lake.session.call("GET", below("repositories", repository, "commits", found.commit))
    assert (made["message"], made["metadata"]["by"]) == ("coarser", "packer")
    assert pack(lake, f"{repository}/main", breaks, **terms) == found
    again = pack(lake, f"{repository}/main", breaks)
    assert (again.commit, again.is_set) == ("", False) and again.before == found.after
    assert head(lake, repository) == found.commit


@pytest.mark.one_version
def test_packing_with_a_name_is_run_again_after_a_failure(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks, terms = coarse(lake, repository), named("weekly-2")

    def broken(*_: object) -> str:
        raise OutcomeUnknown("the answer was lost")

    with monkeypatch.context() as patched, pytest.raises(OutcomeUnknown):
        patched.setattr(bulk, "finish", broken)
        pack(lake, f"{repository}/main", breaks, **terms)
    found = pack(lake, f"{repository}/main", breaks, **terms)
    assert found.commit == head(lake, repository)
    # One that does not pay says so as often as it is asked.
    finer, idle = replace(breaks, min_size=breaks.min_size // 2), named("weekly-3")
    first = pack(lake, f"{repository}/main", finer, **idle)
    assert first.commit == "" and pack(lake, f"{repository}/main", finer, **idle) == first


@pytest.mark.one_version
def test_parameters_that_others_set_stay_and_the_commit_too(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks, seen = coarse(lake, repository), bulk.read_breaks(lake.session, repository)
    theirs, finish = replace(seen, raggedness=11), bulk.finish

    def late(*arguments: Any) -> str:
        bulk.swap_breaks(lake.session, repository, seen, theirs)
        stage(lake, repository, "late")
        where = below("repositories", repository, "branches", "main", "commits")
        lake.session.call("POST", where, {"message": "theirs"})
        return finish(*arguments)

    monkeypatch.setattr(bulk, "finish", late)
    found = pack(lake, f"{repository}/main", breaks)
    assert found.commit and not found.is_set
    assert bulk.read_breaks(lake.session, repository) == theirs
    differ = diff(lake, f"{repository}/main~2", f"{repository}/main").collect()
    assert [row["path"] for row in differ] == ["late"]
    assert diff(lake, f"{repository}/main~1", f"{repository}/main").count() == 0


@pytest.mark.one_version
def test_what_cannot_be_packed(lake: Lake, repository: str) -> None:
    breaks = coarse(lake, repository)
    with pytest.raises(Invalid, match="covers a whole branch"):
        pack(lake, f"{repository}/main/p", breaks)
    with pytest.raises(Invalid, match="break parameters"):
        pack(lake, f"{repository}/main", replace(breaks, max_size=1))
    stage(lake, repository, "late")
    with pytest.raises(Conflict, match="uncommitted changes"):
        pack(lake, f"{repository}/main", breaks)
