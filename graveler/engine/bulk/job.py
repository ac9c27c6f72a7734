"""Bulk jobs: ranges that a cluster writes into the repository's folder land as one commit.

    begin ──► running ──► (the cluster writes ranges and one metarange) ──► finish: landing ──► done
                 │ heartbeat: shows progress, and tells the driver of a cancellation
                 └─ cancel ──► cancelled          11 hours after it began: expired; neither can land

What is written is not seen before it lands, and lands whole or not at all, once.  The reference is
one apply after the other: *replace* puts the job's entries in place of all that the head has below
the prefix; *merge* puts every path that the job changed since its base onto the head; *commit*
folds in what was staged on the branch when the job began; *pack* changes no entry, only where
ranges end.  Whoever else has committed meanwhile keeps what they did elsewhere.

The job's record is that of `jobs.py`, but nobody here runs it.  Its owner is the request that
finishes it (land.py).  Nothing that it wrote is collected before it must have ended: files
younger than a day never are (collect.py).  For the service, and for land.py.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from graveler import break_json, limits
from graveler.engine.bulk.rows import StagedToken, tokens_of
from graveler.engine.commits.messages import NO_CHANGES
from graveler.engine.commits.records import commit_of, fresh
from graveler.engine.commits.seal import Once, nothing_staged, seal
from graveler.engine.jobs import record as jobs
from graveler.engine.jobs.record import BULK, NewJob
from graveler.engine.ports import Ports, check_writable
from graveler.engine.repositories import break_parameters
from graveler.errors import (
    Conflict,
    Invalid,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.ids import BranchId, JobId, parse_branch_id, parse_prefix
from graveler.records import (
    ABSENT,
    Absent,
    Branch,
    BreakParameters,
    CommitEntry,
    Job,
    JobState,
    Repository,
)
from graveler.refs.jobs import record as records

KIND: Final = BULK
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_ROUNDS: Final = 20  # of a swap of the job's record


class Mode(StrEnum):
    """How what a job wrote comes onto the head."""

    REPLACE = "replace"
    MERGE = "merge"
    COMMIT = "commit"
    PACK = "pack"


@dataclass(frozen=True, slots=True)
class NewBulk:
    """What is to be done.  `id`: chosen by the caller, so that the same job can be begun again.
    `breaks`: where ranges are to end instead, for packing alone.  `message`, `metadata`: what a
    commit that was handed over was to say.  `purpose`: in the caller's words, so that a name which
    is used again for something else is noticed."""

    mode: Mode
    prefix: str = ""
    id: str = ""
    breaks: BreakParameters | Literal[Absent.ABSENT] = ABSENT
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    purpose: str = ""

    def __str__(self) -> str:
        """What tells it from another job of its name."""
        return f"mode={self.mode} prefix={self.prefix!r:.200} purpose={self.purpose!r:.200}"


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk job: its record, the commit that it builds on, what it is to do, and the staging
    tokens, newest first, that the branch named when it began; of a commit those that it folds
    in."""

    job: Job
    base: CommitEntry
    new: NewBulk
    tokens: tuple[StagedToken, ...] = ()
    is_named: bool = False

    @property
    def mode(self) -> Mode:
        """How what it writes comes onto the head."""
        return self.new.mode

    @property
    def prefix(self) -> str:
        """Below which it replaces everything."""
        return self.new.prefix

    @property
    def expires_ns(self) -> int:
        """It cannot land later."""
        return _expires_ns(self.job)

    @property
    def once(self) -> Once:
        """The mark of what it lands.  A name may be given again once its job is forgotten, so the
        mark of a job that a caller has named says when it was begun."""
        born = f"@{self.job.created_ns}" if self.is_named else ""
        return Once(jobs.MARK_KEY, f"{self.job.id}{born}", self.base.id)


# ---- begin, ask, beat, cancel --------------------------------------------------------------------


