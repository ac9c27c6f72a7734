"""Records of jobs, of their steps, and of the turn that allows one collection at a time."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler.core import wire
from graveler.core.clock import Ids
from graveler.core.errors import Code, Contended, NotFound, OutcomeUnknown
from graveler.core.ids import JobId, RangeId
from graveler.core.records import ABSENT, Absent, Job, RangeRef, Repository
from graveler.core.streams import successor
from graveler.kv.replace import Found, replace_row
from graveler.kv.store import WRITTEN, Condition, Matches, Paired, Store, Write, landed, scan_all
from graveler.refs import rows
from graveler.refs.keys import (
    JOBS,
    job_key,
    job_order_key,
    job_step_key,
    job_steps_prefix,
    setting_key,
    space,
)

# ---- record ----------------------------------------------------------------------------------

Order = Mapping[str, str]
_STEP_KEYS: Final = ("min", "max", "identity")


class VersionedJob(NamedTuple):
    """A job record and the version of its stored form."""

    job: Job
    version: bytes


def find(kv: Store, repository: Repository, job: JobId) -> VersionedJob | Literal[Absent.ABSENT]:
    """The job record; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), job_key(job))
    return ABSENT if row is ABSENT else VersionedJob(wire.decode_job(row.value), row.version)


def get(kv: Store, repository: Repository, job: JobId) -> VersionedJob:
    """The job record.  Raises `NotFound`.  One request."""
    record = find(kv, repository, job)
    if record is ABSENT:
        raise NotFound("not found", Code.JOB_NOT_FOUND, job=job)
    return record


def put(
    kv: Store,
    repository: Repository,
    job: Job,
    seen: VersionedJob | Literal[Absent.ABSENT],
    stamp: bytes,
) -> VersionedJob | Literal[Absent.ABSENT]:
    """Replace the record `seen` by `job`, or create it if `seen` is ABSENT.  A result of ABSENT
    means failed or unknown; the caller reads again.  One request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    raw = wire.encode_job(job)
    try:
        outcome = kv.set_if(space(repository), job_key(job.id), raw, stamp, condition)
    except OutcomeUnknown:
        return ABSENT
    return VersionedJob(job, stamp) if landed(outcome, stamp) else ABSENT


def begin(kv: Store, repository: Repository, job: Job, order: Order, stamp: bytes) -> bool:
    """Store a new job and its order atomically.  False: a job of this id exists already.

    Raises `OutcomeUnknown` if it is not known whether they were stored.  One request.
    """
    here = space(repository)
    beside = Write(here, job_order_key(job.id), wire.encode_pairs(dict(order)), stamp)
    condition = Paired(ABSENT, ABSENT, beside)
    outcome = kv.set_if(here, job_key(job.id), wire.encode_job(job), stamp, condition)
    return landed(outcome, stamp)


def writes_of(repository: Repository, job: Job, order: Order, stamp: bytes) -> list[Write]:
    """The writes that store a new job and its order, for a job whose id nobody else can name.  No
    request."""
    here = space(repository)
    return [
        Write(here, job_order_key(job.id), wire.encode_pairs(dict(order)), stamp),
        Write(here, job_key(job.id), wire.encode_job(job), stamp),
    ]


def order_of(kv: Store, repository: Repository, job: JobId) -> Order | Literal[Absent.ABSENT]:
    """The order of a job; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), job_order_key(job))
    return ABSENT if row is ABSENT else wire.decode_pairs(row.value)


def orders_of(kv: Store, repository: Repository, jobs: Sequence[JobId]) -> Mapping[JobId, Order]:
    """The orders of these jobs, without those that have none.  One request for each 1,000."""
    places = {job: (space(repository), job_order_key(job)) for job in jobs}
    stored = kv.get_many(list(places.values())) if places else {}
    return {
        job: wire.decode_pairs(stored[place].value)
        for job, place in places.items()
        if place in stored
    }


def amend(
    kv: Store, repository: Repository, job: JobId, more: Order, ids: Ids, unless: str = ""
) -> None:
    """Add the pairs `more` to an order, and keep the pairs that others added.  Does nothing if
    there is no order, or if the order has the key `unless`.

    A late duplicate of the write undoes nothing, and does not restore an order that was removed.
    Raises `OutcomeUnknown`, `Contended`.  Two requests; one if nothing changes.
    """

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if row is ABSENT:
            return ABSENT
        order = wire.decode_pairs(row.value)
        if unless in order:
            return ABSENT
        return ABSENT if order.items() >= more.items() else wire.encode_pairs({**order, **more})

    replace_row(kv, (space(repository), job_order_key(job)), ids, change)


def replace(
    kv: Store,
    repository: Repository,
    job: JobId,
    name: str,
    before: Sequence[str],
    value: str,
    ids: Ids,
) -> None:
    """Set one pair of an order, if its value is one of `before` (empty: it has none) or `value`.

    Does nothing if there is no order.  Raises `Contended` if the pair has another value;
    `OutcomeUnknown`.  Two requests; one if nothing changes.
    """

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if row is ABSENT:
            return ABSENT
        order = wire.decode_pairs(row.value)
        old = order.get(name, "")
        if old == value:
            return ABSENT
        if old not in before:
            raise Contended(f"another attempt of this job has begun; try again: job={job}")
        return wire.encode_pairs({**order, name: value})

    replace_row(kv, (space(repository), job_order_key(job)), ids, change)


