"""Bulk jobs in a few words, for tests: what a cluster does beside the engine, and the calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from graveler.committed import writer
from graveler.committed.apply import apply
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, Change, Entry, Record
from graveler.core.wire import encode_entry
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.commits import log
from graveler.engine.ports import keyspace
from tests.engine.lake import COMMITTER, Lake

MAIN = "main"


def entry(identity: str, address: str = "data/p/u", **more: Any) -> Entry:
    return Entry(address, len(identity), identity, 1, **more)


def records(tree: Mapping[str, str]) -> list[Record]:
    return [(path.encode(), encode_entry(entry(tree[path]))) for path in sorted(tree)]


def write(lake: Lake, tree: Mapping[str, str]) -> MetarangeId:
    """As a cluster does: ranges and a metarange, and nothing else."""
    return writer.write(keyspace(lake.opened), records(tree))


def change(lake: Lake, job: Bulk, changes: Mapping[str, str]) -> MetarangeId:
    """The job's base with changes; an empty text deletes."""
    made: list[Change] = [
        (path.encode(), encode_entry(entry(changes[path])) if changes[path] else TOMBSTONE)
        for path in sorted(changes)
    ]
    base = job.base.commit.metarange
    return apply(keyspace(lake.opened), base, made, replace=True).metarange_id


def begin(lake: Lake, mode: Mode = Mode.REPLACE, prefix: str = "", id: str = "") -> Bulk:
    return bulk.begin(lake.opened, MAIN, NewBulk(mode, prefix, id))


def finish(
    lake: Lake,
    job: Bulk,
    metarange: str,
    request: str = "r",
    *,
    replace: Sequence[str] = (),
    guard: Sequence[str] = (),
) -> str:
    asked = Finish(metarange, request, "landed", COMMITTER, {"k": "v"}, replace, guard)
    return land.finish(lake.opened, MAIN, job.job.id, asked).id


def status(lake: Lake, job: Bulk) -> Bulk:
    return bulk.status(lake.opened, MAIN, job.job.id)


def landings(lake: Lake) -> int:
    found, _ = log.log(lake.opened, MAIN, log.LogRequest(amount=100))
    return len([each for each in found if each.commit.message == "landed"])
