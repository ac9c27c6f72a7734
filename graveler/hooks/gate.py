"""The gate: the port of the engine, over the actions of a repository.

    before   actions of the deciding commit match ──► they run; one fails ──► HookFailed
             actions of the commit that would land match its post-event ──► a job is recorded
    landed   the run of the pre-event gets the id of the commit; the job learns that the change is
             visible, and is announced
    after    the worker runs the job: the actions of the commit that has landed

A post-event is recorded before the change is visible, and checked for it before it runs.  So a
crash at any point loses no post-event, and none runs for a change that never became visible.  A
post-event may run more than once: an attempt calls only hooks whose answers were not noted.

Action files that cannot be read, or are invalid, close the gate.  Two events stay open, because
nothing else could mend what such a file does: prepare-commit, whose commit may bring the
correction, and delete-tag, because the files of the commit that a tag names never change.
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from graveler.core import limits
from graveler.core.clock import Clock, descending_id
from graveler.core.errors import (
    Code,
    Gone,
    GravelerError,
    HistoryTooLong,
    HookFailed,
    Invalid,
    Refused,
)
from graveler.core.fanout import SEQUENTIAL, Fanout
from graveler.core.ids import NO_COMMIT, BranchId, CommitId, JobId, TagId
from graveler.core.records import ABSENT, Absent, Branch, Commit, Job, JobState
from graveler.core.settings import HookSettings
from graveler.core.web import Sender
from graveler.engine import hooks as events
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.search import history_until
from graveler.engine.hooks import (
    JOB_KIND,
    NOTHING_PENDING,
    Announce,
    HookEvent,
    Hooks,
    Pending,
    Progress,
)
from graveler.engine.jobs import record as job_orders
from graveler.engine.ports import Deadline, OpenRepository
from graveler.hooks import calls, runs
from graveler.hooks.actions import Action, KnownActions, actions_of
from graveler.hooks.calls import Caller, Facts, Variables
from graveler.hooks.egress import EgressRules, WebSender
from graveler.hooks.runs import RunPlan
from graveler.refs import action_runs as run_records
from graveler.refs import branches, tags
from graveler.refs import job_records as jobs

_BRANCH_KINDS: Final = (events.CREATE_BRANCH, events.DELETE_BRANCH)
_TAG_KINDS: Final = (events.CREATE_TAG, events.DELETE_TAG)
_OPEN_KINDS: Final = (events.PREPARE, events.DELETE_TAG)  # whatever the files are
_VISIBLE: Final = "visible"  # noted by whoever has seen the change first
_ORIGIN: Final = "origin"  # of the branch that is created or deleted
_LOG: Final = logging.getLogger("graveler.hooks")


def _unannounced(_repo: OpenRepository, _job: str) -> None:
    """Nobody hears of a job: the next round over all jobs finds it."""


def _unrefused() -> None:
    """Everything runs here."""


class _Due(NamedTuple):
    """A post-event, as its job records it."""

    run: str
    kind: str
    commit: str
    base: str
    branch: str
    tag: str
    merge_source: str
    source_ref: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """`Hooks` over action files.

    `together` runs actions at the same time.  `announce` hands the job of a post-event to a worker.
    `refuse` is called before actions of a pre-event run; see `Hooks.deferred`.
    """

    caller: Caller
    together: Fanout = SEQUENTIAL
    announce: Announce = _unannounced
    refuse: Callable[[], None] = _unrefused
    known: KnownActions = field(default_factory=KnownActions)

    def before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> Pending:
        run_id = self._before(repo, event, deadline)
        if event.kind == events.PREPARE:
            return Pending(run_id)
        job = self._recorded(repo, event)
        return Pending(run_id, job, event.commit) if run_id or job else NOTHING_PENDING

    def landed(self, repo: OpenRepository, pending: Pending) -> None:
        with suppress(GravelerError):  # then the run stays without its commit
            self._complete(repo, pending)
        if pending.job:
            # The change may be gone before a worker looks, such as a tag that is deleted at once.
            with suppress(GravelerError):  # then the worker looks
                job_orders.note_part(repo, JobId(pending.job), _VISIBLE, _VISIBLE)
            with suppress(GravelerError):  # then the next round over all jobs finds it
                self.announce(repo, pending.job)

    def after(self, repo: OpenRepository, order: str, progress: Progress) -> bool:
        return self._after(repo, _Due(**json.loads(order)), progress, "")

    def give_up(self, repo: OpenRepository, order: str, progress: Progress, reason: str) -> None:
        self._after(repo, _Due(**json.loads(order)), progress, reason)

    def _after(self, repo: OpenRepository, due: _Due, progress: Progress, given_up: str) -> bool:
        """Run the post-event, or record that it is given up, and why.  False: not visible yet."""
        if _VISIBLE not in progress.known():
            if not _is_visible(repo, due, progress.known().get(_ORIGIN, "")):
                return False
            # From now on the run goes on, also if the name is deleted meanwhile.
            progress.note(_VISIBLE, _VISIBLE)
        event = HookEvent(
            due.kind,
            CommitId(due.commit),
            CommitId(due.commit),
            branch=BranchId(due.branch),
            tag=due.tag,
            merge_source=due.merge_source,
            source_ref=due.source_ref,
        )
        name = f"post-{due.kind}"
        matching = _matching(self._actions(repo, event.commit), name, event)
        if matching:
            facts = _facts(repo, name, event)
            plan = RunPlan(due.run, name, event.branch, event.commit, matching, facts, given_up)
            seconds = float(limits.hook_seconds_max * limits.action_hooks_max)
            until = Deadline(repo.clock, seconds)
            runs.run(repo, self.caller, self.together, plan, until, progress)
        return True

    def deferred(self, refuse: Callable[[], None]) -> Hooks:
        return replace(self, refuse=refuse)

    def announcing(self, announce: Announce) -> Hooks:
        return replace(self, announce=announce)

    # ---- before ----------------------------------------------------------------------------------

    def _before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> str:
        """Run the pre-event; its run id, empty if no action matched."""
        name = _name_before(event)
        run_id = descending_id(repo.clock.now_ns(), repo.ids.stamp())
        matching = _matching(self._decisive(repo, event, event.decides, run_id), name, event)
        if not matching:
            return ""
        self.refuse()
        is_name = event.kind in (*_BRANCH_KINDS, *_TAG_KINDS)
        commit = event.commit if is_name else NO_COMMIT
        facts = _facts(repo, name, event)
        plan = RunPlan(run_id, name, event.branch, commit, matching, facts)
        ended = runs.run(repo, self.caller, self.together, plan, deadline)
        if ended.reason:
            raise _failed(name, run_id, ended.reason)
        return run_id

    def _recorded(self, repo: OpenRepository, event: HookEvent) -> str:
        """Record the post-event; its job id, empty if no action waits for it."""
        name = f"post-{event.kind}"
        # What lands must not close the gate for others.
        matching = _matching(self._decisive(repo, event, event.commit, ""), name, event)
        if not matching:
            return ""
        now_ns = repo.clock.now_ns()
        run_id = descending_id(now_ns, repo.ids.stamp())
        due = _Due(
            run_id,
            event.kind,
            event.commit,
            event.base,
            event.branch,
            event.tag,
            event.merge_source,
            event.source_ref,
        )
        job_id = JobId(f"{JOB_KIND}-{run_id}")
        job = Job(job_id, JOB_KIND, JobState.RUNNING, b"", now_ns, now_ns, branch=event.branch)
        order = {"body": json.dumps(due._asdict()), "since": event.base}
        if event.kind in _BRANCH_KINDS:
            order |= job_orders.part(_ORIGIN, event.origin)
        repo.kv.set_many(jobs.writes_of(repo.record, job, order, repo.ids.stamp()))
        return job_id

    def _decisive(
        self, repo: OpenRepository, event: HookEvent, commit: CommitId, run_id: str
    ) -> tuple[Action, ...]:
        """The actions of a commit.  Raises `HookFailed` if they cannot be known, unless the event
        stays open then."""
        try:
            return self._actions(repo, commit)
        except (Invalid, Gone, Refused) as error:
            if event.kind in _OPEN_KINDS:
                _LOG.warning("no hook runs: event=%s %s", _name_before(event), error)
                return ()
            raise _failed(_name_before(event), run_id, str(error)) from error

    def _complete(self, repo: OpenRepository, pending: Pending) -> None:
        """Add the commit to the run of the pre-event."""
        if not pending.run or pending.commit == NO_COMMIT:
            return
        record = run_records.find(repo.kv, repo.record, pending.run)
        if record is not ABSENT and record.commit == NO_COMMIT:
            runs.store(repo, record._replace(commit=pending.commit))

    def _actions(self, repo: OpenRepository, commit: CommitId) -> tuple[Action, ...]:
        return actions_of(repo, self.known, commit)


def _name_before(event: HookEvent) -> str:
    return event.kind if event.kind == events.PREPARE else f"pre-{event.kind}"


def _failed(event: str, run_id: str, reason: str) -> HookFailed:
    return HookFailed(
        f"{event} hook aborted, run id '{run_id}': {reason}",
        Code.HOOK_FAILED,
        event=event,
        run=run_id,
        reason=reason,
    )


def _matching(actions: tuple[Action, ...], name: str, event: HookEvent) -> tuple[Action, ...]:
    subject = event.tag or event.branch
    return tuple(action for action in actions if action.matches(name, subject))


def _is_visible(repo: OpenRepository, due: _Due, origin: str) -> bool:
    """Whether the change that a post-event follows is visible, as far as the store shows now.

    `origin`: of a branch that is created or deleted."""
    if due.kind in _TAG_KINDS:
        tag = tags.find(repo.kv, repo.record, TagId(due.tag))
        is_there = tag is not ABSENT and tag.commit == due.commit
        return is_there == (due.kind == events.CREATE_TAG)
    seen = branches.find(repo.kv, repo.record, BranchId(due.branch))
    if due.kind in _BRANCH_KINDS:
        branch = ABSENT if seen is ABSENT else seen.branch
        if due.kind == events.CREATE_BRANCH:
            return _is_made(branch, origin)
        return _is_deleted(due, branch, origin)
    if seen is ABSENT or not seen.branch.live:
        return False
    try:
        history = history_until(repo, seen.branch.commit, CommitId(due.base))
        return any(entry.id == due.commit for entry in history)
    except HistoryTooLong:  # far behind: it has landed, or never will
        return True


def _is_made(branch: Branch | Absent, origin: str) -> bool:
    """Whether the branch with this origin was made; it may be deleted by now."""
    return branch is not ABSENT and branch.origin == origin


def _is_deleted(due: _Due, branch: Branch | Absent, origin: str) -> bool:
    """Whether the branch with this origin was deleted at the commit of the event.  If another
    branch or no record is in its place, the commit is not known, and the event is told."""
    if branch is ABSENT or branch.origin != origin:
        return True
    return not branch.live and branch.commit == due.commit


def _facts(repo: OpenRepository, name: str, event: HookEvent) -> Facts:
    """The facts of an event.  The subject of a commit is read from its record, which is cached."""
    facts = Facts(
        event_type=name,
        event_time=calls.rfc3339(repo.clock.now_ns()),
        repository_id=repo.id,
        branch_id=event.branch,
        source_ref=event.source_ref or event.commit,
        tag_id=event.tag,
        commit_id=event.commit,
        commit_message=event.message,
        committer=event.committer,
        commit_metadata=dict(event.metadata),
        merge_source=event.merge_source,
    )
    if event.kind == events.PREPARE:
        return facts._replace(source_ref=event.branch)
    if event.kind in (*_BRANCH_KINDS, *_TAG_KINDS):
        return facts  # the commit is an old one: its committer is not the one who acts now
    return _of_commit(facts, event, commit_of(repo, event.commit))


def _of_commit(facts: Facts, event: HookEvent, commit: Commit) -> Facts:
    facts = facts._replace(
        commit_message=commit.message,
        committer=commit.committer,
        commit_metadata=dict(commit.metadata),
    )
    if facts.event_type == "pre-commit":
        return facts._replace(source_ref=event.branch)
    if facts.event_type == "pre-merge" and len(commit.parents) > 1:
        return facts._replace(source_ref=commit.parents[1])
    return facts


# ---- deployment ----------------------------------------------------------------------------------


def open_hooks(
    settings: HookSettings,
    clock: Clock,
    together: Fanout,
    sender_of: Callable[[EgressRules, Clock], Sender] = WebSender,
) -> Hooks:
    """The hooks of a deployment that allows hosts.  `together` runs actions at the same time;
    `sender_of` makes what sends their requests: by default this process."""
    sender = sender_of(EgressRules(settings.hosts, settings.loopback), clock)
    caller = Caller(sender, clock, Variables(settings.variables), settings.signing_key)
    return Gate(caller, together)