def list_some(kv: Store, repository: Repository, prefix: str) -> list[VersionedJob]:
    """The jobs whose ids begin with `prefix`, by id.  One request for each 1,000."""
    start = job_key(JobId(prefix))
    stored = scan_all(kv, space(repository), start, successor(start))
    return [VersionedJob(wire.decode_job(row.value), row.version) for _, row in stored]


def list_all(kv: Store, repository: Repository) -> Iterator[VersionedJob]:
    """Every job by id.  One request for each 1,000."""
    for _, row in rows.rows(kv, rows.Stretch(space(repository), JOBS)):
        yield VersionedJob(wire.decode_job(row.value), row.version)


def forget(kv: Store, repository: Repository, jobs: list[JobId]) -> None:
    """Remove all records of jobs that have ended.  One request per job to list its checkpoints, and
    one for each 1,000 records that are removed."""
    here, keys = space(repository), list[bytes]()
    for job in jobs:
        start = job_steps_prefix(job)
        keys += [key for key, _ in scan_all(kv, here, start, successor(start))]
        keys += [job_order_key(job), job_key(job)]
    if keys:
        kv.delete(here, keys)


# ---- checkpoints of an import --------------------------------------------------------------------


class Step(NamedTuple):
    """A checkpoint of an import: source number `source` is listed up to and including `after`.
    `found`: the range of the objects that were listed since the checkpoint before.  `skipped`: how
    many others were left out, with `examples`."""

    source: int
    after: str
    found: RangeRef
    skipped: int = 0
    examples: tuple[str, ...] = ()


def steps(kv: Store, repository: Repository, job: JobId) -> list[Step]:
    """All checkpoints, in order.  One request for each 1,000."""
    start = job_steps_prefix(job)
    stored = scan_all(kv, space(repository), start, successor(start))
    return [_step(row.value) for _, row in stored]


def add_step(
    kv: Store, repository: Repository, job: JobId, number: int, step: Step, stamp: bytes
) -> Step:
    """Store checkpoint `number`, or return the one that another attempt stored.

    Raises `OutcomeUnknown` if it is not known whether it was stored.  One request.
    """
    ref = step.found
    pairs = {
        "source": str(step.source),
        "after": json.dumps(step.after),  # a name of a file may hold bytes that are not UTF-8
        "skipped": json.dumps([step.skipped, *step.examples]),
        "range": ref.id,
        "min": ref.min_key.hex(),
        "max": ref.max_key.hex(),
        "size": str(ref.size),
        "count": str(ref.count),
        "identity": ref.identity.hex(),
    }
    place = space(repository), job_step_key(job, number)
    outcome = kv.set_if(*place, wire.encode_pairs(pairs), stamp, ABSENT)
    if outcome is WRITTEN or outcome.current is ABSENT:
        return step
    return _step(outcome.current.value)


def _step(raw: bytes) -> Step:
    pairs = wire.decode_pairs(raw)
    low, high, identity = (bytes.fromhex(pairs[name]) for name in _STEP_KEYS)
    size, count = int(pairs["size"]), int(pairs["count"])
    ref = RangeRef(RangeId(pairs["range"]), low, high, size, count, identity)
    source, after = int(pairs["source"]), pairs["after"]
    skipped, *examples = json.loads(pairs["skipped"])
    return Step(source, json.loads(after), ref, skipped, tuple(examples))


# ---- turn ------------------------------------------------------------------------------------

_NAME: Final = "collection"


class Turn(NamedTuple):
    """The holder of the turn, or its last holder.

    field         of a job                     of a cluster
    job           the id of the job            the id of the cluster's turn
    ordered_ns    when it was requested        when the turn began
    until_ns      0                            when the lease expires; equal to `ordered_ns` once
                                               the cluster has ended its turn
    """

    job: JobId
    ordered_ns: int
    until_ns: int = 0

    @property
    def ended(self) -> bool:
        """Whether a cluster has ended its turn."""
        return self.until_ns == self.ordered_ns

    def is_held(self, now_ns: int) -> bool:
        """Whether a cluster holds the turn."""
        return self.until_ns > now_ns and not self.ended


class VersionedTurn(NamedTuple):
    """A turn and the version of its stored form."""

    turn: Turn
    version: bytes


Seen = VersionedTurn | Literal[Absent.ABSENT]


def find_turn(kv: Store, repository: Repository) -> Seen:
    """The last turn; ABSENT if there was none.  One request."""
    row = kv.get(space(repository), setting_key(_NAME))
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    until_ns = int(pairs.get("until_ns", "0"))
    turn = Turn(JobId(pairs["job"]), int(pairs["ordered_ns"]), until_ns)
    return VersionedTurn(turn, row.version)


def swap_turn(kv: Store, repository: Repository, turn: Turn, seen: Seen, stamp: bytes) -> bool:
    """Replace `seen` by `turn`.  False: failed or unknown; the caller reads again.  One
    request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    pairs = {"job": turn.job, "ordered_ns": str(turn.ordered_ns)}
    if turn.until_ns:
        pairs["until_ns"] = str(turn.until_ns)
    raw = wire.encode_pairs(pairs)
    try:
        outcome = kv.set_if(space(repository), setting_key(_NAME), raw, stamp, condition)
    except OutcomeUnknown:
        return False
    return landed(outcome, stamp)
