"""Bulk jobs that simulated clients begin, finish and cancel, and changes of break parameters.

A finish without an answer is sent again.  Break parameters change only by compare-and-swap.  For
`calls.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from graveler.committed import reader, writer
from graveler.committed.apply import apply
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.ports import keyspace
from graveler.engine.repositories import repository
from graveler.errors import Conflict, DirtyBranch, Refused, Unavailable
from graveler.records import BreakParameters
from graveler.wire import encode_entry
from simulator.schedule import Call
from simulator.stage import entry
from simulator.verbs.heads import JOB

_PACKED: Final = BreakParameters(raggedness=2, salt=b"packed")


def bulk_job(client: Any, call: Call) -> str:
    """Replace everything below i/ by ranges that a cluster wrote."""
    repo, stage = client.opened, client.stage
    job = bulk.begin(repo, call.branch, NewBulk(Mode.REPLACE, "i/"))
    entries = {key.encode(): encode_entry(entry(stage.imported[key])) for key in stage.imported}
    written = writer.write(keyspace(repo), sorted(entries.items()))
    id = job.job.id
    return _finished(client, call, Finish(written, id, "bulk", "sim", {JOB: id}))


def bulk_merge(client: Any, call: Call) -> str:
    """Put one path onto the branch by ranges that a cluster wrote."""
    repo, (key, value) = client.opened, call.arguments
    job = bulk.begin(repo, call.branch, NewBulk(Mode.MERGE))
    changes = [(key.encode(), encode_entry(entry(value)))]
    written = apply(keyspace(repo), job.base.commit.metarange, changes).metarange_id
    id = job.job.id
    return _finished(client, call, Finish(written, id, "bulk", "sim", {JOB: id}))


def pack(client: Any, call: Call) -> str:
    """Write the branch's head in other ranges, while other clients may commit."""
    repo = client.opened
    job = bulk.begin(repo, call.branch, NewBulk(Mode.PACK, breaks=_PACKED))
    space = keyspace(repo)
    records = reader.scan(space, job.base.commit.metarange)
    written = writer.write(space._replace(breaks=_PACKED), records)
    id = job.job.id
    return _finished(client, call, Finish(written, id, "pack", "sim", {JOB: id}))


def breaks(client: Any, call: Call) -> bytes:
    """Set other break parameters; return the salt of the parameters that were replaced."""
    repo = client.opened
    seen = repository.read_breaks(repo)
    wanted = replace(seen, salt=call.arguments[1].encode())
    repository.swap_breaks(repo, seen, wanted)
    return seen.salt


def _finished(client: Any, call: Call, asked: Finish) -> str:
    """Land what the job wrote; if there is no answer, ask once more."""
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


BULK_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "bulk_job": bulk_job,
    "bulk_merge": bulk_merge,
    "beat": beat,
    "pack": pack,
    "breaks": breaks,
}
