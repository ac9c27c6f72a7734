"""What simulated clients do during garbage collection, on real addresses; the collector; time.

A call's arguments are a path, a ref, a date and a metarange.  The collector may be a job whose
attempts are cut off; each continues where the last one was.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from graveler.core import limits
from graveler.core.ids import JobId
from graveler.core.records import ABSENT, AddressType, Job, JobState, Repository
from graveler.engine import janitor, names
from graveler.engine.commits import commit, merge
from graveler.engine.commits import reset as resetting
from graveler.engine.gc import collect
from graveler.engine.gc.collect import CollectSettings
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.record import Ending, Heartbeat, NewJob
from graveler.engine.objects import addresses, copies, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.refs import job_records as records
from simulator.schedule import Call, World

LEAP_SECONDS = 9 * 3600
CAREFUL = CollectSettings()


class Keeper(NamedTuple):
    """What a verb needs to run."""

    ports: Ports
    repo: Repository
    world: World
    settings: CollectSettings = CAREFUL
    by_steps: bool = False

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def now(self) -> OpenRepository:
        """The repository with its present record."""
        return open_repository(self.ports, repository.get(self.ports, self.repo.id))


def full(keeper: Keeper, call: Call) -> None:
    """Stage an entry with a full address inside the namespace, in another spelling."""
    repo = keeper.now()
    body = write.Upload([b"full"])
    made = write.upload(repo, call.branch, "tmp", body)
    address = f"{repo.namespace}//{made.address}".replace("mem://", "MEM://")
    spelled = made._replace(address=address, address_type=AddressType.FULL)
    write.stage(repo, call.branch, call.arguments[0], spelled)
    write.delete(repo, call.branch, "tmp")


def link(keeper: Keeper, call: Call) -> None:
    repo, path = keeper.now(), call.arguments[0]
    address = addresses.hand_out(repo, call.branch, path)
    keeper.ports.blocks.put(address, [b"linked"])
    addresses.link(repo, call.branch, path, addresses.Link(address, "linked", 6))


_KIND = "gc"
_REQUESTS_MAX = 120


def drawn_cuts(random: Random) -> Iterator[int]:
    """After how many requests each attempt of a collector is cut off; 0: never."""
    while True:
        yield random.choice((0, random.randint(1, _REQUESTS_MAX)))


def collect_(keeper: Keeper, call: Call) -> collect.CollectionResult:
    """Run one collection: an attempt of the job that has not ended, or of a new job, or without a
    job."""
    if not keeper.by_steps:
        return collect.collect(keeper.opened, keeper.settings, delete=True)
    repo = keeper.opened
    job = _job(keeper)
    kept = checkpoints.opened(repo, job, Heartbeat(repo, job.id))
    found = collect.collect(repo, keeper.settings, delete=True, steps=kept)
    record.end(repo, job.id, Ending(JobState.DONE))
    checkpoints.forget(repo, job.id)
    return found


def _job(keeper: Keeper) -> Job:
    known = [seen.job for seen in records.list_some(keeper.ports.kv, keeper.repo, _KIND)]
    if known and not known[-1].ended:
        return known[-1]
    new = NewJob(JobId(f"{_KIND}-{len(known):06}"), _KIND)
    return record.begin(keeper.opened, new)


def leap(keeper: Keeper, call: Call) -> None:
    """Let hours pass; delayed writes arrive before."""
    keeper.world.pause()
    while keeper.world.late:
        keeper.world.late.pop(0)()
    keeper.world.jumped_ns += LEAP_SECONDS * limits.SECOND_NS


_MERGE = merge.MergeRequest("sim", strategy="source-wins", allow_empty=True)
_REPLAY = merge.ReplayRequest("sim", allow_empty=True)
VERBS: dict[str, Callable[[Keeper, Call], object]] = {
    "upload": lambda k, call: write.upload(
        k.now(),
        call.branch,
        call.arguments[0],
        write.Upload([f"{call.client} {call.start}".encode()]),
    ),
    "full": full,
    "link": link,
    "describe": lambda k, call: copies.set_user_metadata(
        k.now(), call.branch, call.arguments[0], {"step": str(call.start)}
    ),
    "copy": lambda k, call: copies.copy(
        k.now(),
        call.branch,
        call.arguments[0],
        copies.Source(call.arguments[1], call.arguments[0]),
    ),
    "delete": lambda k, call: write.delete(k.now(), call.branch, call.arguments[0]),
    "commit": lambda k, call: commit.commit(
        k.now(),
        call.branch,
        commit.CommitRequest("commit", "sim", created_ns=call.arguments[2] or ABSENT),
    ),
    "commit_metarange": lambda k, call: commit.commit(
        k.now(),
        call.branch,
        commit.CommitRequest("given", "sim", source_metarange=call.arguments[3]),
    ),
    "merge": lambda k, call: merge.merge(k.now(), call.arguments[1], call.branch, _MERGE),
    "revert": lambda k, call: merge.revert(k.now(), call.branch, call.arguments[1], _REPLAY),
    "pick": lambda k, call: merge.cherry_pick(k.now(), call.branch, call.arguments[1], _REPLAY),
    "hard": lambda k, call: resetting.hard_reset(k.now(), call.branch, call.arguments[1]),
    "reset": lambda k, call: resetting.reset(k.now(), call.branch),
    "reset_path": lambda k, call: resetting.reset_path(k.now(), call.branch, call.arguments[0]),
    "create": lambda k, call: names.create_branch(k.now(), call.branch, call.arguments[1]),
    "drop": lambda k, call: names.delete_branch(k.now(), call.branch),
    "tag": lambda k, call: names.create_tag(k.now(), f"t{call.start}", call.arguments[1]),
    "collect": collect_,
    "sweep": lambda k, _: janitor.sweep(k.opened),
    "leap": leap,
}
