"""A bulk job lands beside staged rows: they stay staged, and rows in its way refuse it.

In the races another process acts at one moment of the landing, or a landing acts at one moment of
another verb.
"""

from collections.abc import Callable

import pytest

from graveler.core.errors import Conflict, NotFound, OutcomeUnknown, PreconditionFailed
from graveler.engine.bulk.job import Bulk, Mode
from graveler.engine.commits import log, reset
from graveler.kv.store import Store
from tests.engine.bulk_world import MAIN, begin, change, finish, landings, write
from tests.engine.lake import Lake, new_lake
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import Script

# The compare-and-swaps of a landing: the job's record, the note of the swap, the branch.
BRANCH_SWAP = 3
MOMENTS = [("scan", 1), ("set_many", 1), *[("set_if", nth) for nth in range(1, BRANCH_SWAP + 1)]]
Request = tuple[str, int]


def replacing(lake: Lake) -> tuple[Bulk, str]:
    """A job that replaces the folder in/ by one file, on a branch with a file inside and one
    outside."""
    lake.commit_of(**{"in/old": "1", "z": "1"})
    return begin(lake, prefix="in/"), write(lake, {"in/new": "2"})


LANDED = {"in/new": "2", "z": "1"}


# ---- what may stay -------------------------------------------------------------------------------


def test_rows_outside_the_folder_stay_staged(lake: Lake, rival: Lake) -> None:
    job, metarange = replacing(lake)
    lake.put("im/x", "9")
    lake.put("in", "9")
    lake.put("io", "9")
    lake.delete("z")
    before = lake.record()
    made = finish(lake, job, metarange)
    assert lake.tree("main@") == LANDED
    staged = {"im/x": "9", "in": "9", "io": "9"}
    assert rival.tree() == {"in/new": "2", **staged}
    assert lake.record().tokens_newest_first == before.tokens_newest_first
    after = rival.commit("after")
    assert after.commit.parents == (made,)
    assert rival.tree("main@") == {"in/new": "2", **staged}


def test_rows_stay_in_each_token_and_shard() -> None:
    lake = new_lake(shards=3)
    job, metarange = replacing(lake)
    lake.put("other/keep", "9")
    for number in range(8):
        lake.put(f"other/{number}", "9")
        reset.reset_path(lake.opened, MAIN, f"other/{number}")  # seals the open token
        lake.put(f"other/{number}", "8")
    tokens = lake.record().tokens_newest_first
    finish(lake, job, metarange)
    assert lake.record().tokens_newest_first == tokens and len(tokens) > 8
    staged = {"other/keep": "9", **{f"other/{number}": "8" for number in range(8)}}
    assert lake.tree() == {**LANDED, **staged}
    lake.commit()
    assert lake.tree("main@") == {**LANDED, **staged}


def test_rows_on_paths_that_a_merge_leaves_alone_stay_staged(lake: Lake) -> None:
    lake.commit_of(a="1", b="1", c="1")
    job = begin(lake, Mode.MERGE)
    metarange = change(lake, job, {"a": "2", "in/new": "2"})
    lake.put("b", "9")
    lake.delete("c")
    lake.put("in/other", "9")
    finish(lake, job, metarange)
    assert lake.tree("main@") == {"a": "2", "b": "1", "c": "1", "in/new": "2"}
    assert lake.tree() == {"a": "2", "b": "9", "in/new": "2", "in/other": "9"}


def test_a_merge_without_a_change_has_no_row_in_its_way(lake: Lake) -> None:
    lake.commit_of(a="1")
    lake.put("a", "9")
    job = begin(lake, Mode.MERGE)
    made = finish(lake, job, job.base.commit.metarange)
    assert lake.head() == made and lake.tree("main@") == {"a": "1"} and lake.tree() == {"a": "9"}


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE])
def test_rows_that_say_what_lands_stay_staged(lake: Lake, mode: Mode) -> None:
    """For example the deletions of temporary objects that nobody committed."""
    lake.commit_of(**{"in/old": "1"})
    job = begin(lake, mode, "in/" if mode is Mode.REPLACE else "")
    metarange = change(lake, job, {"in/new": "2", "in/old": ""})
    lake.put("other", "9")
    lake.put("in/_temporary/0", "9")
    lake.delete("in/_temporary/0")
    lake.put("in/new", "2")
    lake.delete("in/old")
    finish(lake, job, metarange)
    assert lake.tree() == {"in/new": "2", "other": "9"}
    assert lake.tree("main@") == {"in/new": "2"}
    assert lake.uncommitted() == [("added", "other")]


