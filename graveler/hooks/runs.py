"""One run: all hooks of the actions that match one event, their logs and their record.

    actions     at the same time
    hooks       of one action one after the other, each under its condition
    logs        <namespace>/_lakefs/actions/log/<run>/<hook run>.log, one for each hook that ran
    record      stored last (refs/hooks/runs.py)

Used by gate.py.
"""

import logging
from typing import Final, NamedTuple

from graveler.block import address
from graveler.engine.ports import Deadline, OpenRepository
from graveler.errors import GravelerError
from graveler.fanout import Fanout
from graveler.hooks import calls, payloads
from graveler.hooks.actions import Action, Condition
from graveler.hooks.calls import Caller, Outcome
from graveler.hooks.payloads import Facts
from graveler.ids import BranchId, CommitId
from graveler.refs.hooks import runs
from graveler.refs.hooks.runs import ActionRun, HookRun

_LOG: Final = logging.getLogger("graveler.hooks")


class RunPlan(NamedTuple):
    """A run that begins.  `commit`: what the record says while nothing has landed."""

    id: str
    event: str
    branch: BranchId
    commit: CommitId
    actions: tuple[Action, ...]
    facts: Facts


class RunResult(NamedTuple):
    """A run that has ended.  `reason`: why it failed; empty: every hook that ran has passed."""

    run: ActionRun
    reason: str


class _Ran(NamedTuple):
    hook: HookRun
    outcome: Outcome


def run(
    repo: OpenRepository, caller: Caller, together: Fanout, plan: RunPlan, deadline: Deadline
) -> RunResult:
    """Run every hook, store the logs and the record.  A log that cannot be stored is left out.

    Errors: `Unavailable` if the record is not stored.  Cost: 1 put for each hook, 1 KV request.
    """
    started_ns = repo.clock.now_ns()

    def work(numbered: tuple[int, Action]) -> list[_Ran]:
        number, action = numbered
        return _in_order(repo, caller, plan, (number, action), deadline)

    ran = [each for some in together.map(work, list(enumerate(plan.actions))) for each in some]
    for each in ran:
        _put_log(repo, plan.id, each)
    reason = next((_named(each) for each in ran if not each.outcome.passed), "")
    ended_ns = repo.clock.now_ns()
    hooks = tuple(each.hook for each in ran)
    record = ActionRun(
        plan.id, plan.event, plan.branch, plan.commit, started_ns, ended_ns, not reason, hooks
    )
    store(repo, record)
    return RunResult(record, reason)


def store(repo: OpenRepository, record: ActionRun) -> None:
    """Store the record of a run, or replace it.  1 KV request."""
    repo.kv.set_many(runs.writes_of(repo.record, record, repo.ids.stamp()))


def _in_order(
    repo: OpenRepository,
    caller: Caller,
    plan: RunPlan,
    numbered: tuple[int, Action],
    deadline: Deadline,
) -> list[_Ran]:
    action_number, action = numbered
    ran: list[_Ran] = []
    for number, hook in enumerate(action.hooks):
        has_failed = any(not each.outcome.passed for each in ran)
        if hook.condition is not Condition.ALWAYS and has_failed != (
            hook.condition is Condition.FAILURE
        ):
            continue
        facts = payloads.body(plan.facts, action.name, hook.id)
        started_ns = repo.clock.now_ns()
        outcome = calls.run(caller, hook, facts, deadline.remaining_seconds())
        hook_run = HookRun(
            f"{action_number:04}_{number:04}",
            action.name,
            hook.id,
            started_ns,
            repo.clock.now_ns(),
            outcome.passed,
        )
        ran.append(_Ran(hook_run, outcome))
    return ran


def _named(ran: _Ran) -> str:
    return f"hook '{ran.hook.hook}' of action '{ran.hook.action}' failed: {ran.outcome.reason}"


def _put_log(repo: OpenRepository, run_id: str, ran: _Ran) -> None:
    place = address.hook_log(repo.namespace, run_id, ran.hook.id)
    try:
        repo.blocks.put(place, [ran.outcome.log.encode("utf-8", "replace")])
    except GravelerError as error:
        _LOG.warning("log of a hook not stored: run=%s hook=%s %s", run_id, ran.hook.id, error)