def begin(
    ports: Ports, repo: Repository, branch: str, new: NewBulk, *, force: bool = False
) -> Bulk:
    """Note a job on the head of the branch; an equal one of that id, if there is one, as it is now.

    A commit first seals what is staged: it takes in what was acknowledged before, and writers go
    on.  A job whose purpose was not said is equal whatever the purpose.

    Errors: `Invalid`, `NotFound`, `Refused`, `NoChanges` (nothing to commit), `Conflict` (the
    id is another job's, perhaps of another branch; so much is sealed that an ordinary commit must
    come first; something is staged on a branch that is to be packed),
    `OutcomeUnknown` (with the same id it may be begun again).  Cost: 2 KV requests, 1 more with an
    id; 2 more if it is there already; with one shard packing 1 more, a commit 2.
    """
    name = parse_branch_id(branch)
    check_writable(repo, force)
    parse_prefix(new.prefix)
    if new.mode is not Mode.REPLACE and new.prefix:
        raise Invalid("prefix is for the mode replace: in others the paths that were changed count")
    if (new.mode is Mode.PACK) != (new.breaks is not ABSENT):
        raise Invalid("breaks are for the mode pack, which must have them")
    if new.breaks is not ABSENT:
        break_parameters.check(new.breaks)
    if new.id and not _ID.fullmatch(new.id):
        raise Invalid(f"id must be 1 to 64 letters, digits, '-', '_', '.': id={new.id!r:.80}")
    job_id = JobId(new.id or ports.ids.unique(20))
    taken = records.find(ports.kv, repo, job_id) if new.id else ABSENT
    if taken is ABSENT:
        record = _begun_on(ports, repo, name, new.mode)
        begun = begin_on(ports, repo, name, record, replace(new, id=job_id), is_named=bool(new.id))
        if begun is not ABSENT:
            return begun
        taken = records.get(ports.kv, repo, job_id)
    if (taken.job.kind, taken.job.branch) != (KIND, name):
        raise Conflict(
            f"another job has this id: use another id for this one: id={job_id} "
            f"asked: branch={name} begun: branch={taken.job.branch} kind={taken.job.kind}"
        )
    known = status(ports, repo, name, job_id)
    was = known.new
    same = (was.mode, was.prefix, was.breaks) == (new.mode, new.prefix, new.breaks)
    if not same or was.purpose not in ("", new.purpose):
        raise Conflict(
            f"another bulk job has this id: use another id for this one: id={job_id} "
            f"asked: {new} begun: {was}"
        )
    return known


def begin_on(
    ports: Ports,
    repo: Repository,
    branch: BranchId,
    record: Branch,
    new: NewBulk,
    *,
    is_named: bool = False,
) -> Bulk | Literal[Absent.ABSENT]:
    """Note a job on a record of the branch; of a commit, to take in what it shows as sealed.
    ABSENT: the id is taken.  `is_named`: by a caller, who may give the name again.

    `OutcomeUnknown`.  Cost: 1 KV request.
    """
    base, tokens = record.commit, tokens_of(record)
    if new.mode is Mode.COMMIT:
        tokens = tokens[1:]
    said: dict[str, Any] = {"mode": new.mode, "prefix": new.prefix, "tokens": tokens}
    if new.message:
        said |= {"message": new.message, "metadata": dict(new.metadata)}
    if new.purpose:
        said["purpose"] = new.purpose
    if new.breaks is not ABSENT:
        said["breaks"] = break_json.told(new.breaks)
    if is_named:
        said["named"] = True
    body = json.dumps(said)
    stamp = ports.ids.stamp()
    job = jobs.begin(ports, repo, NewJob(JobId(new.id), KIND, branch, body, base, stamp))
    if job.owner != stamp:
        return ABSENT
    entry = CommitEntry(base, commit_of(ports, repo, base))
    return Bulk(job, entry, new, tuple(tokens), is_named)


def _begun_on(ports: Ports, repo: Repository, branch: BranchId, mode: Mode) -> Branch:
    """The branch's record; for a commit one in which all that was staged is sealed."""
    seen = fresh(ports, repo, branch)
    if mode is Mode.PACK and not nothing_staged(ports, seen):
        raise Conflict(f"the branch has uncommitted changes; commit or reset them: branch={branch}")
    if mode is not Mode.COMMIT:
        return seen.branch
    if nothing_staged(ports, seen):
        raise NoChanges(NO_CHANGES)
    if len(seen.branch.sealed) >= limits.sealed_token_count_max:
        raise Conflict(f"too much is sealed already; commit first: branch={branch}")
    return seal(ports, repo, branch, seen, own=True).branch


def status(ports: Ports, repo: Repository, branch: str, job_id: str) -> Bulk:
    """The job as it is now.  `NotFound`.  Cost: 2 KV requests."""
    return seen(ports, repo, branch, job_id).bulk


class Seen(NamedTuple):
    """A job with the version of its record."""

    bulk: Bulk
    record: records.VersionedJob


def seen(ports: Ports, repo: Repository, branch: str, job_id: str) -> Seen:
    """The job with all that stands in its records.  `NotFound`.  Cost: 2 KV requests."""
    found = records.find(ports.kv, repo, JobId(job_id)) if _ID.fullmatch(job_id) else ABSENT
    if found is ABSENT or (found.job.kind, found.job.branch) != (KIND, branch):
        raise NotFound(f"bulk job not found: id={job_id:.80} branch={branch:.80}")
    order = jobs.ordered(ports, repo, found.job.id)
    said = json.loads(order.body)
    base = CommitEntry(order.since, commit_of(ports, repo, order.since))
    tokens = tuple(StagedToken(*each) for each in said["tokens"])
    bulk = Bulk(found.job, base, _asked(found.job, said), tokens, said.get("named", False))
    return Seen(bulk, found)


