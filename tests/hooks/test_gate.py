"""Hooks of every event: what they are told, what a veto leaves, what survives a crash."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    HookFailed,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.records import Job, JobState, PullState
from graveler.engine import hooks as events
from graveler.engine import imports, pulls
from graveler.engine import names as branches
from graveler.engine import names as tags
from graveler.engine.commits import commit, merge
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.heads import commit_of
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.jobs import record as jobs
from graveler.engine.names import PageQuery
from graveler.engine.objects import addresses, copies, read, write
from graveler.engine.objects.addresses import Link
from graveler.hooks.actions import EVENTS
from graveler.refs import job_records as job_records
from tests.engine.lake import COMMITTER, Lake
from tests.engine.pulls.world import opened
from tests.hooks.world import KEY, URL, OtherSide, World, action, hooked, new_world, upload
from tests.support.interposer import InterposedStore, Script

Call = Callable[[Lake], object]


def vetoed(event: str) -> OtherSide:
    """Refuses one event, and lets all others pass."""
    return OtherSide(lambda told: 403 if told["event_type"] == event else 200)


def _revert(lake: Lake) -> object:
    return merge.revert(lake.opened, "main", "main", merge.ReplayRequest(COMMITTER))


def _pick(lake: Lake) -> object:
    return merge.cherry_pick(lake.opened, "main", "dev", merge.ReplayRequest(COMMITTER))


CALLS: dict[str, Call] = {
    events.COMMIT: lambda lake: lake.commit_of(new="1"),
    events.MERGE: lambda lake: lake.merge("dev"),
    events.REVERT: _revert,
    events.CHERRY_PICK: _pick,
    events.CREATE_BRANCH: lambda lake: branches.create_branch(lake.opened, "fresh", "main"),
    events.DELETE_BRANCH: lambda lake: branches.delete_branch(lake.opened, "dev"),
    events.CREATE_TAG: lambda lake: tags.create_tag(lake.opened, "fresh", "main"),
    events.DELETE_TAG: lambda lake: tags.delete_tag(lake.opened, "v1"),
}


def _prepared(side: OtherSide, *names: str) -> World:
    """Branches that differ, a tag, and an action for these events on both branches."""
    world = new_world(side)
    lake = world.lake
    lake.commit_of(a="1")
    world.action("check.yaml", action(*names))
    lake.commit("actions")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    lake.commit_of(c="3")
    tags.create_tag(lake.opened, "v1", "main")
    world.work()
    side.requests.clear()
    return world


def _shown(lake: Lake) -> object:
    """Everything that readers see."""
    views, _ = branches.list_branches(lake.opened, PageQuery())
    named, _ = tags.list_tags(lake.opened, PageQuery())
    heads = {view.id: view.branch.commit for view in views}
    return heads, named, [(name, lake.tree(name), lake.uncommitted(name)) for name in heads]


@pytest.mark.parametrize("kind", CALLS)
def test_a_veto_leaves_no_trace(kind: str) -> None:
    world = _prepared(OtherSide(), f"pre-{kind}", f"post-{kind}")
    before, known = _shown(world.lake), len(world.runs)
    world.side.answer = lambda told: 403
    with pytest.raises(HookFailed) as failed:
        CALLS[kind](world.lake)
    if kind == events.COMMIT:  # what was staged stays staged
        assert world.lake.uncommitted() == [("added", "new")]
        world.lake.delete("new")
    assert _shown(world.lake) == before
    run = world.runs[0]
    assert len(world.runs) == known + 1
    assert (run.event, run.passed, [hook.passed for hook in run.hooks]) == (
        f"pre-{kind}",
        False,
        [False],
    )
    assert str(failed.value) == (
        f"pre-{kind} hook aborted, run id '{run.id}': hook 'first' of action 'check' failed: "
        "request failed (status code: 403)"
    )
    world.work()
    assert world.side.events == [f"pre-{kind}"]


@pytest.mark.parametrize("kind", CALLS)
def test_hooks_run_before_and_after(kind: str) -> None:
    world = _prepared(OtherSide(), f"pre-{kind}", f"post-{kind}")
    before = _shown(world.lake)
    seen: list[object] = []

    def watch(told: dict[str, Any]) -> int:
        if told["event_type"].startswith("pre-"):
            seen.append(_shown(world.lake.another_process())[:2])  # type: ignore[index]
        return 200

    world.side.answer = watch
    CALLS[kind](world.lake)
    assert seen == [before[:2]]  # type: ignore[index]
    assert _shown(world.lake) != before
    assert world.side.events == [f"pre-{kind}"]  # a post-event is left to a worker
    world.work()
    assert world.side.events == [f"pre-{kind}", f"post-{kind}"]
    post, pre = world.runs[:2]
    assert (pre.event, post.event) == (f"pre-{kind}", f"post-{kind}")
    assert pre.passed and post.passed
    assert pre.commit == post.commit != ""
    assert pre.branch == post.branch == world.side.told[0].get("branch_id", "")


def test_a_hook_is_told_what_clients_of_the_peer_expect() -> None:
    world = _prepared(OtherSide(), "pre-merge", "pre-commit", "post-create-tag")
    source = world.lake.head("dev")
    merged = world.lake.merge("dev")
    told = world.side.told[0]
    time = told.pop("event_time")
    assert time.endswith("+00:00") and "T" in time
    assert told == {
        "event_type": "pre-merge",
        "repository_id": "lake",
        "branch_id": "main",
        "source_ref": source,
        "commit_id": merged,
        "commit_message": "merge",
        "committer": COMMITTER,
        "commit_metadata": {".lakefs.merge.strategy": "default"},
        "merge_source": "dev",
        "action_name": "check",
        "hook_id": "first",
    }
    tags.create_tag(world.lake.opened, "v2", "main")
    world.work()
    tag = world.side.told[-1]
    assert (tag["tag_id"], tag["commit_id"]) == ("v2", merged)
    assert "branch_id" not in tag and "merge_source" not in tag


@pytest.mark.parametrize("moment", ["pre", "post"])
def test_names_say_nothing_of_the_committer_of_an_old_commit(moment: str) -> None:
    """A hook that asks who creates this tag must not be told who made the commit."""
    kinds = ("create-branch", "delete-branch", "create-tag", "delete-tag")
    world = _prepared(OtherSide(), *(f"{moment}-{kind}" for kind in kinds))
    opened = world.lake.opened
    branches.create_branch(opened, "new", "main@")
    tags.create_tag(opened, "v2", "main")
    world.work()
    branches.delete_branch(opened, "new")
    tags.delete_tag(opened, "v2")
    world.work()
    assert sorted(world.side.events) == sorted(f"{moment}-{kind}" for kind in kinds)
    for told in world.side.told:
        assert not {"committer", "commit_message", "commit_metadata"} & set(told)
    sources = {told["event_type"]: told["source_ref"] for told in world.side.told}
    assert sources[f"{moment}-create-branch"] == "main@"


@pytest.mark.parametrize("moment", ["pre", "post"])
def test_the_source_of_a_replay_is_what_the_caller_named(moment: str) -> None:
    world = _prepared(OtherSide(), f"{moment}-revert", f"{moment}-cherry-pick")
    CALLS["revert"](world.lake)
    CALLS["cherry-pick"](world.lake)
    world.work()
    sources = [told["source_ref"] for told in world.side.told]
    assert sources and all(len(source) < 64 for source in sources), sources


def test_what_is_sent_is_signed() -> None:
    world = _prepared(OtherSide(), "pre-create-tag")
    tags.create_tag(world.lake.opened, "v2", "main")
    request = world.side.requests[0]
    time = request.headers["X-Graveler-Timestamp"]
    expected = hmac.new(KEY, f"{time}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Graveler-Signature"] == f"sha256={expected}"
    assert (request.method, request.url) == ("POST", URL)
    assert request.headers["Content-Type"] == "application/json"


# ---- which actions decide ------------------------------------------------------------------------


def test_a_commit_is_judged_by_the_actions_that_it_contains() -> None:
    world = new_world(vetoed("pre-commit"))
    world.action("check.yaml", action("pre-commit"))
    with pytest.raises(HookFailed):
        world.lake.commit("brings the action")
    world.lake.delete("_lakefs_actions/check.yaml")
    world.lake.commit_of(a="1")  # nothing is left of it


def test_a_hook_can_read_the_commit_that_would_land() -> None:
    world = _prepared(OtherSide(), "pre-commit")
    read: list[dict[str, str]] = []

    def look(told: dict[str, Any]) -> int:
        world.lake.put("later", "1")  # staged while the hook runs: not in the commit
        read.append(world.lake.tree(told["commit_id"]))
        return 200

    world.side.answer = look
    made = world.lake.commit_of(new="1")
    assert read == [world.lake.tree(made)]
    assert "later" not in read[0]
    assert world.lake.uncommitted() == [("added", "later")]


def test_a_merge_is_judged_by_the_actions_of_its_destination() -> None:
    side = vetoed("pre-merge")
    world = new_world(side)
    lake = world.lake
    lake.commit_of(a="1")
    lake.branch("dev")
    world.action("check.yaml", action("pre-merge"), "dev")
    lake.commit_of("dev", b="1")
    lake.merge("dev")  # the action is on `main` only from here on
    assert side.events == []
    upload(lake, "_lakefs_actions/check.yaml", action("post-merge"), "dev")
    lake.commit_of("dev", c="1")
    with pytest.raises(HookFailed):
        lake.merge("dev")  # the source cannot take the gate away
    assert side.events == ["pre-merge"]


def test_patterns_choose_branches() -> None:
    side = vetoed("pre-commit")
    world = new_world(side)
    text = action("pre-commit").replace("  pre-commit:\n", '  pre-commit: {branches: ["main*"]}\n')
    world.lake.commit_of(a="1")
    world.lake.branch("dev")
    world.action("check.yaml", text, "dev")
    world.lake.commit_of("dev", b="1")
    assert side.events == []
    world.action("check.yaml", text, "main")
    with pytest.raises(HookFailed):
        world.lake.commit("m")


def test_an_invalid_file_closes_the_gate_and_never_lands() -> None:
    world = _prepared(OtherSide(), "pre-merge")
    world.action("bad.yaml", "name: [")
    with pytest.raises(HookFailed, match=r"action file invalid: file=bad\.yaml: it is not YAML"):
        world.lake.commit("bad")
    upload(world.lake, "_lakefs_actions/bad.yaml", action("pre-merge"))
    world.lake.commit("good")
    assert [run.event for run in world.runs].count("pre-commit") == 0  # a run needs an action


def _unhooked(world: World) -> Lake:
    """The repository as before hooks were switched on."""
    return Lake(replace(world.lake.ports, hooks=events.NO_HOOKS), world.lake.repo)


def _corrected(lake: Lake) -> None:
    upload(lake, "_lakefs_actions/bad.yaml", action("pre-commit"))


def _deleted(lake: Lake) -> None:
    lake.delete("_lakefs_actions/bad.yaml")


@pytest.mark.parametrize("mend", [_corrected, _deleted])
@pytest.mark.parametrize("text", ["name: [", ""])
def test_a_commit_mends_an_invalid_file_of_its_branch(mend: Call, text: str) -> None:
    """Also one whose bytes are gone."""
    world = _prepared(OtherSide(), "pre-commit", "prepare-commit")
    unhooked = _unhooked(world)
    if text:
        upload(unhooked, "_lakefs_actions/bad.yaml", text)
    else:
        unhooked.put("_lakefs_actions/bad.yaml", "never stored")
    unhooked.commit("bad")
    world.lake.put("a", "2")
    with pytest.raises(HookFailed, match=r"pre-commit .*bad\.yaml"):
        world.lake.commit("does not mend it")
    with pytest.raises(HookFailed, match=r"bad\.yaml"):
        branches.create_branch(world.lake.opened, "fresh", "main")
    mend(world.lake)
    world.lake.commit("mends it")
    assert world.side.events == ["pre-commit"] * (2 if mend is _corrected else 1)
    world.side.requests.clear()
    world.lake.commit_of(b="1")
    assert world.side.events[0] == "prepare-commit"


def test_a_tag_of_a_commit_with_an_invalid_file_can_be_deleted() -> None:
    """The files of a commit never change: nothing else could mend the tag."""
    world = _prepared(OtherSide(), "pre-commit")
    unhooked = _unhooked(world)
    upload(unhooked, "_lakefs_actions/bad.yaml", "name: [")
    unhooked.commit("bad")
    tags.create_tag(unhooked.opened, "old", "main")
    with pytest.raises(HookFailed, match=r"bad\.yaml"):
        tags.create_tag(world.lake.opened, "new", "main")
    tags.delete_tag(world.lake.opened, "old")
    with pytest.raises(NotFound):
        tags.get_tag(world.lake.opened, "old")


def test_an_invalid_file_of_the_source_does_not_land_by_a_merge() -> None:
    world = _prepared(OtherSide(), "pre-merge")
    unhooked = _unhooked(world)
    upload(unhooked, "_lakefs_actions/bad.yaml", "on: 3", "dev")
    unhooked.commit("bad", "dev")
    before = world.lake.head()
    with pytest.raises(HookFailed, match=r"bad\.yaml"):
        world.lake.merge("dev")
    assert world.lake.head() == before


def test_files_in_folders_below_are_no_actions() -> None:
    """Nor is the empty object by which some clients mark the folder."""
    world = new_world(vetoed("pre-commit"))
    world.action("deep/check.yaml", action("pre-commit"))
    world.action("", "")
    world.lake.commit("m")
    assert world.side.requests == []


@pytest.mark.parametrize("name", ["check", "check.txt", "check.yaml.bak", "check.YML"])
def test_every_file_of_the_folder_is_an_action_whatever_its_name(name: str) -> None:
    world = new_world(vetoed("pre-commit"))
    world.action(name, action("pre-commit"))
    with pytest.raises(HookFailed, match="pre-commit hook aborted"):
        world.lake.commit("m")
    assert world.side.events == ["pre-commit"]


def test_a_file_that_is_no_action_is_refused_with_its_name_and_the_remedy() -> None:
    world = new_world()
    world.action("README.md", "# Our gates\n")
    remedy = r"file=_lakefs_actions/README\.md: .*graveler reset lake/BRANCH/_lakefs_actions/READ"
    with pytest.raises(HookFailed, match=remedy):
        world.lake.commit("m")
    world.lake.delete("_lakefs_actions/README.md")
    world.lake.commit_of(a="1")


def test_too_many_or_too_large_files_close_the_gate() -> None:
    world = new_world()
    for number in range(limits.action_files_max + 1):
        world.lake.put(f"_lakefs_actions/{number}.yaml", "1")
    with pytest.raises(HookFailed, match="at most 100 objects"):
        world.lake.commit("m")
    world = new_world()
    world.action("a.yaml", "#" * (limits.action_file_length_bytes_max + 1))
    with pytest.raises(HookFailed, match=r"a\.yaml: it must have at most 65536 bytes"):
        world.lake.commit("m")
    world = new_world()
    hooks = "\n".join(f"  - {{id: h{number}, type: lua}}" for number in range(60))
    for name in ("a.yaml", "b.yaml"):
        world.action(name, f"on: {{post-commit: }}\nhooks:\n{hooks}\n")
    with pytest.raises(HookFailed, match="at most 100 hooks"):
        world.lake.commit("m")


def test_the_record_of_the_longest_run_is_stored() -> None:
    world = new_world()
    hooks = "\n".join(
        f"  - {{id: {'h' * 250}{number}, type: lua, if: always()}}"
        for number in range(limits.action_hooks_max)
    )
    name = "\N{GRINNING FACE}" * limits.name_length_max
    world.action("a.yaml", f"name: {name}\non: {{pre-commit: }}\nhooks:\n{hooks}\n")
    with pytest.raises(HookFailed, match="lua hooks are not supported"):
        world.lake.commit("m")
    assert [len(run.hooks) for run in world.runs] == [limits.action_hooks_max]


def test_a_file_without_bytes_closes_the_gate() -> None:
    world = new_world()
    world.lake.put("_lakefs_actions/a.yaml", "1")  # an entry whose object was never stored
    with pytest.raises(HookFailed, match="not in the object store"):
        world.lake.commit("m")


GATE = "mem://landing/actions/gate.yaml"


def _linked(lake: Lake, path: str) -> None:
    size = len(lake.ports.blocks.read(GATE, 0, 1_000))
    addresses.link_any(lake.opened, "main", path, Link(GATE, "sum", size))


def _imported(lake: Lake, path: str) -> None:
    _import(lake, ImportPath("object", GATE, path))


def _imported_below(lake: Lake, path: str) -> None:
    _import(lake, ImportPath("common_prefix", GATE.rpartition("/")[0], path.rpartition("/")[0]))


def _import(lake: Lake, path: ImportPath) -> None:
    request = ImportRequest([path], "m", COMMITTER)
    job = imports.submit(lake.opened, "main", request, owner=b"me")
    imports.run(lake.opened, job.branch, request, job.id)


@pytest.mark.parametrize("bring", [_linked, _imported, _imported_below])
def test_a_file_outside_the_repository_is_no_gate(bring: Callable[[Lake, str], None]) -> None:
    """Whoever may write there could open the gate without a commit.  It is refused when it is
    staged, so that it does not stop the commits of others."""
    world, other = new_world(), new_world()
    for each in (world, other):
        each.lake.ports.blocks.put(GATE, [action("pre-commit").encode()])
    bring(other.lake, "in/gate.yaml")
    with pytest.raises(Invalid, match="must not be below _lakefs_actions/: upload it"):
        bring(world.lake, "_lakefs_actions/gate.yaml")
    world.lake.commit_of(a="1")
    stored = read.stat(other.lake.opened, "main", "in/gate.yaml")
    write.stage(world.lake.opened, "main", "_lakefs_actions/gate.yaml", stored)
    with pytest.raises(HookFailed, match=r"gate\.yaml: its bytes are outside the repository"):
        world.lake.commit("staged past the checks")
    copied = copies.Source("main", "in/gate.yaml")  # a copy has bytes of its own
    copies.copy(other.lake.opened, "main", "_lakefs_actions/good.yaml", copied)
    other.lake.commit("copied")
    assert other.side.events == ["pre-commit"]


def test_an_import_of_a_larger_folder_skips_its_action_files() -> None:
    world = new_world()
    for name in ("a", "_lakefs_actions/gate.yaml"):
        world.lake.ports.blocks.put(f"mem://landing/all/{name}", [b"x"])
    _import(world.lake, ImportPath("common_prefix", "mem://landing/all/", ""))
    assert set(world.lake.tree("main@")) == {"a"}
    head = commit_of(world.lake.opened, world.lake.head())
    assert head.metadata[imports.SKIPPED_KEY] == "1"
    assert "_lakefs_actions/gate.yaml" in head.metadata[imports.SKIPPED_EXAMPLES_KEY]


def test_a_file_whose_bytes_were_replaced_closes_the_gate() -> None:
    world = new_world()
    world.action("a.yaml", action("pre-commit"))
    entry = read.stat(world.lake.opened, "main", "_lakefs_actions/a.yaml")
    full = f"{world.lake.opened.namespace}/{entry.address}"
    world.lake.ports.blocks.put(full, [action("pre-merge").encode()])
    with pytest.raises(HookFailed, match="were replaced after its commit"):
        world.lake.commit("m")


def test_lua_is_refused_when_it_is_due() -> None:
    world = new_world()
    world.action("a.yaml", "on: {pre-commit: }\nhooks: [{id: old, type: lua}]\n")
    with pytest.raises(HookFailed, match="lua hooks are not supported; use a webhook instead"):
        world.lake.commit("m")
    assert [run.passed for run in world.runs] == [False]


# ---- order and conditions ------------------------------------------------------------------------

FOUR = """
name: {name}
on: {{pre-commit: }}
hooks:
  - {{id: one, type: webhook, properties: {{url: "https://x.example/"}}}}
  - {{id: two, type: webhook, properties: {{url: "https://x.example/"}}}}
  - {{id: mend, type: webhook, if: failure(), properties: {{url: "https://x.example/"}}}}
  - {{id: last, type: webhook, if: always(), properties: {{url: "https://x.example/"}}}}
