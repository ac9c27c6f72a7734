"""Replays, imports, bulk jobs, commits made elsewhere, relative resets, break parameters.

A finish of a bulk job without an answer is sent again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from graveler.committed import reader, writer
from graveler.committed.apply import apply
from graveler.core.errors import (
    OUTCOME_UNKNOWN,
    Conflict,
    DirtyBranch,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from graveler.core.identity import commit_id
from graveler.core.records import BreakParameters, Commit, JobState
from graveler.core.wire import encode_entry
from graveler.engine import imports
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.bulk.streams import Batch
from graveler.engine.commits import adopt as adopting
from graveler.engine.commits import merge, reset
from graveler.engine.jobs import record as jobs
from graveler.engine.ports import keyspace
from graveler.engine.repositories import repository
from graveler.refs import job_records as records
from simulator.schedule import Call
from simulator.stage import SOURCE, Stage, entry

ELSEWHERE = "elsewhere"  # the committer of commits made elsewhere
JOB = "job"  # metadata of the commit that a job makes
BASE, PUT = "base", "put"  # the same of a splice: the base of the job, the value that it puts
STREAM: Final = "s"
_BATCHES: Final = 4  # so few that drivers meet
_PACKED: Final = BreakParameters(raggedness=2, salt=b"packed")


def revert(client: Any, call: Call) -> str:
    """Undo `base`, which changed only r1."""
    request = merge.ReplayRequest("sim")
    return merge.revert(client.opened, call.branch, client.stage.base, request).id


def cherry_pick(client: Any, call: Call) -> str:
    """Apply the change of `other` again: m1 and m2."""
    request = merge.ReplayRequest("sim")
    return merge.cherry_pick(client.opened, call.branch, client.stage.other, request).id


# ---- imports -------------------------------------------------------------------------------------


def import_(client: Any, call: Call) -> str:
    """Import two objects below i/, in place of what is there.  Other clients may cancel the job;
    the commit's metadata names it."""
    repo = client.opened
    paths = (imports.ImportPath("common_prefix", SOURCE, "i/"),)
    asked = imports.ImportRequest(paths, "import", "sim")
    job = imports.submit(repo, call.branch, asked, owner=b"sim")
    marked = imports.ImportRequest(paths, "import", "sim", {JOB: job.id})
    imports.run(repo, job.branch, marked, job.id)
    ended = imports.status(repo, job.id)
    if ended.state is JobState.DONE:
        return ended.commit
    if ended.state is JobState.CANCELLED:
        raise Refused("cancelled")
    if OUTCOME_UNKNOWN in ended.error:  # it may also name the last refusal
        raise OutcomeUnknown(ended.error)
    if "dirty branch" in ended.error:
        raise DirtyBranch(ended.error)
    if "not found" in ended.error:
        raise NotFound(ended.error)
    raise OutcomeUnknown(ended.error or "the job never ended")


def cancel(client: Any, call: Call) -> tuple[str, ...]:
    """Cancel every running job; return the ids of the jobs whose cancellation was acknowledged."""
    done = []
    for seen in list(records.list_all(client.ports.kv, client.repo)):
        with suppress(Conflict):
            jobs.cancel(client.opened, seen.job.id, seen.job.kind, seen.job.branch)
            done.append(str(seen.job.id))
    return tuple(done)


# ---- commits made elsewhere, relative resets -----------------------------------------------------


def elsewhere(stage: Stage, call: Call) -> tuple[str, Commit]:
    """A commit made elsewhere: the content of `other`, with the parent `base`."""
    made = Commit(
        committer=ELSEWHERE,
        message=f"{call.client} {call.arguments[1]}",
        created_ns=stage.commits[stage.base].created_ns,
        metarange=stage.commits[stage.other].metarange,
        parents=(stage.base,),
        generation=stage.commits[stage.base].generation + 1,
    )
    return commit_id(made), made


def record(client: Any, call: Call) -> str:
    """Store a commit made elsewhere."""
    id, made = elsewhere(client.stage, call)
    adopting.add_record(client.opened, adopting.NewCommitRecord(id, made))
    return id


def adopt(client: Any, call: Call) -> str:
    """Store a commit made elsewhere, and put the branch on it."""
    id = record(client, call)
    reset.hard_reset(client.opened, call.branch, id)
    return id


def hard_back(client: Any, call: Call) -> str:
    """Put the branch on the first parent of its head."""
    return reset.hard_reset(client.opened, call.branch, f"{call.branch}~1").id


# ---- bulk jobs -----------------------------------------------------------------------------------


