"""Bulk jobs that pack: other ranges, the same entries, and whatever others commit stays."""

from dataclasses import replace

import pytest

from graveler.committed import reader, writer
from graveler.core import limits
from graveler.core.errors import Conflict, Invalid
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, BreakParameters, Change, Entry
from graveler.core.wire import encode_entry
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.commits import diff, log
from graveler.engine.ports import keyspace
from tests.engine import bulk_world
from tests.engine.bulk_world import MAIN, entry, finish, landings, status
from tests.engine.lake import Lake

NEW = BreakParameters(min_size=2_000, raggedness=4, salt=b"packed")
TREE = {f"p/{number:03}": str(number) for number in range(60)}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Sixty entries in many ranges."""
    lake.commit_of(**TREE)
    return lake


def begin(lake: Lake, id: str = "", breaks: BreakParameters = NEW) -> Bulk:
    return bulk.begin(lake.opened, MAIN, NewBulk(Mode.PACK, "", id, breaks))


def packed(lake: Lake, job: Bulk, *changes: Change) -> MetarangeId:
    """As a cluster writes it; with `changes` it is not what the base says."""
    space = keyspace(lake.opened)._replace(breaks=NEW)
    records = dict(reader.scan(space, job.base.commit.metarange))
    for key, value in changes:
        if value is TOMBSTONE:
            del records[key]
        else:
            records[key] = value
    return writer.write(space, sorted(records.items()))


def ranges(lake: Lake, ref: str = MAIN) -> int:
    space = keyspace(lake.opened)
    found = log.get_commit(lake.opened, lake.head() if ref == MAIN else ref)
    return len(space.metarange(found.commit.metarange).ranges)


def difference(lake: Lake, left: str, right: str) -> list[str]:
    query = diff.DiffQuery(amount=1_000)
    page = diff.diff_refs(lake.opened, left, right, query, three_dot=False)
    return [line.path for line in page.lines]


def test_a_packed_head_says_the_same_in_fewer_ranges(lake: Lake) -> None:
    before, base = ranges(lake), lake.head()
    job = begin(lake)
    made = finish(lake, job, packed(lake, job))
    assert made == lake.head() and lake.tree() == TREE
    assert difference(lake, base, made) == [] and ranges(lake) < before / 2
    assert log.get_commit(lake.opened, made).commit.parents == (base,)
    lake.commit_of(**{"p/007": "changed"})  # by the old parameters, which the repository still has
    assert lake.tree() == {**TREE, "p/007": "changed"}
    assert difference(lake, made, lake.head()) == ["p/007"]


def test_what_others_commit_meanwhile_stays(lake: Lake) -> None:
    before = ranges(lake)
    job = begin(lake)
    written = packed(lake, job)
    theirs = lake.commit_of(**{"p/003": "9", "p/030": "", "q/new": "1"})
    made = finish(lake, job, written)
    expected = {**TREE, "p/003": "9", "q/new": "1"}
    del expected["p/030"]
    assert lake.tree() == expected and difference(lake, theirs, made) == []
    assert ranges(lake) < before / 2


def test_what_others_commit_at_the_last_moment_stays(lake: Lake) -> None:
    job = begin(lake)
    written = packed(lake, job)
    mine, script = lake.interposed()
    script.before("set_if", lambda: lake.another_process().commit_of(**{"p/003": "9"}), 2)
    finish(mine, job, written)
    assert script.finished and lake.tree() == {**TREE, "p/003": "9"} and landings(lake) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((b"p/007", TOMBSTONE), "must not change entries"),
        ((b"q", encode_entry(entry("1"))), "must not change entries"),
        ((b"p/007", encode_entry(entry("longer than it was"))), "must not change entries"),
        (
            (b"p/007", encode_entry(Entry("data/8/p/007", 1, "8", 1))),
            "differs from the range of its base",
        ),
    ],
)
def test_what_says_something_else_is_refused(lake: Lake, change: Change, says: str) -> None:
    job = begin(lake)
    with pytest.raises(Invalid, match=says):
        finish(lake, job, packed(lake, job, change))
    assert lake.tree() == TREE and landings(lake) == 0
    finish(lake, job, packed(lake, job))


def test_a_branch_with_uncommitted_changes_is_not_packed(lake: Lake) -> None:
    job = begin(lake)
    lake.put("late", "1")
    with pytest.raises(Conflict, match="uncommitted changes"):
        begin(lake)
    with pytest.raises(Conflict, match="uncommitted changes"):
        finish(lake, job, packed(lake, job))
    lake.commit()
    finish(lake, job, packed(lake, job))
    assert lake.tree() == {**TREE, "late": "1"}


def test_a_job_is_known_by_its_name_and_its_parameters(lake: Lake) -> None:
    job = begin(lake, "nightly")
    assert begin(lake.another_process(), "nightly") == job and status(lake, job) == job
    assert job.new.breaks == NEW and job.mode is Mode.PACK
    for other in (replace(NEW, raggedness=9), replace(NEW, salt=b"another")):
        with pytest.raises(Conflict, match="another bulk job"):
            begin(lake, "nightly", other)
    with pytest.raises(Conflict, match="another bulk job"):
        bulk_world.begin(lake, Mode.MERGE, id="nightly")
    made = finish(lake, job, packed(lake, job))
    assert begin(lake, "nightly").job.commit == made


@pytest.mark.parametrize(
    "new",
    [
        NewBulk(Mode.PACK),
        NewBulk(Mode.MERGE, breaks=NEW),
        NewBulk(Mode.PACK, "in/", breaks=NEW),
        NewBulk(Mode.PACK, breaks=replace(NEW, max_size=limits.range_size_bytes_max + 1)),
    ],
)
def test_what_no_packing_can_be_is_refused(lake: Lake, new: NewBulk) -> None:
    with pytest.raises(Invalid):
        bulk.begin(lake.opened, MAIN, new)