"""


@pytest.mark.parametrize(
    ("failing", "ran"),
    [
        ("", ["one", "two", "last"]),
        ("one", ["one", "mend", "last"]),
        ("two", ["one", "two", "mend", "last"]),
        ("last", ["one", "two", "last"]),
    ],
)
def test_hooks_of_an_action_run_in_order_under_their_conditions(
    failing: str, ran: list[str]
) -> None:
    world = new_world(OtherSide(lambda told: 500 if told["hook_id"] == failing else 200))
    world.action("a.yaml", FOUR.format(name="a"))
    if failing:
        with pytest.raises(HookFailed, match=f"hook '{failing}' of action 'a' failed"):
            world.lake.commit("m")
    else:
        world.lake.commit("m")
    assert [told["hook_id"] for told in world.side.told] == ran
    assert [hook.hook for hook in world.runs[0].hooks] == ran


def test_a_failure_of_one_action_does_not_stop_another() -> None:
    world = new_world(OtherSide(lambda told: 500 if told["action_name"] == "a" else 200))
    world.action("a.yaml", FOUR.format(name="a"))
    world.action("b.yaml", FOUR.format(name="b"))
    with pytest.raises(HookFailed, match="of action 'a' failed"):
        world.lake.commit("m")
    ids = [hook.id for hook in world.runs[0].hooks]
    assert ids == ["0000_0000", "0000_0002", "0000_0003", "0001_0000", "0001_0001", "0001_0003"]


def test_a_preparation_may_write_to_the_branch() -> None:
    world = _prepared(OtherSide(), "prepare-commit")

    def prepare(told: dict[str, Any]) -> int:
        assert "commit_id" not in told
        assert (told["source_ref"], told["commit_message"]) == ("main", "prepared")
        Lake(replace(world.lake.ports, hooks=events.NO_HOOKS), world.lake.repo).put("made", "1")
        return 200

    world.side.answer = prepare
    world.lake.commit("prepared")  # nothing was staged before
    assert world.lake.tree()["made"] == "1"
    assert world.side.events == ["prepare-commit"]
    assert world.runs[0].commit == ""


def test_a_preparation_may_refuse() -> None:
    world = _prepared(OtherSide(), "prepare-commit")
    world.side.answer = lambda told: 403
    world.lake.put("new", "1")
    before = world.lake.record()
    with pytest.raises(HookFailed):
        world.lake.commit("m")
    assert world.lake.record() == before  # not even sealed


def test_an_import_is_a_commit() -> None:
    world = _prepared(OtherSide(), "pre-commit")
    world.side.answer = lambda told: 403
    world.lake.ports.blocks.put("mem://elsewhere/x/a", [b"x"])
    path = ImportPath("common_prefix", "mem://elsewhere/x/", "in/")
    request = ImportRequest((path,), COMMITTER, "m", {})
    before = world.lake.head()
    main = world.lake.repo.default_branch
    job = imports.submit(world.lake.opened, main, request, owner=b"").id
    imports.run(world.lake.opened, main, request, job)
    ended = jobs.status(world.lake.opened, job)
    assert ended.state is JobState.FAILED
    assert "pre-commit hook aborted" in ended.error
    assert world.lake.head() == before


# ---- races and crashes ---------------------------------------------------------------------------


def test_hooks_run_once_for_a_commit_whose_swap_is_sent_again() -> None:
    world = new_world()
    world.action("a.yaml", action("pre-merge", "post-merge"))
    world.lake.commit("actions")
    world.lake.branch("dev")
    world.lake.commit_of("dev", b="2")
    mine, script = world.lake.interposed()

    def lose() -> None:
        raise OutcomeUnknown("no answer")

    script.before("set_if", lose)
    mine.merge("dev", created_ns=1_700_000_000 * limits.SECOND_NS)  # so it is the same commit
    world.work()
    assert script.finished
    assert [event for event in world.side.events if "merge" in event] == ["pre-merge", "post-merge"]


def test_a_commit_that_is_rebuilt_passes_its_hooks_again() -> None:
    world = _prepared(OtherSide(), "pre-commit")
    script = Script()
    rival = Lake(
        replace(world.lake.another_process().ports, hooks=events.NO_HOOKS), world.lake.repo
    )
    scripted = hooked(
        world.lake.with_kv(lambda kv: InterposedStore(kv, script)), world.side, world.queue
    )
    world.lake.put("new", "1")

    def answer(told: dict[str, Any]) -> int:
        if len(world.side.requests) == 1:  # another commit lands while the hook runs
            rival.put("rival", "1")
            rival.commit("rival")
        return 200

    world.side.answer = answer
    # `rival` folds in what this commit had sealed, too; with allow_empty it is built again.
    made = scripted.lake.commit("mine", allow_empty=True)
    assert world.side.events == ["pre-commit", "pre-commit"]
    first, second = world.side.told
    assert first["commit_id"] != second["commit_id"] == made.id
    runs = [run for run in world.runs if run.event == "pre-commit"][:2]
    assert [run.commit for run in runs] == [made.id, ""]  # newest first; only one landed


def test_a_merge_that_is_rebuilt_may_be_vetoed_then() -> None:
    world = _prepared(OtherSide(), "pre-merge")
    rival = Lake(
        replace(world.lake.another_process().ports, hooks=events.NO_HOOKS), world.lake.repo
    )

    def answer(told: dict[str, Any]) -> int:
        if len(world.side.requests) > 1:
            return 403
        rival.commit_of(rival="1")
        return 200

    world.side.answer = answer
    with pytest.raises(HookFailed):
        world.lake.merge("dev")
    assert world.lake.head() == rival.head()
    assert "b" not in world.lake.tree()


def test_a_post_event_survives_a_crash_after_the_landing() -> None:
    world = _prepared(OtherSide(), "post-commit")
    made = world.lake.commit_of(new="1")
    (lost,) = world.queue.messages
    world.queue.messages.clear()  # the process dies: nobody is told
    assert world.side.events == []
    (job,) = _waiting(world)
    assert job.kind == "hooks"
    world.run_job(job.id)
    assert world.side.events == ["post-commit"]
    assert world.side.told[0]["commit_id"] == made
    world.queue.messages.append(lost)  # late: it does no harm
    world.work()
    assert world.side.events == ["post-commit"]


def test_a_post_event_never_blocks() -> None:
    world = _prepared(vetoed("post-commit"), "post-commit")
    made = world.lake.commit_of(new="1")
    assert world.lake.head() == made
    world.work()
    assert [(run.event, run.passed) for run in world.runs[:1]] == [("post-commit", False)]
    assert world.lake.head() == made


def test_a_post_event_waits_until_its_change_is_visible() -> None:
    world = _prepared(OtherSide(), "post-commit")
    lake, script = world.lake.interposed()
    stopped: list[str] = []

    def examine() -> None:  # a worker finds the job before the swap
        (job,) = _waiting(world)
        stopped.append(job.id)
        world.run_job(job.id)

    lake.put("new", "1")
    script.before("set_if", examine, nth=2)  # the first is the seal
    lake.commit("m")
    assert world.side.events == []
    assert jobs.status(world.lake.opened, stopped[0]).state is JobState.RUNNING
    world.work()
    assert world.side.events == ["post-commit"]


def test_no_post_event_runs_for_a_change_that_never_became_visible() -> None:
    world = _prepared(OtherSide(), "post-commit")
    lake, script = world.lake.interposed()
    lake.put("new", "1")

    def die() -> None:
        raise KeyboardInterrupt

    script.before("set_if", die, nth=2)
    with pytest.raises(KeyboardInterrupt):
        lake.commit("m")
    (job,) = _waiting(world)
    world.run_job(job.id)
    assert jobs.status(world.lake.opened, job.id).state is JobState.RUNNING
    later = job._replace(
        created_ns=job.created_ns - (limits.hook_landing_seconds + 1) * limits.SECOND_NS,
        owner=b"",
    )
    seen = job_records.get(world.lake.ports.kv, world.lake.repo, job.id)
    ids = world.lake.ports.ids
    job_records.put(world.lake.ports.kv, world.lake.repo, later, seen, ids.stamp())
    world.run_job(job.id)
    assert jobs.status(world.lake.opened, job.id).state is JobState.DONE
    assert world.side.events == []


@pytest.mark.parametrize("kind", CALLS)
def test_a_post_event_of_a_change_that_was_not_made_does_not_run(kind: str) -> None:
    """The job is on record, and the call stops before its decisive write."""
    world = _prepared(OtherSide(), f"post-{kind}")
    lake, script = world.lake.interposed()

    def die() -> None:
        raise KeyboardInterrupt

    if kind == events.COMMIT:
        lake.put("new", "1")
    script.before("set_if", die, nth=2 if kind == events.COMMIT else 1)
    with pytest.raises(KeyboardInterrupt):
        if kind == events.COMMIT:
            lake.commit("m")
        else:
            CALLS[kind](lake)
    (job,) = _waiting(world)
    world.run_job(job.id)
    assert world.side.events == []


def test_a_creation_that_lost_has_no_post_event() -> None:
    """Another request creates the branch while the hooks of this one run."""
    world = _prepared(OtherSide(), "pre-create-branch", "post-create-branch")
    winner = _unhooked(world)

    def answer(_told: dict[str, Any]) -> int:
        branches.create_branch(winner.opened, "fresh", "main")
        return 200

    world.side.answer = answer
    with pytest.raises(AlreadyExists):
        branches.create_branch(world.lake.opened, "fresh", "main")
    (job,) = _waiting(world)
    world.run_job(job.id)
    assert world.side.events == ["pre-create-branch"]


def test_a_creation_that_begins_again_has_one_post_event() -> None:
    """Its hooks pass once more if its source moved; what they passed before is never visible."""
    world = _prepared(OtherSide(), "pre-create-branch", "post-create-branch")
    other = _unhooked(world)
    branches.create_branch(other.opened, "fresh", "main")
    branches.delete_branch(other.opened, "fresh")
    before = world.lake.head()

    def answer(told: dict[str, Any]) -> int:
        if told["commit_id"] == before:
            branches.create_branch(other.opened, "fresh", "main")
            branches.delete_branch(other.opened, "fresh")
            other.commit_of(moved="1")
        return 200

    world.side.answer = answer
    made = branches.create_branch(world.lake.opened, "fresh", "main")
    assert made == world.lake.head() != before
    for job in _waiting(world):
        world.run_job(job.id)
    assert world.side.events == ["pre-create-branch", "pre-create-branch", "post-create-branch"]
    assert world.side.told[-1]["commit_id"] == made


def test_a_deletion_has_its_post_event_though_the_name_has_a_new_branch() -> None:
    """Also if the request that deleted could not say so."""
    world = _prepared(OtherSide(), "post-delete-branch")
    _unnoted(world, events.DELETE_BRANCH)
    branches.create_branch(_unhooked(world).opened, "dev", "main")
    world.work()
    assert world.side.events == ["post-delete-branch"]


def test_a_branch_that_was_deleted_since_was_created() -> None:
    """Also if the request that created it could not say so: its record shows it."""
    world = _prepared(OtherSide(), "post-create-branch")
    _unnoted(world, events.CREATE_BRANCH)
    branches.delete_branch(_unhooked(world).opened, "fresh")
    world.work()
    assert world.side.events == ["post-create-branch"]


def test_a_deletion_that_begins_again_has_one_post_event() -> None:
    """Another client commits while its hooks run: what they passed before was not deleted."""
    world = _prepared(OtherSide(), "pre-delete-branch", "post-delete-branch")
    other = _unhooked(world)
    before = world.lake.head("dev")

    def answer(told: dict[str, Any]) -> int:
        if told["event_type"] == "pre-delete-branch" and told["commit_id"] == before:
            other.commit_of("dev", moved="1")
        return 200

    world.side.answer = answer
    branches.delete_branch(world.lake.opened, "dev")
    for job in _waiting(world):
        world.run_job(job.id)
    assert world.side.events == ["pre-delete-branch", "pre-delete-branch", "post-delete-branch"]
    assert world.side.told[-1]["commit_id"] != before


def test_a_creation_is_not_told_of_the_next_branch_of_the_name() -> None:
    world = _prepared(OtherSide(), "post-create-branch")
    _unnoted(world, events.CREATE_BRANCH)
    other = _unhooked(world)
    branches.delete_branch(other.opened, "fresh")
    branches.create_branch(other.opened, "fresh", "main")
    world.work()
    assert world.side.events == []


def _unnoted(world: World, kind: str) -> None:
    """Create or delete a branch; the store does not answer then, so the job does not learn it."""
    lake, script = world.lake.interposed()
    script.before("set_if", _unanswered, 2)  # after the swap
    CALLS[kind](lake)
    assert script.finished


def _unanswered() -> None:
    raise Unavailable("no store")


def _waiting(world: World) -> list[Job]:
    """The jobs that have not ended."""
    known = [seen.job for seen in job_records.list_all(world.lake.ports.kv, world.lake.repo)]
    return [job for job in known if not job.ended]


def test_a_branch_that_is_gone_shows_no_commit() -> None:
    """If the request that made the commit could not say that it was visible."""
    world = _prepared(OtherSide(), "post-commit")
    world.lake.put("x", "1", "dev")
    lake, script = world.lake.interposed()
    script.before("set_if", _unanswered, 3)  # after the swaps that seal and land
    lake.commit("m", "dev")
    assert script.finished
    plain = replace(world.lake.ports, hooks=events.NO_HOOKS)
    branches.delete_branch(Lake(plain, world.lake.repo).opened, "dev")
    world.work()
    assert world.side.events == []


def test_a_run_that_cannot_be_stored_stops_the_change() -> None:
    world = _prepared(OtherSide(), "pre-create-tag")
    lake, script = world.lake.interposed()

    def fail() -> None:
        raise Unavailable("no store")

    script.before("set_many", fail)
    with pytest.raises(Unavailable):
        tags.create_tag(lake.opened, "v2", "main")
    with pytest.raises(NotFound):
        tags.get_tag(world.lake.opened, "v2")


# ---- cost ----------------------------------------------------------------------------------------


def _requests(lake: Lake, call: Call) -> list[str]:
    seen, script = lake.interposed()
    call(seen)
    return script.seen


@pytest.mark.parametrize("kind", CALLS)
def test_a_repository_without_actions_sends_no_more_kv_requests(kind: str) -> None:
    """Except for the record of a commit that no other step reads."""
    plain, with_hooks = _without_actions(), _without_actions()
    hooks = hooked(with_hooks, OtherSide(), new_world().queue).lake
    if kind == events.COMMIT:
        for lake in (plain, hooks):
            lake.put("new", "1")
        calls: Call = _commit
    else:
        calls = CALLS[kind]
    more = _more(_requests(hooks, calls), _requests(plain, calls))
    names = (events.CREATE_BRANCH, events.DELETE_BRANCH, events.CREATE_TAG, events.DELETE_TAG)
    assert more == (["get"] if kind in names else [])


def _commit(lake: Lake) -> object:
    return commit.commit(lake.opened, "main", CommitRequest("m", "c"))


def _tag(lake: Lake) -> object:
    return tags.create_tag(lake.opened, "hooked", "main")


def _without_actions() -> Lake:
    lake = new_world().lake
    lake = Lake(replace(lake.ports, hooks=events.NO_HOOKS), lake.repo)
    lake.commit_of(a="1", z="1")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    lake.commit_of(c="3")
    tags.create_tag(lake.opened, "v1", "main")
    return lake


def _more(sent: list[str], than: list[str]) -> list[str]:
    rest = list(sent)
    for request in than:
        rest.remove(request)
    return rest


def test_actions_cost_their_records_only() -> None:
    world = _prepared(OtherSide(), "pre-create-tag", "post-create-tag")
    plain = Lake(replace(world.lake.ports, hooks=events.NO_HOOKS), world.lake.repo)
    usual = _requests(plain, lambda lake: tags.create_tag(lake.opened, "plain", "main"))
    # the commit; the run; the job, twice; after the landing the run is complete already
    sent = _more(_requests(world.lake, _tag), usual)
    assert sorted(sent) == ["get", "get", "get", "set_if", "set_many", "set_many"]


def test_every_event_of_the_list_has_been_seen() -> None:
    kinds = set(CALLS)
    assert {f"{moment}-{kind}" for kind in kinds for moment in ("pre", "post")} | {
        events.PREPARE
    } == set(EVENTS)


def test_a_pull_request_whose_merge_is_vetoed_stays_open() -> None:
    world = _prepared(OtherSide(), "pre-merge", "post-merge")
    pull = opened(world.lake, "dev", "main")
    world.side.answer = lambda told: 403 if told["event_type"] == "pre-merge" else 200
    before = world.lake.head()
    with pytest.raises(HookFailed):
        pulls.merge(world.lake.opened, pull, COMMITTER)
    record = pulls.get(world.lake.opened, pull)
    assert (record.state, record.attempt) == (PullState.OPEN, "")  # nothing may still land
    assert world.lake.head() == before
    world.side.answer = lambda told: 200
    made = pulls.merge(world.lake.opened, pull, COMMITTER)
    assert world.lake.head() == made.id
    world.work()
    assert world.side.events == ["pre-merge", "pre-merge", "post-merge"]


def test_vetoed_commits_do_not_make_the_record_longer_for_ever() -> None:
    world = _prepared(OtherSide(), "pre-commit")
    world.side.answer = lambda told: 403
    world.lake.put("new", "1")
    for _ in range(limits.sealed_token_count_max + 8):
        with pytest.raises(HookFailed):
            world.lake.commit("m")
    assert len(world.lake.record().sealed) <= limits.sealed_token_count_max
    assert world.lake.uncommitted() == [("added", "new")]
    world.side.answer = lambda told: 200
    world.lake.commit("m")
    assert world.lake.record().sealed == ()
    assert world.lake.uncommitted() == []
