"""One run: all hooks of the actions that match one event, their logs and their record.

    actions     at the same time
    hooks       of one action one after the other, each under its condition
    logs        <namespace>/_lakefs/actions/log/<run>/<hook run>.log, one for each hook that ran
    record      stored last (refs/action_runs.py)

A hook that an earlier attempt has noted is not called again: its outcome is the noted one.
"""

import json
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from graveler.block import address
from graveler.core.errors import GravelerError
from graveler.core.fanout import Fanout
from graveler.core.ids import BranchId, CommitId
from graveler.engine.hooks import Progress
from graveler.engine.ports import Deadline, OpenRepository
from graveler.hooks import calls
from graveler.hooks.actions import Action, Condition, Hook
from graveler.hooks.calls import Caller, Facts, HookMessage, Outcome
from graveler.refs import action_runs
from graveler.refs.action_runs import ActionRun, HookRun

_LOG: Final = logging.getLogger("graveler.hooks")


class RunPlan(NamedTuple):
    """A run that begins.

    `commit`: what the record says while nothing has landed.  `given_up`: why no hook is called any
    more; empty: hooks are called.
    """

    id: str
    event: str
    branch: BranchId
    commit: CommitId
    actions: tuple[Action, ...]
    facts: Facts
    given_up: str = ""


class RunResult(NamedTuple):
    """A run that has ended.  `reason`: why it failed; empty: every hook that ran has passed."""

    run: ActionRun
    reason: str


class _Once:
    """`Progress` of a run that is not repeated."""

    def known(self) -> Mapping[str, str]:
        return {}

    def begin(self) -> None:
        return

    def note(self, name: str, value: str) -> None:
        return


ONCE: Final = _Once()


class _Ran(NamedTuple):
    """A hook that ran, in this attempt or in an earlier one.  `reason`: as in `Outcome`; an earlier
    attempt's is not known any more."""

    hook: HookRun
    reason: str


class _Attempt(NamedTuple):
    """What the hooks of one run share."""

    repo: OpenRepository
    caller: Caller
    plan: RunPlan
    deadline: Deadline
    progress: Progress


def run(
    repo: OpenRepository,
    caller: Caller,
    together: Fanout,
    plan: RunPlan,
    deadline: Deadline,
    progress: Progress = ONCE,
) -> RunResult:
    """Run every hook, store the logs and the record.  A log that cannot be stored is left out.

    Errors: `Unavailable` if the record is not stored; those of `progress`.  Cost: 1 put and the
    requests of `progress` for each hook, 1 KV request.
    """
    attempt = _Attempt(repo, caller, plan, deadline, progress)
    numbered = list(enumerate(plan.actions))
    ran = [
        each for some in together.map(lambda it: _in_order(attempt, *it), numbered) for each in some
    ]
    reason = next((_named(each) for each in ran if not each.hook.passed), "")
    hooks = tuple(each.hook for each in ran)
    now_ns = repo.clock.now_ns()
    started_ns = min((hook.started_ns for hook in hooks), default=now_ns)
    ended_ns = max((hook.ended_ns for hook in hooks), default=now_ns)
    record = ActionRun(
        plan.id, plan.event, plan.branch, plan.commit, started_ns, ended_ns, not reason, hooks
    )
    store(repo, record)
    return RunResult(record, reason)


def store(repo: OpenRepository, record: ActionRun) -> None:
    """Store the record of a run, or replace it.  1 KV request."""
    repo.kv.set_many(action_runs.writes_of(repo.record, record, repo.ids.stamp()))


def _in_order(attempt: _Attempt, action_number: int, action: Action) -> list[_Ran]:
    known = attempt.progress.known()
    ran: list[_Ran] = []
    for number, hook in enumerate(action.hooks):
        has_failed = any(not each.hook.passed for each in ran)
        if hook.condition is not Condition.ALWAYS and has_failed != (
            hook.condition is Condition.FAILURE
        ):
            continue
        id = f"{action_number:04}_{number:04}"
        if id in known:
            ran.append(_Ran(HookRun(*json.loads(known[id])), ""))
        else:
            ran.append(_called(attempt, id, action, hook))
    return ran


def _called(attempt: _Attempt, id: str, action: Action, hook: Hook) -> _Ran:
    """Call a hook, note its outcome, and store its log."""
    repo, plan = attempt.repo, attempt.plan
    started_ns = repo.clock.now_ns()
    if plan.given_up:
        outcome = Outcome(False, plan.given_up, f"{plan.given_up}\n")
    else:
        attempt.progress.begin()
        facts = calls.body(plan.facts, action.name, hook.id)
        seconds = attempt.deadline.remaining_seconds()
        message = HookMessage(f"{plan.id}/{id}", facts)
        outcome = calls.run(attempt.caller, hook, message, seconds)
    ended_ns = repo.clock.now_ns()
    hook_run = HookRun(id, action.name, hook.id, started_ns, ended_ns, outcome.passed)
    # First the note: a log can be missing, but a hook that has answered is not called again.
    attempt.progress.note(id, json.dumps(hook_run))
    _put_log(repo, plan.id, id, outcome.log)
    return _Ran(hook_run, outcome.reason)


def _named(ran: _Ran) -> str:
    return f"hook '{ran.hook.hook}' of action '{ran.hook.action}' failed: {ran.reason}"


def _put_log(repo: OpenRepository, run_id: str, id: str, log: str) -> None:
    place = address.hook_log(repo.namespace, run_id, id)
    try:
        repo.blocks.put(place, [log.encode("utf-8", "replace")])
    except GravelerError as error:
        _LOG.warning("log of a hook not stored: run=%s hook=%s %s", run_id, id, error)
