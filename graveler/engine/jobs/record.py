"""Job records: work that outlives its request.  Normally one worker runs it; any can finish it.

    begin ──► running ──claim──► running ──► (landing) ──► done, failed
                 ▲       owner      │                      cancel ──► cancelled: lands nothing
                 └──── release ─────┘  out of time, or no heartbeat for longer than the lease
The lease avoids duplicate work.  Correctness does not depend on it: the job id is an idempotency
key of every commit that the job lands, and each change of a record is a compare-and-swap.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from math import inf
from typing import Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import (
    Code,
    Conflict,
    Contended,
    GravelerError,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
    public_text,
)
from graveler.core.ids import NO_BRANCH, BranchId, CommitId, JobId
from graveler.core.records import ABSENT, Absent, CommitEntry, Job, JobState, SentSwap
from graveler.engine.commits.search import Once, SwapJournal, Swaps
from graveler.engine.hooks import JOB_KIND
from graveler.engine.ports import OpenRepository, Ports
from graveler.refs import job_records

MARK_KEY: Final = "graveler.job"
BULK: Final = "bulk"  # the kind of jobs that a cluster runs: no worker claims them
NEVER_CANCELLED: Final = (JOB_KIND,)  # what such a job has begun to tell others cannot be stopped
_BODY, _SINCE, _DELIVERED, _RESULT = "body", "since", "delivered", "result"
_KIND, _CODE, _FIELDS = "error_kind", "error_code", "error_fields"
_WANTED, _WAITS_FOR, _INTENT = "wanted", "waits_for", "intent"
_RUNS, _FURTHEST = "runs", "furthest"
_SENT: Final = "sent"
_PART: Final = "part."  # begins the names of parts
_HEARTBEAT_NS = limits.SECOND_NS
_ROUNDS = 20
_PAUSE_SECONDS = 0.5


class StopReason(Enum):
    """Why a worker must stop."""

    ENDED = "ended"  # cancelled, or finished by another worker
    TAKEN_OVER = "taken over"
    OUT_OF_TIME = "out of time"
    HANDED_OVER = "handed over"  # the job waits for a bulk job


class Stopped(Exception):
    """This worker must not run the job any longer."""

    def __init__(self, why: StopReason) -> None:
        super().__init__(why.value)
        self.why = why


class Claim(Enum):
    """The answer to a claim of a job."""

    OURS = "ours"
    RUNNING = "running"  # another worker sends heartbeats
    OVER = "over"  # the job has ended or does not exist, or no worker runs its kind


class HandedCommit(NamedTuple):
    """A commit that was handed over to a bulk job.

    `token`: a staging token.  Any client may make the commit that folds it in.  That commit is the
    job's result.  `job`: the bulk job that the latest hand-over named.  Both are empty if the
    commit was not handed over.
    """

    token: str
    job: str


NOT_HANDED: Final = HandedCommit("", "")


class NewJob(NamedTuple):
    """A job to record.  `body`: the request, in a form that any worker can read; `since`: a head of
    the branch from before the job; `parts`: as in its order.
    """

    id: JobId
    kind: str
    branch: BranchId = NO_BRANCH
    body: str = ""
    since: str = ""
    owner: bytes = b""
    handed: HandedCommit = NOT_HANDED
    parts: Mapping[str, str] = {}


class JobOrder(NamedTuple):
    """The stored order of a job, and what was added to it later.

    `error_kind`: the name of the error type that ended the job.  `error_code`, `error_fields`: its
    code and its fields as JSON, empty if it has the default code of its kind and no field.
    `delivered`: whether a client has received the result.  `result`: the result, if it is not a
    commit.
    `handed`: the bulk job that makes the commit.  `runs`: consecutive attempts that did not get
    beyond the progress `furthest`.  `intent`: how the result must be staged (objects/rows.py).
    `parts`: the parts of the work that are done, by name, and what the job was begun with.
    `sent`: the last swaps of a branch that attempts were about to send, as JSON.
    """

    body: str
    since: CommitId
    error_kind: str = ""
    delivered: bool = False
    result: str = ""
    handed: HandedCommit = NOT_HANDED
    runs: int = 0
    furthest: int = 0
    intent: str = ""
    error_code: str = ""
    error_fields: str = ""
    parts: Mapping[str, str] = {}
    sent: str = ""


NO_ORDER: Final = JobOrder("", CommitId(""))


# ---- begin, status, cancel -----------------------------------------------------------------------


def begin(repo: OpenRepository, new: NewJob) -> Job:
    """Record a job; no worker runs it yet.  If a job with this id exists, return that job.

    Errors: `Unavailable`.  Cost: 1 KV request, 1 more if the job exists.
    """
    now_ns = repo.clock.now_ns()
    job = Job(new.id, new.kind, JobState.RUNNING, new.owner, now_ns, now_ns, branch=new.branch)
    order = {_BODY: new.body, _SINCE: new.since}
    for name, value in new.parts.items():
        order |= part(name, value)
    if new.handed.token:
        order |= {_WANTED: new.handed.token, _WAITS_FOR: new.handed.job}
    if job_records.begin(repo.kv, repo.record, job, order, repo.ids.stamp()):
        return job
    return status(repo, new.id)


def next_id(ports: Ports, stem: str, last: Job | Literal[Absent.ABSENT]) -> JobId:
    """The id of the next job of a stem; `last`: the newest job of the stem on record.

    No id is used twice.  The number continues from `last`.  Records are forgotten a day after the
    end of the job at the soonest; when all of them are forgotten, the id contains a later day.
    The id is not a ulid, because two clients that send the same request at the same time must
    name the same job.  No request.
    """
    if last is not ABSENT:
        head, _, number = last.id.rpartition("-")
        return JobId(f"{head}-{int(number) + 1:06d}")
    day = ports.clock.now_ns() // (limits.job_record_keep_seconds * limits.SECOND_NS)
    return JobId(f"{stem}{day:06d}-{0:06d}")


def status(repo: OpenRepository, job_id: str) -> Job:
    """The job as it is now.  Errors: `NotFound`.  Cost: 1 KV request."""
    return job_records.get(repo.kv, repo.record, JobId(job_id)).job


def ordered(repo: OpenRepository, job_id: JobId) -> JobOrder:
    """The order of a job; empty if the job has no order.  Cost: 1 KV request."""
    fields = job_records.order_of(repo.kv, repo.record, job_id)
    return NO_ORDER if fields is ABSENT else _order(fields)


def orders_of(repo: OpenRepository, jobs: Sequence[JobId]) -> Mapping[JobId, JobOrder]:
    """The orders of these jobs, without those that have none.  Cost: 1 KV request for 1,000."""
    stored = job_records.orders_of(repo.kv, repo.record, jobs)
    return {job: _order(fields) for job, fields in stored.items()}


def _order(fields: job_records.Order) -> JobOrder:
    return JobOrder(
        fields[_BODY],
        CommitId(fields[_SINCE]),
        fields.get(_KIND, ""),
        bool(fields.get(_DELIVERED, "")),
        fields.get(_RESULT, ""),
        HandedCommit(fields.get(_WANTED, ""), fields.get(_WAITS_FOR, "")),
        int(fields.get(_RUNS, "0")),
        int(fields.get(_FURTHEST, "0")),
        fields.get(_INTENT, ""),
        fields.get(_CODE, ""),
        fields.get(_FIELDS, ""),
        {
            name.removeprefix(_PART): value
            for name, value in fields.items()
            if name.startswith(_PART)
        },
        fields.get(_SENT, ""),
    )


# Each of these notes costs 2 KV requests.  Errors: `Unavailable`, `Contended`.


def note_delivered(repo: OpenRepository, job_id: JobId) -> None:
    """Record that a client has received the result: an equal request is a new one from now on."""
    job_records.amend(repo.kv, repo.record, job_id, {_DELIVERED: "1"}, repo.ids)


def note_result(repo: OpenRepository, job_id: JobId, result: str) -> None:
    """Record the result of a job that lands no commit.  Last writer wins."""
    job_records.amend(repo.kv, repo.record, job_id, {_RESULT: result}, repo.ids)


def note_intent(repo: OpenRepository, job_id: JobId, result: str, intent: str) -> JobOrder:
    """Record what the job must stage, and how.  First writer wins.  Returns the order afterwards,
    for 1 KV request more."""
    more = {_RESULT: result, _INTENT: intent}
    job_records.amend(repo.kv, repo.record, job_id, more, repo.ids, unless=_INTENT)
    return ordered(repo, job_id)


def part(name: str, value: str) -> job_records.Order:
    """For a new order: a part that it has from the start."""
    return {_PART + name: value}


def note_part(repo: OpenRepository, job_id: JobId, name: str, value: str) -> None:
    """Record that a part of the work is done, beside the parts that others record."""
    job_records.amend(repo.kv, repo.record, job_id, part(name, value), repo.ids)


def keep_part(repo: OpenRepository, job_id: JobId, name: str, value: str) -> None:
    """Like `note_part`, retried for a while; if all retries fail, the part counts as not done."""
    _patiently(repo, lambda: note_part(repo, job_id, name, value))


def note_handed(repo: OpenRepository, job_id: JobId, handed: HandedCommit) -> None:
    """Record that a commit was handed over.  Last writer wins."""
    more = {_WANTED: handed.token, _WAITS_FOR: handed.job}
    job_records.amend(repo.kv, repo.record, job_id, more, repo.ids)


def forget_runs(repo: OpenRepository, job_id: JobId, *, left: int = 0) -> None:
    """Reset the count of attempts to those that are `left`, because the job waits for a bulk job,
    or because the stores did not answer."""
    job_records.amend(repo.kv, repo.record, job_id, {_RUNS: str(left)}, repo.ids)


def note_run(
    repo: OpenRepository,
    job: Job,
    order: JobOrder,
    runs_max: int = limits.job_restart_count_max,
    seconds_max: float = inf,
) -> int:
    """Record that an attempt begins; return how many before it count.

    Raises `Unsupported` if the last `runs_max` attempts in a row have not advanced the job, or if
    an attempt after the first would begin more than `seconds_max` after the job was recorded: a job
    that no worker can finish must not restart for ever.

    `job` and `order`: as the owner of the job has read them.  Errors: `Unavailable`, `Contended`.
    Cost: 2 KV requests.
    """
    runs = order.runs if job.progress <= order.furthest else 0
    if runs >= runs_max:
        raise Unsupported(
            f"{job.kind} given up: {runs} workers in a row could not finish it, and each had to "
            f"begin again; use smaller parts, or Spark: id={job.id}"
        )
    age_seconds = (repo.clock.now_ns() - job.created_ns) / limits.SECOND_NS
    if job.state is JobState.LANDING and age_seconds > seconds_max:
        raise Unsupported(f"{job.kind} given up: no worker had enough time for it: id={job.id}")
    furthest = max(job.progress, order.furthest)
    more = {_RUNS: str(runs + 1), _FURTHEST: str(furthest)}
    job_records.amend(repo.kv, repo.record, job.id, more, repo.ids)
    return runs


def once(job_id: JobId, order: JobOrder) -> Once:
    """The idempotency key of what the job lands."""
    return Once(MARK_KEY, job_id, order.since)


def journaled(repo: OpenRepository, key: Once, job_id: JobId, order: JobOrder) -> Once:
    """The idempotency key with the journal of the job's swaps, as `order` has it.

    A note costs 2 KV requests.  Errors of a note: `Unavailable`; `Contended` if another attempt has
    noted a swap since `order` was read.  The swap is not sent then.
    """

    def store(known: Sequence[Swaps], swaps: Swaps) -> None:
        before = [json.dumps(each) if each else "" for each in known]
        try:
            job_records.replace(
                repo.kv, repo.record, job_id, _SENT, before, json.dumps(swaps), repo.ids
            )
        except OutcomeUnknown as error:  # that of the note; the swap is not sent
            raise Unavailable(f"swap not noted, so it is not sent: job={job_id}") from error

    return key._replace(journal=SwapJournal(sent_of(order), store))


def sent_of(order: JobOrder) -> Swaps:
    """The last swaps that attempts of the job were about to send.  Pure."""
    return tuple(
        SentSwap(CommitId(commit), rev, CommitId(head), origin, rewinds)
        for commit, rev, head, origin, rewinds in json.loads(order.sent or "[]")
    )


def cancel(repo: OpenRepository, job_id: str, kind: str, branch: str) -> None:
    """Cancel a running job of a kind that announces its landing: it lands nothing, now or later.

    Idempotent.  Errors: `NotFound`, also for a job of another kind or branch; `Conflict` if the job
    is landing or has completed; `Unavailable`.
    """
    for _ in range(_ROUNDS):
        seen = job_records.get(repo.kv, repo.record, JobId(job_id))
        if (seen.job.kind, seen.job.branch) != (kind, branch):
            raise NotFound("not found", Code.JOB_NOT_FOUND, job=job_id)
        if seen.job.state in (JobState.DONE, JobState.FAILED):
            raise Conflict(f"{kind} already completed: id={seen.job.id}")
        if seen.job.state is JobState.LANDING:
            raise Conflict(f"{kind} cannot be cancelled any more: it is landing: id={seen.job.id}")
        if seen.job.cancel:
            return
        cancelled = seen.job._replace(
            cancel=True,
            state=JobState.CANCELLED,
            error="Canceled",
            updated_ns=repo.clock.now_ns(),
        )
        if _put(repo, cancelled, seen):
            return
    raise Unavailable("job not cancelled: its record kept changing; try again")


def cancel_any(repo: OpenRepository, job_id: str) -> None:
    """Cancel a job of any kind that has not begun to land: it lands nothing, now or later.

    Whoever waits for its result gets a `Conflict`.  Idempotent.  Errors: `NotFound`; `Conflict` if
    the job is landing, has completed, is of a kind that cannot be cancelled (`NEVER_CANCELLED`), or
    waits for a bulk job, which can be cancelled itself;
    `Unavailable`.  Cost: 6 KV requests.
    """
    job = status(repo, job_id)
    if job.kind in NEVER_CANCELLED:
        raise Conflict(f"{job.kind} cannot be cancelled: id={job.id}")
    waits_for = ordered(repo, job.id).handed.job
    if waits_for:
        raise Conflict(f"job waits for a bulk job; cancel that one: id={job.id} job={waits_for}")
    # First, because a client may be told of the end as soon as the job has ended.
    job_records.amend(repo.kv, repo.record, job.id, {_KIND: Conflict.__name__}, repo.ids)
    cancel(repo, job.id, job.kind, job.branch)


# ---- ownership -----------------------------------------------------------------------------------


def claim(repo: OpenRepository, job_id: JobId, owner: bytes) -> Claim:
    """Become the owner of a job that has no owner, or whose owner has let its lease run out.

    The lease compares the clocks of two machines.  If a clock is wrong, a job may run twice, which
    is harmless.  Errors: `Unavailable`.  Cost: 2 KV requests.
    """
    for _ in range(_ROUNDS):
        seen = job_records.find(repo.kv, repo.record, job_id)
        if seen is ABSENT or seen.job.ended or seen.job.kind == BULK:
            return Claim.OVER
        if seen.job.owner not in (b"", owner) and not is_silent(repo, seen.job):
            return Claim.RUNNING
        claimed = seen.job._replace(owner=owner, updated_ns=repo.clock.now_ns())
        if _put(repo, claimed, seen):
            return Claim.OURS
    raise Unavailable(f"job not claimed: its record kept changing: id={job_id}")


def is_silent(ports: Ports, job: Job) -> bool:
    """Whether a worker must take the job over: it has not ended, is not a bulk job, and its last
    heartbeat is older than the lease.  No request.
    """
    lease_ns = limits.job_lease_seconds * limits.SECOND_NS
    return _runs_here(job) and ports.clock.now_ns() - job.updated_ns > lease_ns


def _runs_here(job: Job) -> bool:
    return not job.ended and job.kind != BULK


def release(repo: OpenRepository, job_id: JobId, owner: bytes) -> None:
    """Give up ownership, so that any worker can claim the job at once.

    Does nothing if the job has ended or has another owner.  Errors: `NotFound`.  Cost: 2 KV
    requests.
    """
    for _ in range(_ROUNDS):
        seen = job_records.get(repo.kv, repo.record, job_id)
        if seen.job.ended or seen.job.owner != owner:
            return
        free = seen.job._replace(owner=b"", updated_ns=repo.clock.now_ns())
        if _put(repo, free, seen):
            return


def free_all(repo: OpenRepository) -> list[Job]:
    """Release every job that workers run and that has not ended; return these jobs.

    Only for a store that one process at a time can open, before that process runs any job.
    """
    freed = [
        seen.job for seen in job_records.list_all(repo.kv, repo.record) if _runs_here(seen.job)
    ]
    for job in freed:
        release(repo, job.id, job.owner)
    return freed


class Heartbeat:
    """Sends heartbeats about once a second, and stops a worker that must not continue.

    With an `owner`, a heartbeat also fails if another worker has taken the job over.  After
    `until_seconds` of the steady clock, a heartbeat stops the worker at a point from which the
    job can continue.  Threads may share a `Heartbeat`.
    """

    def __init__(
        self, repo: OpenRepository, job_id: JobId, owner: bytes = b"", until_seconds: float = inf
    ) -> None:
        self._repo = repo
        self._job_id = job_id
        self._owner = owner
        self._until = until_seconds
        self._last_ns = 0

    def beat(self, progress: int = -1, *, always: bool = False) -> None:
        """Send a heartbeat; `progress` -1 keeps the recorded progress.

        Raises `Stopped`.  Cost: 2 KV requests about once a second; `always`: in every call.  A call
        with `always` returns only when the job was this worker's at the moment of the heartbeat;
        else it raises `Stopped`, or `Unavailable` if the record kept changing.
        """
        now_ns = self._repo.clock.now_ns()
        if not always and now_ns - self._last_ns < _HEARTBEAT_NS:
            return
        self._last_ns = now_ns
        if self._repo.clock.steady_seconds() >= self._until:
            raise Stopped(StopReason.OUT_OF_TIME)
        for _ in range(_ROUNDS):
            seen = self._seen()
            known = seen.job.progress if progress < 0 else progress
            beaten = seen.job._replace(progress=known, updated_ns=now_ns)
            if _put(self._repo, beaten, seen) or not always:
                return
        raise Unavailable(f"heartbeat not stored: the record kept changing: id={self._job_id}")

    def land(self, progress: int) -> None:
        """Enter the state *landing*: from now on nobody can cancel the job.

        Raises `Stopped` if the job was cancelled before.  Cost: 2 KV requests.
        """
        for _ in range(_ROUNDS):
            seen = self._seen()
            now_ns = self._repo.clock.now_ns()
            landing = seen.job._replace(
                state=JobState.LANDING, progress=progress, updated_ns=now_ns
            )
            if seen.job.state is JobState.LANDING or _put(self._repo, landing, seen):
                return
        raise Unavailable(f"job not landed: its record could not be stored: id={self._job_id}")

    def _seen(self) -> job_records.VersionedJob:
        seen = job_records.get(self._repo.kv, self._repo.record, self._job_id)
        if seen.job.ended:
            raise Stopped(StopReason.ENDED)
        if self._owner and seen.job.owner != self._owner:
            raise Stopped(StopReason.TAKEN_OVER)
        return seen


# ---- ends ----------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """How a job ended.  `by`: end the job only if this owner still owns it; empty: end it for
    any owner.
    """

    state: JobState
    error: str = ""
    landed: CommitEntry | Literal[Absent.ABSENT] = ABSENT
    by: bytes = b""


def finish(repo: OpenRepository, job_id: JobId, ending: Ending) -> bool:
    """End a running job.  False if the job has ended already or belongs to another owner."""
    for _ in range(_ROUNDS):
        seen = job_records.get(repo.kv, repo.record, job_id)
        if seen.job.ended or ending.by not in (b"", seen.job.owner):
            return False
        now_ns = repo.clock.now_ns()
        done = seen.job._replace(state=ending.state, error=ending.error, updated_ns=now_ns)
        if ending.landed is not ABSENT:
            landed = ending.landed
            done = done._replace(commit=landed.id, metarange=landed.commit.metarange)
        if _put(repo, done, seen):
            return True
    return False


def end(repo: OpenRepository, job_id: JobId, ending: Ending) -> None:
    """Like `finish`, for the worker that ran the job: it retries for a while if the store does not
    answer.  If all retries fail, the job stays running until another worker takes it over.
    """
    _patiently(repo, lambda: finish(repo, job_id, ending))


def fail(repo: OpenRepository, job_id: JobId, error: GravelerError, by: bytes) -> None:
    """End a job as failed, and keep the kind and the code of its error.  `by`: as in `Ending`."""
    more = {_KIND: type(error).__name__}
    if error.code is not type(error).code or error.fields:
        more |= {_CODE: error.code.value, _FIELDS: json.dumps(dict(error.fields))}
    _patiently(repo, lambda: job_records.amend(repo.kv, repo.record, job_id, more, repo.ids))
    end(repo, job_id, Ending(JobState.FAILED, public_text(error), by=by))


def _patiently(ports: Ports, note: Callable[[], object]) -> None:
    for _ in range(_ROUNDS):
        with suppress(Unavailable, Contended):
            note()
            return
        ports.clock.sleep(_PAUSE_SECONDS)


def _put(repo: OpenRepository, job: Job, seen: job_records.VersionedJob) -> bool:
    return job_records.put(repo.kv, repo.record, job, seen, repo.ids.stamp()) is not ABSENT
