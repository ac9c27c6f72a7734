"""Jobs: work that outlives its request, run by one process at a time, finished by any.

    begin ──► running ──claim──► running ──► (landing) ──► done, failed
                 ▲       owner      │
                 └──── release ─────┘  out of time, or silent for longer than the lease
                                       cancel ──► cancelled: nothing of it lands, now or later

Whoever runs a job owns it by a *lease*: the record shows its stamp and the time of its last beat.
Every change of the record is a compare-and-swap that looks for the own stamp first, so a runner
that was taken over learns it with its next beat and stops.  That is courtesy, not safety: a runner
may be cut off right before a swap of a branch and go on an hour later.  What makes a second run
harmless is that whatever lands carries the job's mark and is made once (`seal.made_once`).

A job ends once; whoever ends it second changes nothing.  For importing.py and for delivery.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.engine.commits.seal import Once
from graveler.engine.ports import Ports
from graveler.errors import (
    Conflict,
    Contended,
    GravelerError,
    NotFound,
    Unavailable,
    Unsupported,
)
from graveler.ids import CommitId, JobId
from graveler.records import ABSENT, Absent, CommitEntry, Job, JobState, Repository
from graveler.refs.jobs import record

MARK_KEY: Final = "graveler.job"
BULK: Final = "bulk"  # of jobs that a cluster runs: no worker of ours takes them
_BODY, _SINCE, _KIND, _TOLD, _RESULT = "body", "since", "error_kind", "told", "result"
_WANTED, _WAITS_FOR, _INTENT = "wanted", "waits_for", "intent"
_RUNS, _FURTHEST = "runs", "furthest"
_HEARTBEAT_NS = limits.SECOND_NS
_ROUNDS = 20
_PAUSE_SECONDS = 0.5


class Why(Enum):
    """Why a runner is to stop."""

    ENDED = "ended"  # cancelled, or another runner brought it to its end
    TAKEN_OVER = "taken over"
    OUT_OF_TIME = "out of time"
    HANDED_OVER = "handed over"  # it waits for a bulk job


class Stopped(Exception):
    """The job is not to be run by this runner any more."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.value)
        self.why = why


class Claim(Enum):
    """What came of asking for a job."""

    OURS = "ours"
    RUNNING = "running"  # somebody else beats
    OVER = "over"  # it has ended, there is no such job, or no worker runs its kind


class Handed(NamedTuple):
    """A commit that was handed over: the staging token whose commit, whoever makes it, is the
    result, and the bulk job that was to make it last time.  Both empty: it was not."""

    token: str
    job: str


NOT_HANDED: Final = Handed("", "")


