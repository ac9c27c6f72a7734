"""Bulk jobs that splice: prefixes are emptied, entries are put, and guarded prefixes must be those
of the base."""

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, Invalid
from graveler.engine.bulk.job import Mode
from graveler.engine.commits import reset
from tests.engine.bulk_world import MAIN, begin, finish, landings, status, write
from tests.engine.lake import Lake, new_lake

MOMENTS = [("set_many", 1), *[("set_if", nth) for nth in (1, 2, 3)]]
TREE = {"t/d=1/a": "1", "t/d=1/b": "1", "t/d=2/a": "1", "t/d=10/a": "1", "u": "1"}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.commit_of(**TREE)
    return lake


def test_entries_are_put_and_nothing_else_changes(lake: Lake) -> None:
    job = begin(lake, Mode.SPLICE, "t/")
    written = write(lake, {"t/d=1/c": "2", "t/d=3/a": "2"})
    lake.another_process().commit_of(**{"t/d=1/d": "3", "u": ""})
    finish(lake, job, written)
    expected = {**TREE, "t/d=1/c": "2", "t/d=3/a": "2", "t/d=1/d": "3"}
    del expected["u"]
    assert lake.tree() == lake.tree("main@") == expected


def test_replaced_prefixes_are_emptied_on_the_head(lake: Lake) -> None:
    job = begin(lake, Mode.SPLICE)
    written = write(lake, {"t/d=1/c": "2", "t/d=2/a": "2"})
    lake.another_process().commit_of(**{"t/d=1/late": "3", "t/d=2/a": "3"})
    finish(lake, job, written, replace=["t/d=1/", "t/d=2/", "t/d=2/a", "t/d=9/"])
    expected = {"t/d=1/c": "2", "t/d=2/a": "2", "t/d=10/a": "1", "u": "1"}
    assert lake.tree() == lake.tree("main@") == expected


def test_prefixes_may_be_emptied_without_an_entry(lake: Lake) -> None:
    job = begin(lake, Mode.SPLICE, "t/")
    finish(lake, job, write(lake, {}), replace=["t/d=1/"])
    assert set(lake.tree()) == {"t/d=10/a", "t/d=2/a", "u"}
    job = begin(lake, Mode.SPLICE)
    finish(lake, job, write(lake, {}), replace=[""])
    assert lake.tree() == {}


@pytest.mark.parametrize(
    ("theirs", "path"),
    [
        ({"t/d=1/new": "3"}, "t/d=1/new"),
        ({"t/d=1/b": ""}, "t/d=1/b"),
        ({"t/d=2/a": "3", "t/d=1/a": "3"}, "t/d=1/a"),
    ],
)
def test_a_change_of_a_guarded_prefix_refuses_the_job(
    lake: Lake, theirs: dict[str, str], path: str
) -> None:
    job = begin(lake, Mode.SPLICE)
    written = write(lake, {"t/d=1/c": "2"})
    lake.another_process().commit_of(**theirs)
    before, head = lake.tree(), lake.head()
    guard = ["t/d=1/", "t/d=2/"]
    with pytest.raises(Conflict, match=f"guard broken.*path='{path}'"):
        finish(lake, job, written, replace=guard, guard=guard)
    assert (lake.tree(), lake.head(), landings(lake)) == (before, head, 0)
    finish(lake, job, written, guard=["t/d=10/"])
    assert lake.tree() == {**before, "t/d=1/c": "2"}


def test_changes_beside_a_guarded_prefix_or_taken_back_do_not(lake: Lake) -> None:
    job = begin(lake, Mode.SPLICE)
    written = write(lake, {"t/d=1/c": "2"})
    rival = lake.another_process()
    rival.commit_of(**{"t/d=10/a": "3", "t/d=1": "3", "t/d=1/a": "3"})
    rival.commit_of(**{"t/d=1/a": "1"})
    finish(lake, job, written, guard=["t/d=1/"], replace=["t/d=1/"])
    assert lake.tree() == {
        "t/d=1": "3", "t/d=1/c": "2", "t/d=10/a": "3", "t/d=2/a": "1", "u": "1",
    }  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_guard_that_breaks_during_the_landing_refuses_it(moment: tuple[str, int]) -> None:
    lake = new_lake()
    lake.commit_of(**TREE)
    job = begin(lake, Mode.SPLICE)
    written = write(lake, {"t/d=1/c": "2"})
    mine, script = lake.interposed()
    rival = lake.another_process()
    script.before(moment[0], lambda: rival.commit_of(**{"t/d=1/a": "3"}), moment[1])
    with pytest.raises(Conflict, match="guard broken"):
        finish(mine, job, written, guard=["t/d=1/"])
    assert script.finished and landings(lake) == 0
    assert lake.tree() == {**TREE, "t/d=1/a": "3"}


