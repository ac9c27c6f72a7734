"""Broken variants of the places where verbs run hooks: each is noticed.

A hook that runs after the swap cannot veto.  A post-event that is recorded after the swap is lost
in a crash.
"""

from typing import NamedTuple

import pytest

from graveler.engine import hooks as events
from graveler.errors import HookFailed
from graveler.refs.jobs import record as job_records
from tests.hooks.test_gate import CALLS, _prepared, _shown
from tests.hooks.world import OtherSide
from tests.simulation.edits import Edit, patched

COMMITS, LANDING = "engine.commits.commit", "engine.commits.land"
BRANCHES, TAGS, GATE = "engine.names", "engine.names", "hooks.gate"


class HookMutant(NamedTuple):
    """A variant, and a kind of event that shows it."""

    kind: str
    edits: tuple[Edit, ...]


def _moved(module: str, function: str, swap: str, call: str) -> tuple[Edit, ...]:
    """The call of the hooks, taken from its place and put behind the swap."""
    return (
        Edit(module, function, "pending = _run_gate_hooks(...)", "pending = NOTHING_PENDING"),
        Edit(module, function, swap, f"__old__\n{call}"),
    )


def _passed_later(function: str, swap: str, call: str, origin: str) -> tuple[Edit, ...]:
    """The same, of a verb of branches.  `origin` takes the place of the call."""
    return Edit(BRANCHES, function, call, origin), Edit(
        BRANCHES, function, swap, f"__old__\n{call}"
    )


NEW_TOKEN = "fresh_token"
PASSED = f"gate.pass_with(commit_id, {NEW_TOKEN})"


AFTER_THE_SWAP = {
    "commit": HookMutant(
        events.COMMIT,
        (
            Edit(
                COMMITS,
                "_run_tries",
                """
            drafts.append(draft._replace(pending=_run_gate_hooks(call, draft)))
            call.deadline.check(...)
            """,
                """
            drafts.append(draft)
            if isinstance(_advance(call, seen, draft), Versioned):
                drafts[-1] = draft._replace(pending=_run_gate_hooks(call, draft))
                return _answer(draft)
            """,
            ),
        ),
    ),
    "landing": HookMutant(
        events.MERGE,
        _moved(
            LANDING,
            "_move",
            "swapped = try_swap(...)",
            "_run_gate_hooks(repo, event, tried, deadline)",
        ),
    ),
    "creation of a branch": HookMutant(
        events.CREATE_BRANCH,
        _passed_later("_made", "sent = try_swap(...)", PASSED, NEW_TOKEN),
    ),
    "deletion of a branch": HookMutant(
        events.DELETE_BRANCH,
        _passed_later(
            "delete_branch",
            "sent = send(...)",
            "gate.pass_with(record.commit, record.origin)",
            "None",
        ),
    ),
    "creation of a tag": HookMutant(
        events.CREATE_TAG,
        _moved(
            TAGS,
            "create_tag",
            "tags.create(...)",
            "_run_gate_hooks(repo, CREATE_TAG, tag, commit_id)",
        ),
    ),
}
_UNGATED = {
    events.COMMIT: Edit(COMMITS, "_run_gate_hooks", "return call.repo.hooks.before(...)",
                        "return NOTHING_PENDING"),
    events.MERGE: Edit(LANDING, "_run_gate_hooks", "return ... if ... else ...",
                       "return NOTHING_PENDING"),
    events.CREATE_BRANCH: Edit(BRANCHES, "_made", PASSED, NEW_TOKEN),
    events.DELETE_BRANCH: Edit(BRANCHES, "delete_branch", "gate.pass_with(...)", "None"),
    events.CREATE_TAG: Edit(TAGS, "_run_gate_hooks", "return ...", "return Pending()"),
    events.DELETE_TAG: Edit(TAGS, "_run_gate_hooks", "return ...", "return Pending()"),
}  # fmt: skip


def _check_veto(kind: str, *edits: Edit) -> None:
    """What `test_a_veto_leaves_no_trace` demands."""
    world = _prepared(OtherSide(), f"pre-{kind}")
    if kind == events.COMMIT:
        world.lake.put("new", "1")
    before = _shown(world.lake)
    seen: list[object] = []

    def refuse(_: object) -> int:
        seen.append(_shown(world.lake.another_process()))
        return 403

    world.side.answer = refuse
    with patched(edits), pytest.raises(HookFailed):
        if kind == events.COMMIT:
            world.lake.commit("m")
        else:
            CALLS[kind](world.lake)
    assert _shown(world.lake) == before
    assert seen == [before]


@pytest.mark.parametrize("kind", _UNGATED)
def test_the_check_passes_without_a_mutant(kind: str) -> None:
    _check_veto(kind)


@pytest.mark.parametrize("mutant", AFTER_THE_SWAP)
def test_a_hook_that_runs_after_the_swap_is_noticed(mutant: str) -> None:
    kind, edits = AFTER_THE_SWAP[mutant]
    with pytest.raises(AssertionError):
        _check_veto(kind, *edits)


@pytest.mark.parametrize("kind", _UNGATED)
def test_a_verb_without_hooks_is_noticed(kind: str) -> None:
    with pytest.raises(pytest.fail.Exception):
        _check_veto(kind, _UNGATED[kind])


def _check_crash(*edits: Edit) -> None:
    """A process dies after the landing: the post-event is on record."""
    world = _prepared(OtherSide(), "post-commit")
    with patched(edits):
        world.lake.commit_of(new="1")
    world.queue.messages.clear()
    for seen in list(job_records.list_all(world.lake.ports.kv, world.lake.repo)):
        if not seen.job.ended:
            world.run_job(seen.job.id)
    assert world.side.events == ["post-commit"]


def test_a_post_event_that_is_only_announced_is_noticed() -> None:
    _check_crash()
    unrecorded = Edit(GATE, "Gate._recorded", "repo.kv.set_many(...)", "")
    with pytest.raises(AssertionError):
        _check_crash(unrecorded)


def test_a_merge_that_is_judged_by_its_source_is_noticed() -> None:
    def check(*edits: Edit) -> None:
        world = _prepared(OtherSide(), "pre-merge")
        world.lake.delete("_lakefs_actions/check.yaml", "dev")
        world.lake.commit("the source takes the gate away", "dev")
        world.side.answer = lambda told: 403
        with patched(edits), pytest.raises(HookFailed):
            world.lake.merge("dev")

    check()
    own = Edit(LANDING, "_event", "commit_id if ... else head", "commit_id")
    with pytest.raises(pytest.fail.Exception):
        check(own)