def _asked(job: Job, said: dict[str, Any]) -> NewBulk:
    breaks = break_json.parsed(said["breaks"]) if "breaks" in said else ABSENT
    message, metadata = said.get("message", ""), said.get("metadata", {})
    purpose = said.get("purpose", "")
    return NewBulk(Mode(said["mode"]), said["prefix"], job.id, breaks, message, metadata, purpose)


def heartbeat(ports: Ports, repo: Repository, branch: str, job_id: str, progress: int = -1) -> Bulk:
    """Show that the job is alive, and how many rows it has done (-1: as many as before).

    A job that is landing or has landed stays as it is.  Errors: `NotFound`; `Conflict` if it cannot
    land any more: its runner is to stop; `Unavailable`.  Cost: 3 KV requests.
    """
    for _ in range(_ROUNDS):
        bulk, record = seen(ports, repo, branch, job_id)
        if bulk.job.state is JobState.DONE:
            return bulk
        check_alive(ports, bulk)
        if bulk.job.state is JobState.LANDING:
            return bulk
        done = bulk.job.progress if progress < 0 else progress
        beaten = bulk.job._replace(progress=done, updated_ns=ports.clock.now_ns())
        if records.put(ports.kv, repo, beaten, record, ports.ids.stamp()) is not ABSENT:
            return replace(bulk, job=beaten)
    raise Unavailable(f"heartbeat not noted: the job's record kept changing: id={job_id}")


def cancel(ports: Ports, repo: Repository, branch: str, job_id: str) -> None:
    """Stop a running job, once or often: it lands nothing, now or later.

    Errors: `NotFound`; `Conflict` once it is landing or has landed; `Unavailable`.  Cost: 4 KV
    requests.
    """
    jobs.cancel(ports, repo, status(ports, repo, branch, job_id).job.id, KIND)


def list_alive(ports: Ports, repo: Repository) -> list[Bulk]:
    """Jobs that may still land.  Cost: 1 KV request for each 1,000 jobs, 2 for each of them."""
    found = [
        status(ports, repo, seen.job.branch, seen.job.id)
        for seen in records.list_all(ports.kv, repo)
        if seen.job.kind == KIND and not seen.job.ended
    ]
    return [each for each in found if not each.job.ended and not is_expired(ports, each)]


def is_expired(ports: Ports, bulk: Bulk) -> bool:
    """Whether its time is over."""
    return not bulk.job.ended and not can_land(ports, bulk.job)


def can_land(ports: Ports, job: Job) -> bool:
    """Whether a bulk job may still land.  No request."""
    return not job.ended and ports.clock.now_ns() < _expires_ns(job)


def _expires_ns(job: Job) -> int:
    return job.created_ns + limits.import_seconds_max * limits.SECOND_NS


def check_alive(ports: Ports, bulk: Bulk) -> None:
    """Raises `Conflict` if the job cannot land any more.  No request."""
    job = bulk.job
    if job.ended:
        raise Conflict(f"bulk job has ended: id={job.id} state={job.state.name.lower()}")
    if is_expired(ports, bulk):
        raise Conflict(f"bulk job has expired: it had {limits.import_seconds_max} s: id={job.id}")


# ---- for the landing -----------------------------------------------------------------------------


def check_same(job: Job, request_id: str) -> None:
    """Raises `Conflict` if another request lands the job, or has landed it.  No request."""
    if job.owner != request_id.encode():
        raise Conflict(f"bulk job is finished by another request: id={job.id} commit={job.commit}")


def note_landing(ports: Ports, repo: Repository, bulk: Bulk, request_id: str) -> None:
    """From here on nobody can cancel, and only this request may land it; once or often.

    Errors: `Conflict`, `Unavailable`.  Cost: 2 KV requests.
    """
    for _ in range(_ROUNDS):
        found = records.get(ports.kv, repo, bulk.job.id)
        if found.job.state in (JobState.LANDING, JobState.DONE):  # by a twin, or a round before
            check_same(found.job, request_id)
            return
        check_alive(ports, replace(bulk, job=found.job))
        landing = found.job._replace(
            state=JobState.LANDING,
            owner=request_id.encode(),
            updated_ns=ports.clock.now_ns(),
        )
        if records.put(ports.kv, repo, landing, found, ports.ids.stamp()) is not ABSENT:
            return
    raise Unavailable(f"bulk job not landed: its record could not be stored: id={bulk.job.id}")


def note_done(ports: Ports, repo: Repository, job_id: JobId, landed: CommitEntry) -> None:
    """It has landed.  `OutcomeUnknown` if that cannot be noted: its mark tells whoever asks again.
    Cost: 2 KV requests."""
    said = f"bulk job landed, and is not noted; ask again: id={job_id}"
    try:
        noted = jobs.finish(ports, repo, job_id, jobs.Ending(JobState.DONE, landed=landed))
        noted = noted or jobs.status(ports, repo, job_id).state is JobState.DONE
    except Unavailable as error:
        raise OutcomeUnknown(said) from error
    if not noted:
        raise OutcomeUnknown(said)