@dataclass(frozen=True, slots=True)
class NewJob:
    """What is to be noted.  `body` is the request, as whoever runs it can read it; `since` a head
    of the branch from before the job."""

    id: JobId
    kind: str
    branch: str = ""
    body: str = ""
    since: str = ""
    owner: bytes = b""
    handed: Handed = NOT_HANDED


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order as it was noted, and what was added: the name of the kind of error that ended the
    job, whether somebody was told its result, that result where it is no commit, to whom it was
    handed over, and how many runs in a row have not got beyond the progress `furthest`.  `intent`:
    how the result is to be staged (intents.py)."""

    body: str
    since: CommitId
    error_kind: str = ""
    told: bool = False
    result: str = ""
    handed: Handed = NOT_HANDED
    runs: int = 0
    furthest: int = 0
    intent: str = ""


# ---- begin, ask, cancel --------------------------------------------------------------------------


def begin(ports: Ports, repo: Repository, new: NewJob) -> Job:
    """Note a job; nobody runs it yet.  If one of that id is there already, that one.

    Errors: `Unavailable`.  Cost: 1 KV request.
    """
    now_ns = ports.clock.now_ns()
    job = Job(new.id, new.kind, JobState.RUNNING, new.owner, now_ns, now_ns, branch=new.branch)
    order = {_BODY: new.body, _SINCE: new.since}
    if new.handed.token:
        order |= {_WANTED: new.handed.token, _WAITS_FOR: new.handed.job}
    if record.begin(ports.kv, repo, job, order, ports.ids.stamp()):
        return job
    return status(ports, repo, new.id)


def next_id(ports: Ports, stem: str, last: Job | Literal[Absent.ABSENT]) -> JobId:
    """The id of the next job of a stem, `last` being the newest one on record.

    No id is ever used twice: it counts on from the last one, and once all of them are forgotten (a
    day after their end at the soonest) it has another day in it.  It is no ulid, because two who
    ask for the same at the same time must name one job.  No request.
    """
    if last is not ABSENT:
        head, _, number = last.id.rpartition("-")
        return JobId(f"{head}-{int(number) + 1:06d}")
    day = ports.clock.now_ns() // (limits.job_record_keep_seconds * limits.SECOND_NS)
    return JobId(f"{stem}{day:06d}-{0:06d}")


def status(ports: Ports, repo: Repository, job_id: str) -> Job:
    """The job as it is now.  `NotFound`."""
    return record.get(ports.kv, repo, JobId(job_id)).job


def ordered(ports: Ports, repo: Repository, job_id: JobId) -> Ordered:
    """What was asked for.  Empty for a job without an order.  Cost: 1 KV request."""
    said = record.order_of(ports.kv, repo, job_id)
    if said is ABSENT:
        return Ordered("", CommitId(""))
    since = CommitId(said[_SINCE])
    told, result = bool(said.get(_TOLD, "")), said.get(_RESULT, "")
    handed = Handed(said.get(_WANTED, ""), said.get(_WAITS_FOR, ""))
    runs, furthest = int(said.get(_RUNS, "0")), int(said.get(_FURTHEST, "0"))
    return Ordered(
        said[_BODY],
        since,
        said.get(_KIND, ""),
        told,
        result,
        handed,
        runs,
        furthest,
        said.get(_INTENT, ""),
    )


def note_told(ports: Ports, repo: Repository, job_id: JobId) -> None:
    """Somebody was told the result: an equal request is a new one from now on.

    Once or often.  Errors: `Unavailable`, `Contended`.  Cost: 2 KV requests."""
    record.amend(ports.kv, repo, job_id, {_TOLD: "1"}, ports.ids)


def note_result(ports: Ports, repo: Repository, job_id: JobId, result: str) -> None:
    """What came of a job that lands no commit; of several runs, whoever notes it last is right.

    Errors: `Unavailable`, `Contended`.  Cost: 2 KV requests."""
    record.amend(ports.kv, repo, job_id, {_RESULT: result}, ports.ids)


def note_intent(ports: Ports, repo: Repository, job_id: JobId, result: str, intent: str) -> Ordered:
    """What is to be staged, and how; of several runs, whoever notes it first is right.  The order
    as it then stands.

    Errors: `Unavailable`, `Contended`.  Cost: 3 KV requests."""
    more = {_RESULT: result, _INTENT: intent}
    record.amend(ports.kv, repo, job_id, more, ports.ids, unless=_INTENT)
    return ordered(ports, repo, job_id)


def note_handed(ports: Ports, repo: Repository, job_id: JobId, handed: Handed) -> None:
    """A commit was handed over; to whom last, is right.

    Errors: `Unavailable`, `Contended`.  Cost: 2 KV requests."""
    more = {_WANTED: handed.token, _WAITS_FOR: handed.job}
    record.amend(ports.kv, repo, job_id, more, ports.ids)


def note_run(ports: Ports, repo: Repository, job: Job, order: Ordered) -> None:
    """A run begins.  Raises `Unsupported` if `limits.job_restart_count_max` runs in a row before it
    have brought the job no further: what no worker can finish is not begun for ever.

    `job` and `order`: as they were read by the owner of the job.  Errors: `Unavailable`,
    `Contended`.  Cost: 2 KV requests.
    """
    runs = order.runs if job.progress <= order.furthest else 0
    if runs >= limits.job_restart_count_max:
        raise Unsupported(
            f"{job.kind} given up: {runs} workers in a row could not finish it, and each had to "
            f"begin again; use smaller parts, or Spark: id={job.id}"
        )
    furthest = max(job.progress, order.furthest)
    more = {_RUNS: str(runs + 1), _FURTHEST: str(furthest)}
    record.amend(ports.kv, repo, job.id, more, ports.ids)


def forget_runs(ports: Ports, repo: Repository, job_id: JobId) -> None:
    """The runs so far count no more: the job waits for somebody else.

    Errors: `Unavailable`, `Contended`.  Cost: 2 KV requests."""
    record.amend(ports.kv, repo, job_id, {_RUNS: "0"}, ports.ids)


def once(job_id: JobId, order: Ordered) -> Once:
    """The mark of what the job lands."""
    return Once(MARK_KEY, job_id, order.since)


def cancel(ports: Ports, repo: Repository, job_id: str, kind: str) -> None:
    """Stop a running job of a kind that says when it lands: it lands nothing, now or later.

    Once or often.  Errors: `NotFound`; `Conflict` once it is landing or has completed;
    `Unavailable`.
    """
    for _ in range(_ROUNDS):
        seen = record.get(ports.kv, repo, JobId(job_id))
        if seen.job.kind != kind:
            raise NotFound("not found")
        if seen.job.state in (JobState.DONE, JobState.FAILED):
            raise Conflict(f"{kind} already completed: id={seen.job.id}")
        if seen.job.state is JobState.LANDING:
            raise Conflict(f"{kind} cannot be cancelled any more: it is landing: id={seen.job.id}")
        if seen.job.cancel:
            return
        asked = seen.job._replace(
            cancel=True,
            state=JobState.CANCELLED,
            error="Canceled",
            updated_ns=ports.clock.now_ns(),
        )
        if _put(ports, repo, asked, seen):
            return
    raise Unavailable("job could not be cancelled; try again")


# ---- whose it is ---------------------------------------------------------------------------------


def claim(ports: Ports, repo: Repository, job_id: JobId, owner: bytes) -> Claim:
    """Become the owner of a job that nobody runs, or whose runner was silent too long.

    The times of two machines are compared: a clock that is wrong makes a job run twice, which does
    no harm.  Errors: `Unavailable`.  Cost: 2 KV requests.
    """
    for _ in range(_ROUNDS):
        seen = record.find(ports.kv, repo, job_id)
        if seen is ABSENT or seen.job.ended or seen.job.kind == BULK:
            return Claim.OVER
        if seen.job.owner not in (b"", owner) and not is_silent(ports, seen.job):
            return Claim.RUNNING
        ours = seen.job._replace(owner=owner, updated_ns=ports.clock.now_ns())
        if _put(ports, repo, ours, seen):
            return Claim.OURS
    raise Unavailable(f"job not claimed: its record kept changing: id={job_id}")


def is_silent(ports: Ports, job: Job) -> bool:
    """Whether nobody seems to run it, and a worker should."""
    lease_ns = limits.job_lease_seconds * limits.SECOND_NS
    return _runs_here(job) and ports.clock.now_ns() - job.updated_ns > lease_ns


def _runs_here(job: Job) -> bool:
    return not job.ended and job.kind != BULK


def release(ports: Ports, repo: Repository, job_id: JobId, owner: bytes) -> None:
    """Let anybody claim the job at once."""
    for _ in range(_ROUNDS):
        seen = record.get(ports.kv, repo, job_id)
        if seen.job.ended or seen.job.owner != owner:
            return
        free = seen.job._replace(owner=b"", updated_ns=ports.clock.now_ns())
        if _put(ports, repo, free, seen):
            return


def free_all(ports: Ports, repo: Repository) -> list[Job]:
    """Take every job that has not ended, and that workers run, from its owner; those jobs.

    For a store that one process at a time can open, and that has run none of them yet.
    """
    found = [seen.job for seen in record.list_all(ports.kv, repo) if _runs_here(seen.job)]
    for job in found:
        release(ports, repo, job.id, job.owner)
    return found


class Pulse:
    """Shows progress about once a second, and notices that a runner is to stop.

    With an `owner` it also notices that another has taken over; after `until_seconds` of the steady
    clock it stops the runner where it can go on later.  Threads may share it.
    """

    def __init__(
        self,
        ports: Ports,
        repo: Repository,
        job_id: JobId,
        owner: bytes = b"",
        until_seconds: float = inf,
    ) -> None:
        self._ports = ports
        self._repo = repo
        self._job_id = job_id
        self._owner = owner
        self._until = until_seconds
        self._last_ns = 0

    def beat(self, progress: int = -1, *, always: bool = False) -> None:
        """Raises `Stopped`.  Cost: 2 KV requests about once a second."""
        now_ns = self._ports.clock.now_ns()
        if not always and now_ns - self._last_ns < _HEARTBEAT_NS:
            return
        self._last_ns = now_ns
        if self._ports.clock.steady_seconds() >= self._until:
            raise Stopped(Why.OUT_OF_TIME)
        seen = self._seen()
        known = seen.job.progress if progress < 0 else progress
        _put(self._ports, self._repo, seen.job._replace(progress=known, updated_ns=now_ns), seen)

    def land(self, progress: int) -> None:
        """From here on nobody can cancel.  Raises `Stopped` if somebody did."""
        for _ in range(_ROUNDS):
            seen = self._seen()
            now_ns = self._ports.clock.now_ns()
            landing = seen.job._replace(
                state=JobState.LANDING, progress=progress, updated_ns=now_ns
            )
            if seen.job.state is JobState.LANDING or _put(self._ports, self._repo, landing, seen):
                return
        raise Unavailable(f"job not landed: its record could not be stored: id={self._job_id}")

    def _seen(self) -> record.VersionedJob:
        seen = record.get(self._ports.kv, self._repo, self._job_id)
        if seen.job.ended:
            raise Stopped(Why.ENDED)
        if self._owner and seen.job.owner != self._owner:
            raise Stopped(Why.TAKEN_OVER)
        return seen


# ---- ends ----------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """How a job ended.  `by`: only if that owner still owns it; empty: whoever does."""

    state: JobState
    error: str = ""
    landed: CommitEntry | Literal[Absent.ABSENT] = ABSENT
    by: bytes = b""


def finish(ports: Ports, repo: Repository, job_id: JobId, ending: Ending) -> bool:
    """End a running job.  False if it had ended already, or belongs to another runner."""
    for _ in range(_ROUNDS):
        seen = record.get(ports.kv, repo, job_id)
        if seen.job.ended or ending.by not in (b"", seen.job.owner):
            return False
        now_ns = ports.clock.now_ns()
        done = seen.job._replace(state=ending.state, error=ending.error, updated_ns=now_ns)
        if ending.landed is not ABSENT:
            landed = ending.landed
            done = done._replace(commit=landed.id, metarange=landed.commit.metarange)
        if _put(ports, repo, done, seen):
            return True
    return False


def end(ports: Ports, repo: Repository, job_id: JobId, ending: Ending) -> None:
    """As `finish`, for whoever ran the job: a store that does not answer is asked again for a
    while.  What cannot be noted even so stays running until somebody takes it over."""
    _patiently(ports, lambda: finish(ports, repo, job_id, ending))


def fail(ports: Ports, repo: Repository, job_id: JobId, error: GravelerError, by: bytes) -> None:
    """End a job as failed, if it still is that owner's, and keep the kind of its error."""
    more = {_KIND: type(error).__name__}
    _patiently(ports, lambda: record.amend(ports.kv, repo, job_id, more, ports.ids))
    end(ports, repo, job_id, Ending(JobState.FAILED, str(error), by=by))


def _patiently(ports: Ports, note: Callable[[], object]) -> None:
    for _ in range(_ROUNDS):
        with suppress(Unavailable, Contended):
            note()
            return
        ports.clock.sleep(_PAUSE_SECONDS)


def _put(ports: Ports, repo: Repository, job: Job, seen: record.VersionedJob) -> bool:
    return record.put(ports.kv, repo, job, seen, ports.ids.stamp()) is not ABSENT
