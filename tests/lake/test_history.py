"""Commits, merges, and what takes them back."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

import graveler
from graveler import Branch, Commit, Repository
from graveler.lake.change import CheckFailed
from graveler.lake.errors import (
    Conflict,
    DirtyBranch,
    HookFailed,
    Invalid,
    MergeConflict,
    NoChanges,
    NotFound,
    PreconditionFailed,
    Refused,
)
from graveler.lake.records import Change
from tests.http_server import QuietHandler, http_server


def _paths(branch: Branch) -> list[str]:
    return [entry.path for entry in branch.list()]


@pytest.fixture
def dev(main: Branch) -> Branch:
    """A branch whose base has one object."""
    main.write_text("a", "base")
    main.commit("base")
    return main.create_branch("dev")


def test_a_commit_says_what_it_is(main: Branch) -> None:
    main.write_text("a", "1")
    assert main.status().all() == [Change("added", "a", 1)]
    commit = main.commit("load", {"run": "1102"})
    assert commit.message == "load" and commit.metadata["run"] == "1102"
    assert commit.created.tzinfo is not None and commit.committer
    assert main.pin() == commit and main.pin().id == commit.id == commit.pin().id
    assert not main.status()
    assert [each.path for each in commit.changes()] == ["a"]
    (first,) = commit.parents
    assert first.parents == () and first.message and not first.changes()
    with pytest.raises(NoChanges):
        main.commit("again")
    assert main.commit("empty", allow_empty=True).parents == (commit,)


def test_the_log_is_newest_first_and_filtered(main: Branch) -> None:
    for name in ("a", "b", "a"):
        main.write_text(name, name + str(len(_paths(main))))
        main.commit(f"write {name}")
    assert [each.message for each in main.log(limit=2)] == ["write a", "write b"]
    assert [each.message for each in main.log(path="b")] == ["write b"]
    assert main.repository.ref("main~1").read_text("b") == "b1"


def test_a_log_is_shown_with_its_graph(main: Branch, dev: Branch) -> None:
    for branch in (main, dev):
        branch.write_text(branch.name, "1")
        branch.commit(f"on {branch.name}")
    main.merge(dev)
    lines = repr(main.log()).splitlines()[1:]
    assert [line[:4].rstrip() for line in lines[:2]] == ["*", "|\\"]
    assert "Merge" in lines[0] and len(repr(main.log(path="dev")).splitlines()) == 2
    assert "white-space:pre" in main.log()._repr_html_()


def test_a_pinned_commit_never_moves(main: Branch) -> None:
    main.write_text("a", "1")
    main.commit("one")
    pinned = main.pin()
    main.write_text("a", "2")
    assert (pinned.read_text("a"), main.read_text("a")) == ("1", "2")


def test_a_merge_of_what_nobody_committed_names_the_source(main: Branch, dev: Branch) -> None:
    for source in (dev, "dev", main.pin()):
        with pytest.raises(NoChanges) as raised:
            main.merge(source)
        assert raised.value.remedy == ""
    dev.write_text("late", "1")
    with pytest.raises(NoChanges) as raised:
        main.merge(dev)
    assert raised.value.remedy == "commit what is uncommitted on dev, then merge"


def test_a_merge_and_its_undo(main: Branch, dev: Branch) -> None:
    dev.write_text("b", "dev")
    dev.commit("dev")
    assert main.diff(dev).all() == [Change("added", "b", 3)]
    seen = main.preview(dev)
    assert (seen.added, seen.changed, seen.removed, seen.can_merge) == (1, 0, 0, True)
    before = main.pin()
    merged = main.merge(dev, "bring it")
    assert merged.message == "bring it" and len(merged.parents) == 2
    main.undo(merged)
    assert main.pin() == before and _paths(main) == ["a"]
    again = main.merge("dev", squash=True)
    assert len(again.parents) == 1
    main.write_text("c", "1")
    later = main.commit("later")
    with pytest.raises(PreconditionFailed) as raised:
        main.undo(again)
    assert raised.value.remedy == "if the log has it, revert(commit) takes it back"
    assert main.pin() == later
    merge = main.merge(dev)
    with pytest.raises(Conflict, match="1-based parent number") as asked:
        main.revert(merge)
    assert asked.value.remedy == "revert(commit, parent=1)"
    assert asked.value.__notes__ == [f"try: {asked.value.remedy}"]
    with pytest.raises(Invalid, match="1-based parent number") as picked:
        dev.cherry_pick(merge)
    assert picked.value.remedy == "cherry_pick(commit, parent=1)"
    main.commit("on top", allow_empty=True)
    with pytest.raises(PreconditionFailed) as raised:
        main.undo(merge)
    assert raised.value.remedy == "if the log has it, revert(commit, parent=1) takes it back"
    with pytest.raises(NoChanges):
        main.merge(dev)


def test_what_landed_is_undone_by_whatever_has_its_commit(main: Branch) -> None:
    before = main.pin()

    def commit() -> Commit:
        main.write_text("b", "1")
        return main.commit("one")

    with main.change("by a change") as wip:
        wip.write_text("b", "1")
    change = main.change("nothing")
    with main.change("lands") as wip:
        wip.write_text("c", "1")
    main.undo(main.pin())
    main.undo(main.pin())
    assert main.pin() == before
    main.undo(commit().id)
    main.undo(commit().id[:12])
    main.undo(SimpleNamespace(commit=commit().id))
    main.undo(SimpleNamespace(commit=commit()))
    with (landed := main.change("by a change")) as wip:
        wip.write_text("b", "1")
    main.undo(landed)
    assert main.pin() == before
    other = main.repository.lake.create_repository("other").branch("main")
    other.write_text("a", "1")
    wrongs = {
        "undo takes a commit, its id": (1, main, "main", other),
        "nothing has landed": (change, None, SimpleNamespace(commit=before, is_unchanged=True)),
        "another repository": (other.commit("theirs"),),
    }
    for said, wrong in ((said, each) for said, wrongs in wrongs.items() for each in wrongs):
        with pytest.raises(Invalid, match=said):
            main.undo(wrong)  # type: ignore[arg-type]
    assert main.pin() == before


def test_a_call_that_cannot_change_anything_says_what_to_do(main: Branch, dev: Branch) -> None:
    with pytest.raises(NoChanges) as nothing:
        main.commit("empty")
    assert nothing.value.remedy == "write something first, or commit with allow_empty=True"
    dev.write_text("b", "dev")
    dev.commit("dev")
    main.write_text("c", "1")
    with pytest.raises(DirtyBranch) as dirty:
        main.merge(dev)
    assert dirty.value.remedy == f"commit or reset {main.address} first"


def test_a_conflict_names_its_paths_and_is_resolved_by_path(main: Branch, dev: Branch) -> None:
    for branch, text in ((main, "main"), (dev, "dev")):
        branch.write_text("a", text)
        branch.write_text("deep/b", text)
        branch.commit(text)
    with pytest.raises(MergeConflict) as caught:
        main.merge(dev)
    assert caught.value.paths == ("a", "deep/b") and caught.value.remedy
    conflict, _ = main.preview(dev).conflicts
    assert conflict.base is not None and conflict.base.size == 4
    assert conflict.source is not None and conflict.destination is not None
    main.merge(dev, resolve={"a": "source", "deep/": "dest"})
    assert (main.read_text("a"), main.read_text("deep/b")) == ("dev", "main")


def test_a_strategy_resolves_everything(main: Branch, dev: Branch) -> None:
    for branch, text in ((main, "main"), (dev, "dev")):
        branch.write_text("a", text)
        branch.commit(text)
    main.merge(dev, strategy="source-wins")
    assert main.read_text("a") == "dev"


def test_reverts_cherry_picks_and_restores(main: Branch, dev: Branch) -> None:
    dev.write_text("b", "1")
    picked = dev.commit("b")
    main.write_text("a", "2")
    changed = main.commit("change a")
    assert main.cherry_pick(picked).message.startswith("b")
    main.revert(changed)
    assert (main.read_text("a"), main.read_text("b")) == ("base", "1")
    main.restore(changed)
    assert main.read_text("a") == "2" and not main.exists("b")
    with pytest.raises(Conflict):
        main.write_text("a", "3")
        main.commit("three")
        main.revert(changed)


def test_resets(main: Branch) -> None:
    main.write_text("a", "1")
    first = main.commit("one")
    main.write_text("a", "2")
    main.write_text("d/x", "2")
    main.write_text("d/y", "2")
    main.reset("d/")
    assert [change.path for change in main.status()] == ["a"]
    with pytest.raises(DirtyBranch):
        main.reset(to=first)
    main.reset()
    assert main.read_text("a") == "1"
    with pytest.raises(ValueError, match="not both"):
        main.reset("a", to=first)
    main.write_text("a", "2")
    main.commit("two")
    main.reset(to=first)
    assert main.pin() == first


def test_names_are_found_and_deleted(shop: Repository, main: Branch) -> None:
    main.write_text("a", "1")
    main.commit("one")
    tag = main.tag("v1")
    main.create_branch("dev")
    assert [each.name for each in shop.branches()] == ["dev", "main"]
    assert [each.name for each in shop.tags()] == ["v1"]
    assert shop["v1"] == tag and shop["main"] == main and shop["v1"].read_text("a") == "1"
    assert shop[main.pin().id[:12]] == main.pin()
    assert shop.default_branch == main
    shop.delete_branch("dev")
    tag.delete()
    with pytest.raises(NotFound):
        shop["v1"]
    with pytest.raises(NotFound):
        shop["dev"]


def test_a_protected_branch_is_refused(main: Branch) -> None:
    main.protect()
    assert main.repository.protected() == ("main",)
    with pytest.raises(PermissionError) as caught:
        main.write_text("a", "1")
    assert isinstance(caught.value, Refused)
    main.unprotect()
    main.write_text("a", "1")


def test_pull_requests(shop: Repository, main: Branch, dev: Branch) -> None:
    dev.write_text("b", "1")
    dev.commit("b")
    pull = dev.pull_request(main, "Please", "because")
    assert (pull.status, pull.title, pull.description) == ("open", "Please", "because")
    assert pull.created is not None
    made = shop.pull_requests.comment(pull, "Why?", path="b", row="id 1")
    assert (made.id, made.text, made.path, made.row) == ("1", "Why?", "b", "id 1")
    shop.pull_requests.resolve(pull, made)
    (found,) = shop.pull_requests.comments(pull)
    assert found.resolved and found.resolved_by == made.author and found.created == made.created
    shop.pull_requests.close(pull)
    assert not shop.pull_requests.list() and shop.pull_requests.list("closed")
    shop.pull_requests.reopen(pull)
    merged = shop.pull_requests.merge(pull)
    assert main.pin() == merged
    assert [each.id for each in shop.pull_requests.list("merged")] == [pull.id]
    assert shop.pull_requests.get(pull.id).merged_commit == merged.id


# ---- change --------------------------------------------------------------------------------------


def test_a_change_lands_at_once(shop: Repository, main: Branch) -> None:
    context = main.change("load", metadata={"run": "7"})
    with context as wip:
        wip.write_text("raw/a.csv", "1")
        assert not main.exists("raw/a.csv") and wip.exists("raw/a.csv")
    assert context.commit == main.pin() and main.read_text("raw/a.csv") == "1"
    assert main.pin().message == "load" and main.pin().metadata["run"] == "7"
    assert [each.name for each in shop.branches()] == ["main"]
    assert [each.message for each in main.log(limit=2)] == ["load", "Repository created"]


def test_commits_within_a_change_are_kept(main: Branch) -> None:
    with main.change("both") as wip:
        for name in ("a", "b"):
            wip.write_text(name, "1")
            wip.commit(name)
    assert {each.message for each in main.log(limit=3)} == {"a", "b", "both"}


def test_a_change_of_a_dirty_branch_is_refused_before_the_work(main: Branch) -> None:
    main.write_text("a", "1")
    with pytest.raises(DirtyBranch, match="uncommitted"), main.change("load"):
        raise AssertionError("the block must not begin")
    assert len(main.repository.branches().all()) == 1


def test_a_change_without_changes_leaves_nothing(shop: Repository, main: Branch) -> None:
    before = main.pin()
    with main.change("nothing"):
        pass
    assert main.pin() == before and [each.name for each in shop.branches()] == ["main"]


def _refuses(branch: Branch) -> bool:
    return branch.read_text("a") != "1"


def _raises(branch: Branch) -> None:
    raise KeyError(branch.name)


def _finds(branch: Branch) -> object:
    return [each for each in branch.list() if each.size == 1]


def _lists(branch: Branch) -> object:
    return branch.list()


def _finds_in_arrow(branch: Branch) -> object:
    return pyarrow.table({"path": [each.path for each in branch.list()]})


@pytest.mark.parametrize("check", [_refuses, _raises, _finds, _lists, _finds_in_arrow])
def test_a_check_that_fails_keeps_the_branch(
    shop: Repository, main: Branch, check: Callable[[Branch], object]
) -> None:
    before = main.pin()
    seen: list[Branch] = []
    with (
        pytest.raises(Exception) as caught,
        main.change("load", checks=[seen.append, check], name="wip") as wip,
    ):
        wip.write_text("a", "1")
    notes = getattr(caught.value, "__notes__", [])
    assert "wip" in str(caught.value) + "".join(notes)
    assert main.pin() == before and len(seen) == 1
    assert shop.branch("wip").read_text("a") == "1"


def test_a_check_that_finds_no_bad_rows_passes(main: Branch) -> None:
    empty = pyarrow.table({"path": []})
    checks = [lambda _: [], lambda branch: branch.list("no"), lambda _: empty, lambda _: "fine"]
    with main.change("load", checks=checks) as wip:
        wip.write_text("a", "1")
    assert main.read_text("a") == "1"


def test_the_first_bad_rows_are_shown(main: Branch) -> None:
    bad = [{"id": number} for number in range(9)]
    with (
        pytest.raises(CheckFailed, match=r"found bad rows.*'id': 0") as caught,
        main.change("load", checks=[lambda _: iter(bad)], name="wip") as wip,
    ):
        wip.write_text("a", "1")
    assert caught.value.rows == tuple(bad[:5]) and caught.value.branch == "wip"


def test_a_block_that_raises_keeps_the_branch(shop: Repository, main: Branch) -> None:
    with pytest.raises(KeyError) as caught, main.change("load", name="wip") as wip:
        wip.write_text("a", "1")
        raise KeyError
    assert "wip" in caught.value.__notes__[0]
    assert not main.exists("a") and shop.branch("wip").exists("a")


def test_a_commit_that_is_refused_names_the_branch(main: Branch) -> None:
    with pytest.raises(Refused) as caught, main.change("load") as wip:
        wip.write_text("a", "1")
        wip.protect()
    assert wip.address in caught.value.__notes__[0] and wip.read_text("a") == "1"


def test_a_change_is_left_to_people(shop: Repository, main: Branch) -> None:
    context = main.change("load", pull_request=True)
    with context as wip:
        wip.write_text("a", "1")
    assert context.pull_request is not None and not main.exists("a")
    shop.pull_requests.merge(context.pull_request)
    assert main.read_text("a") == "1"


@pytest.mark.parametrize("job", ["load-1102", "scheduled__2026-11-02T00:00:00+00:00"])
def test_a_job_that_runs_again_changes_nothing(shop: Repository, main: Branch, job: str) -> None:
    """A run that fails is begun anew; one that has landed is not done again, also if another branch
    and many commits came in between."""
    with pytest.raises(KeyError), main.change("load", job=job) as wip:
        wip.write_text("half", "1")
        wip.commit("half of it")
        raise KeyError
    change = main.change("load", metadata={"run": "7"}, job=job)
    assert not change.has_landed() and len(shop.branches().all()) == 2
    with change as wip:
        assert not wip.exists("half")
        wip.write_text("a", "1")
        wip.commit("by itself")
    landed = main.pin()
    assert change.commit == landed and landed.metadata["run"] == "7"
    main.write_text("b", "1")
    main.commit("another")

    again = main.change("load", job=job)
    assert again.has_landed() and again.commit == landed
    with pytest.warns(UserWarning, match="thrown away") as told, again as wip:
        wip.write_text("a", "2")
    for said in (f"job {job!r} has landed before, as commit {landed.id[:12]}", f"{job}-2", "undo"):
        assert said in str(told[0].message)
    assert told[0].filename == __file__
    with main.change("load", job=job):
        pass  # nothing is thrown away
    assert again.commit == landed and main.read_text("a") == "1"
    assert main.pin().message == "another"
    assert [each.name for each in shop.branches()] == ["main"]
    with main.change("load", job=f"{job}-2") as wip:
        wip.write_text("a", "3")
    assert main.read_text("a") == "3"
    refused: list[tuple[dict[str, Any], str]] = [
        ({"job": "a\n"}, "printable"),
        ({"job": "a", "name": "dev"}, "not both"),
        ({"job": "a", "metadata": {"graveler.change": "b"}}, "another job"),
    ]
    for given, says in refused:
        with pytest.raises(Invalid, match=says):
            main.change("load", **given)


def test_a_job_that_was_reverted_has_landed_and_one_that_was_undone_has_not(main: Branch) -> None:
    def run() -> Commit:
        with (change := main.change("load", job="load-1")) as wip:
            wip.write_text("a", "1")
            wip.commit("by itself, as tables of Spark do")
        assert change.commit is not None
        return change.commit

    main.undo(run())
    assert not main.exists("a")
    landed = run()
    main.revert(landed, parent=1)
    with pytest.warns(UserWarning, match="reverted still counts as landed"):
        assert run() == landed
    assert not main.exists("a")


def test_a_job_that_people_merge_asks_once(shop: Repository, main: Branch) -> None:
    def run() -> Any:
        context = main.change("load", pull_request=True, job="load-1")
        with context as wip:
            wip.write_text("a", "1")
        return context.pull_request

    asked = run()
    with pytest.warns(UserWarning, match=f"pull request {asked.id}, open"):
        assert asked.status == "open" and run().id == asked.id
    shop.pull_requests.merge(asked)
    assert run().status == "merged" and len(shop.pull_requests.list("all").all()) == 1


def test_kinds_of_errors_are_pythons_too() -> None:
    assert issubclass(HookFailed, Exception) and not issubclass(HookFailed, OSError)
    assert (NotFound("none").kind, CheckFailed("no", "dev").kind) == ("not_found", "check_failed")


def test_the_first_commit_cannot_be_taken_back(main: Branch) -> None:
    main.write_text("a", "1")
    main.commit("one")
    first = main.log()[1]
    with pytest.raises(ValueError, match="first commit"):
        main.undo(first)
    with pytest.raises(ValueError, match="empty commit"):
        main.restore(first)


def test_a_server_without_tasks_and_previews_names_conflicts_too() -> None:
    """As versions of lakeFS that know neither."""

    class Old(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/async"):
                self.answer(404, {"message": "not found"})
            elif self.path.endswith("/commits"):
                self.answer(201, {"id": "c" * 64, "parents": [], "message": "one"})
            else:
                self.answer(409, {"message": "conflict found"})

        def do_GET(self) -> None:
            if self.path.partition("?")[0].endswith("/preview"):
                self.answer(404, {"message": "not found"})
                return
            rows = [{"type": kind, "path": kind} for kind in ("added", "conflict")]
            page = {"has_more": False, "next_offset": "", "results": 2, "max_per_page": 1_000}
            self.answer(200, {"results": rows, "pagination": page})

        def answer(self, status: int, body: object) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with http_server(Old) as url, graveler.connect(url, "KEY", "SECRET") as lake:
        main = lake.repository("shop").branch("main")
        assert main.commit("one").id == "c" * 64
        with pytest.raises(MergeConflict) as caught:
            main.merge("dev")
        assert caught.value.paths == ("conflict",)