# ---- what is in the way --------------------------------------------------------------------------


def put_in_folder(lake: Lake) -> None:
    lake.put("in/x", "9")


def delete_in_folder(lake: Lake) -> None:
    lake.put("in/x", "9")
    lake.commit()
    lake.put("other", "9")
    lake.delete("in/x")
    lake.put("in/new", "9")


def hide_by_a_newer_token(lake: Lake) -> None:
    """A commit that failed has sealed the older token; the next one may fold it in alone."""
    lake.put("in/x", "9")
    lake.put("other", "9")
    reset.reset_path(lake.opened, MAIN, "other")
    lake.delete("in/x")
    lake.put("other", "9")


@pytest.mark.parametrize("stage", [put_in_folder, delete_in_folder, hide_by_a_newer_token])
def test_rows_in_the_folder_refuse_the_job(lake: Lake, stage: Callable[[Lake], None]) -> None:
    job, metarange = replacing(lake)
    lake.put("other", "9")
    stage(lake)
    before, head = lake.tree(), lake.head()
    with pytest.raises(Conflict, match="uncommitted changes"):
        finish(lake, job, metarange)
    assert (lake.tree(), lake.head()) == (before, head)
    lake.commit()
    finish(lake, job, metarange)
    assert lake.tree() == lake.tree("main@") == {**LANDED, "other": "9"}


def test_rows_on_paths_that_a_merge_changes_refuse_the_job(lake: Lake) -> None:
    lake.commit_of(a="1", b="1")
    job = begin(lake, Mode.MERGE)
    metarange = change(lake, job, {"a": "2", "b": ""})
    lake.put("other", "9")
    for path in ("a", "b"):
        lake.put(path, "9")
        with pytest.raises(Conflict, match="uncommitted changes"):
            finish(lake, job, metarange)
        reset.reset(lake.opened, MAIN)
        lake.put("other", "9")
    finish(lake, job, metarange)
    assert lake.tree() == {"a": "2", "other": "9"}


# ---- races ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_row_outside_that_comes_during_the_landing_stays(moment: Request) -> None:
    lake = new_lake()
    job, metarange = replacing(lake)
    lake.put("one", "9")
    mine, script = lake.interposed()
    rival = lake.another_process()
    script.before(moment[0], lambda: rival.put("two", "9"), moment[1])
    finish(mine, job, metarange)
    assert script.finished
    rival.commit()
    assert rival.tree("main@") == {**LANDED, "one": "9", "two": "9"}


@pytest.mark.parametrize("conditional", [False, True])
def test_a_row_in_the_folder_that_comes_after_the_check_stays_on_top(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script], conditional: bool
) -> None:
    job, metarange = replacing(lake)
    lake.put("one", "9")
    mine, script = scripted
    put = rival.put_if_absent if conditional else rival.put
    script.before("set_if", lambda: put("in/late", "9"), BRANCH_SWAP)
    finish(mine, job, metarange)
    assert script.finished
    assert lake.tree("main@") == LANDED
    lake.commit()
    assert lake.tree("main@") == {**LANDED, "in/late": "9", "one": "9"}