def bulk_job(client: Any, call: Call) -> str:
    """Replace everything below i/ by ranges that a cluster wrote."""
    repo, stage = client.opened, client.stage
    job = bulk.begin(repo, call.branch, NewBulk(Mode.REPLACE, "i/"))
    entries = {key.encode(): encode_entry(entry(stage.imported[key])) for key in stage.imported}
    written = writer.write(keyspace(repo), sorted(entries.items()))
    return _finished(client, call, job.job.id, written)


def bulk_merge(client: Any, call: Call) -> str:
    """Put one path onto the branch by ranges that a cluster wrote."""
    repo, (key, value) = client.opened, call.arguments
    job = bulk.begin(repo, call.branch, NewBulk(Mode.MERGE))
    changes = [(key.encode(), encode_entry(entry(value)))]
    written = apply(keyspace(repo), job.base.commit.metarange, changes).metarange_id
    return _finished(client, call, job.job.id, written)


def cleared(key: str) -> str:
    """The prefix that a splice of this path replaces and guards."""
    return "i/" if key.startswith("i/") else key


def splice(client: Any, call: Call) -> str:
    """Replace a folder, or a path, by one path, if nobody has changed it since the begin."""
    job = bulk.begin(client.opened, call.branch, NewBulk(Mode.SPLICE))
    return _spliced(client, call, job, [cleared(call.arguments[0])])


def batch(client: Any, call: Call) -> str:
    """Land a batch of a stream: one path.  Of two calls with one number, one lands."""
    repo, number = client.opened, batch_of(call)
    batch = Batch(STREAM, number, accepts_rewind=True)
    job = bulk.begin(repo, call.branch, NewBulk(Mode.SPLICE, batch=batch))
    return job.job.commit or _spliced(client, call, job, [])


def batch_of(call: Call) -> int:
    """The number of the batch of a call."""
    return int(call.arguments[1].rpartition("-")[2]) % _BATCHES


def _spliced(client: Any, call: Call, job: bulk.Bulk, prefixes: list[str]) -> str:
    key, value = call.arguments
    records = [(key.encode(), encode_entry(entry(value)))]
    written = writer.write(keyspace(client.opened), records)
    metadata = {JOB: job.job.id, BASE: job.base.id, PUT: value}
    id = job.job.id
    asked = Finish(written, id, "bulk", "sim", metadata, prefixes, prefixes)
    return _asked_twice(client, call, asked)


def pack(client: Any, call: Call) -> str:
    """Write the branch's head in other ranges, while other clients may commit."""
    repo = client.opened
    job = bulk.begin(repo, call.branch, NewBulk(Mode.PACK, breaks=_PACKED))
    space = keyspace(repo)
    records = reader.scan(space, job.base.commit.metarange)
    written = writer.write(space._replace(breaks=_PACKED), records)
    return _finished(client, call, job.job.id, written)


def breaks(client: Any, call: Call) -> bytes:
    """Set other break parameters by compare-and-swap; return the salt of those before."""
    repo = client.opened
    seen = repository.read_breaks(repo)
    wanted = replace(seen, salt=call.arguments[1].encode())
    repository.swap_breaks(repo, seen, wanted)
    return seen.salt


def _finished(client: Any, call: Call, job: str, written: Any) -> str:
    """Land what the job wrote; if there is no answer, ask once more."""
    return _asked_twice(client, call, Finish(written, job, "bulk", "sim", {JOB: job}))


def _asked_twice(client: Any, call: Call, asked: Finish) -> str:
    try:
        return _landed(client, call, asked)
    except Unavailable:
        return _landed(client, call, asked)


def _landed(client: Any, call: Call, asked: Finish) -> str:
    try:
        return land.finish(client.opened, call.branch, asked.request_id, asked).id
    except Conflict as refused:
        if "uncommitted changes" in str(refused):
            raise DirtyBranch(str(refused)) from refused
        if "has ended" in str(refused):
            raise Refused("cancelled") from refused
        raise


def beat(client: Any, call: Call) -> None:
    """Send a heartbeat for every bulk job that is alive."""
    for job in bulk.list_alive(client.opened):
        bulk.heartbeat(client.opened, job.job.branch, job.job.id, 1)


LANDING_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "revert": revert,
    "pick": cherry_pick,
    "import": import_,
    "import_job": import_,
    "cancel": cancel,
    "record": record,
    "adopt": adopt,
    "hard_back": hard_back,
    "bulk_job": bulk_job,
    "bulk_merge": bulk_merge,
    "splice": splice,
    "batch": batch,
    "beat": beat,
    "pack": pack,
    "breaks": breaks,
}