def test_of_two_jobs_with_one_guard_one_lands(lake: Lake) -> None:
    """Two drivers create the same table: the folder was empty for both."""
    jobs = [begin(lake, Mode.SPLICE, "new/") for _ in range(2)]
    written = [write(lake, {f"new/{at}": "2"}) for at in range(2)]
    first = finish(lake, jobs[0], written[0], guard=["new/"])
    with pytest.raises(Conflict, match=r"guard broken.*path='new/0'"):
        finish(lake, jobs[1], written[1], guard=["new/"])
    assert finish(lake, jobs[0], written[0], guard=["new/"]) == first == lake.head()
    assert status(lake, jobs[0]).job.commit == first and landings(lake) == 1


def test_rows_beside_it_stay_staged(lake: Lake) -> None:
    job = begin(lake, Mode.SPLICE, "t/")
    written = write(lake, {"t/d=1/c": "2", "t/d=2/a": "2"})
    staged = {"t/d=1/d": "9", "t/d=10/b": "9", "t/d=2/b": "9", "z": "9"}
    for path, text in staged.items():
        lake.put(path, text)
    lake.put("t/d=2/a", "2")  # says what lands
    lake.delete("u")
    finish(lake, job, written)
    expected = {**TREE, "t/d=1/c": "2", "t/d=2/a": "2", **staged}
    del expected["u"]
    assert lake.tree() == expected
    assert lake.tree("main@") == {**TREE, "t/d=1/c": "2", "t/d=2/a": "2"}
    lake.commit()
    assert lake.tree("main@") == expected


@pytest.mark.parametrize("path", ["t/d=1/c", "t/d=2/new", "t/d=2/a"])
@pytest.mark.parametrize("deletes", [False, True])
def test_rows_on_its_paths_and_below_replaced_prefixes_refuse_it(
    lake: Lake, path: str, deletes: bool
) -> None:
    """Also if a newer token hides them, because an older one may be committed alone."""
    job = begin(lake, Mode.SPLICE, "t/")
    written = write(lake, {"t/d=1/c": "2", "t/d=2/c": "2"})
    lake.put(path, "9")
    if deletes:
        lake.put("z", "9")
        reset.reset_path(lake.opened, MAIN, "z")
        lake.delete(path)
    lake.put("z", "9")
    with pytest.raises(Conflict, match="uncommitted changes"):
        finish(lake, job, written, replace=["t/d=2/"])
    lake.commit()
    finish(lake, job, written, replace=["t/d=2/"])
    assert lake.tree() == {
        "t/d=1/a": "1", "t/d=1/b": "1", "t/d=1/c": "2", "t/d=10/a": "1", "t/d=2/c": "2", "u": "1",
        "z": "9",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["replace", "guard"])
def test_lists_that_are_impossible_are_refused(lake: Lake, name: str) -> None:
    job = begin(lake, Mode.SPLICE, "t/")
    written = write(lake, {"t/d=1/c": "2"})
    many = [f"t/{at}" for at in range(limits.bulk_splice_prefixes_count_max + 1)]
    wrong: list[list[str]] = [["u"], [""], ["t"], ["t/\x00"], ["t/" + "x" * 2_000], many]
    for prefixes in wrong:
        with pytest.raises(Invalid, match=f"^{name} "):
            finish(lake, job, written, **{name: prefixes})  # type: ignore[arg-type]
    other = begin(lake, Mode.REPLACE, "t/")
    with pytest.raises(Invalid, match=f"{name} invalid: only the mode splice"):
        finish(lake, other, written, **{name: ["t/"]})  # type: ignore[arg-type]
    assert lake.tree() == TREE


def test_entries_beside_the_prefix_of_the_job_are_refused(lake: Lake) -> None:
    job = begin(lake, Mode.SPLICE, "t/")
    with pytest.raises(Invalid, match="below the prefix"):
        finish(lake, job, write(lake, {"t/a": "1", "u": "2"}))