@pytest.mark.parametrize("moment", [("set_if", 1), ("get", 2)])
@pytest.mark.parametrize("creates", [True, False])
def test_a_condition_that_a_landing_breaks_is_judged_again(moment: Request, creates: bool) -> None:
    lake = new_lake()
    job, metarange = replacing(lake)
    lake.put("one", "9")
    mine, script = lake.interposed()
    rival = lake.another_process()
    script.before(moment[0], lambda: finish(rival, job, metarange), moment[1])
    with pytest.raises(PreconditionFailed if creates else NotFound):
        if creates:
            mine.put_if_absent("in/new", "mine")
        else:
            mine.put_over("in/old", "mine", before="1")
    assert script.finished and lake.tree() == {**LANDED, "one": "9"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_commit_during_the_landing_takes_its_rows(moment: Request) -> None:
    lake = new_lake()
    job, metarange = replacing(lake)
    lake.put("one", "9")
    mine, script = lake.interposed()
    rival = lake.another_process()
    script.before(moment[0], lambda: rival.commit("theirs"), moment[1])
    made = finish(mine, job, metarange)
    assert script.finished and lake.head() == made
    assert lake.tree("main@") == lake.tree() == {**LANDED, "one": "9"}
    assert lake.uncommitted() == []


@pytest.mark.parametrize("moment", [("set_if", 1), ("scan", 2), ("set_many", 1), ("set_if", 2)])
def test_a_landing_during_a_commit_is_its_base(moment: Request) -> None:
    """Before the seal, before the scan, before the note and before the swap."""
    lake = new_lake()
    job, metarange = replacing(lake)
    lake.put("one", "9")
    lake.delete("z")
    mine, script = lake.interposed()
    rival = lake.another_process()
    landed: list[str] = []
    script.before(moment[0], lambda: landed.append(finish(rival, job, metarange)), moment[1])
    made = mine.commit("mine")
    assert script.finished
    assert list(made.commit.parents) == landed and lake.head() == made.id
    assert lake.tree() == lake.tree("main@") == {"in/new": "2", "one": "9"}
    assert lake.record().sealed == ()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("prefix", ["", "other/"])
def test_a_reset_during_the_landing_drops_its_rows(moment: Request, prefix: str) -> None:
    lake = new_lake()
    job, metarange = replacing(lake)
    lake.put("other/1", "9")
    mine, script = lake.interposed()
    rival = lake.another_process()
    script.before(moment[0], lambda: reset.reset_prefix(rival.opened, MAIN, prefix), moment[1])
    finish(mine, job, metarange)
    assert script.finished
    assert lake.tree() == lake.tree("main@") == LANDED


@pytest.mark.parametrize("prefix", ["", "in/", "z"])
def test_a_landing_during_a_reset_stays(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script], prefix: str
) -> None:
    """A reset of a prefix fills its token with what the landed commit says, not with what the head
    said before."""
    job, metarange = replacing(lake)
    lake.put("other", "9")
    lake.delete("z")
    lake.put("in/new", "2")
    mine, script = scripted
    script.before("set_if", lambda: finish(rival, job, metarange))
    reset.reset_prefix(mine.opened, MAIN, prefix)
    assert script.finished and landings(lake) == 1
    staged = {"": {}, "in/": {"other": "9"}, "z": {"other": "9", "z": "1"}}[prefix]
    kept = {path: value for path, value in LANDED.items() if not prefix or path != "z"}
    assert lake.tree() == {**kept, **staged}
    assert lake.tree("main@") == LANDED


# ---- lost answers --------------------------------------------------------------------------------


def test_a_landing_without_an_answer_is_found_beside_rows(lake: Lake) -> None:
    job, metarange = replacing(lake)
    lake.put("one", "9")
    swaps = iter([Fault.NONE, Fault.NONE, Fault.LOST])

    def plan(_: int, verb: str) -> Fault:
        return next(swaps, Fault.NONE) if verb == "set_if" else Fault.NONE

    made = finish(lake.with_kv(lambda kv: FaultyStore(kv, plan)), job, metarange)
    assert made == lake.head() and landings(lake) == 1
    assert lake.tree() == {**LANDED, "one": "9"}


def test_a_late_landing_never_follows_its_refusal(lake: Lake) -> None:
    job, metarange = replacing(lake)
    lake.put("one", "9")
    swaps = iter([Fault.NONE, Fault.NONE, Fault.LATE])
    late: list[FaultyStore] = []

    def plan(_: int, verb: str) -> Fault:
        return next(swaps, Fault.REFUSED) if verb == "set_if" else Fault.NONE

    def wrapped(kv: Store) -> Store:
        late.append(FaultyStore(kv, plan))
        return late[0]

    with pytest.raises(OutcomeUnknown):
        finish(lake.with_kv(wrapped), job, metarange)
    lake.put("in/x", "9")
    with pytest.raises(Conflict, match="uncommitted changes"):
        finish(lake, job, metarange)
    late[0].land()
    assert lake.tree() == {"in/old": "1", "in/x": "9", "one": "9", "z": "1"}
    reset.reset_path(lake.opened, MAIN, "in/x")
    reset.reset(lake.opened, MAIN)
    lake.put("one", "9")
    assert finish(lake, job, metarange) == lake.head()
    found, _ = log.log(lake.opened, MAIN, log.LogRequest())
    assert [each.commit.message for each in found].count("landed") == 1
