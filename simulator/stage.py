"""The start state of every simulated run: one repository, some history, and objects to import.

root ── base (main, twin)        root: r1 = r1-a;  base: r1 = r1-b and the other keys
          └─── other             m1 and m2 changed together
"""

from dataclasses import dataclass, field, replace
from hashlib import md5

from graveler.assembly import open_memory
from graveler.committed import reader
from graveler.core import wire
from graveler.core.ids import BranchId, CommitId, MetarangeId, PullId
from graveler.core.records import Commit, Entry, Repository
from graveler.engine import names, pulls
from graveler.engine.commits import commit
from graveler.engine.objects import write
from graveler.engine.ports import OpenRepository, Ports, keyspace, open_repository
from graveler.engine.pulls import NewPull
from graveler.engine.repositories import repository
from graveler.kv.store import Row
from graveler.refs.keys import OPEN_PULLS, PULLS, space
from simulator.blocks import RememberedRanges
from simulator.ports import SimulatedStore
from simulator.schedule import Rows, World, empty_world, rows_of
from tests.support.clockwork import SeededIds, TickingClock

KEYS = ("k1", "k2", "m1", "m2", "r1", "i/a", "i/b", "i/c")
BRANCHES = ("main", "twin")
GONE = None  # no such path
NO_BRANCH = "no branch"
_FILES_KEPT = 50_000
SOURCE = "mem://src/in/"
Content = dict[str, str]


@dataclass
class Stage:
    """The start state.

    `contents` caches the contents of commits over all runs (a commit never changes).  `repo` and
    `sharded` are the same repository with one and with three shards for each token.
    """

    rows: Rows
    ports: Ports
    repo: Repository
    sharded: Repository
    root: CommitId
    base: CommitId
    other: CommitId
    start: dict[str, str | None]
    merged: Content
    imported: Content
    commits: dict[CommitId, Commit]
    pull: PullId  # a pull request from `other` into `main`; only runs that use it have its rows
    pull_rows: dict[bytes, Row]
    contents: dict[str, Content] = field(default_factory=dict)

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def content_of(self, metarange: str) -> Content:
        """The content of a metarange: path to value."""
        known = self.contents.get(metarange)
        if known is None:
            if len(self.contents) > _FILES_KEPT:
                self.contents.clear()
            files = keyspace(self.opened)
            known = self.contents[metarange] = {
                key.decode(): value_of(wire.decode_entry(value))
                for key, value in reader.scan(files, MetarangeId(metarange))
            }
        return known


def build_stage() -> Stage:
    """Build the start state on the memory drivers."""
    # All names and times come from here, so a seed means the same in every process.
    world = empty_world()
    memory = open_memory(TickingClock(), SeededIds(0))
    ports = replace(memory, kv=SimulatedStore(world), ranges=RememberedRanges())
    made = repository.create(ports, repository.NewRepository("sim", "mem://sim/lake"))
    repo = replace(made, default_branch=BranchId("none"))  # `main` can then be deleted
    _stage_all(
        open_repository(ports, repo),
        "main",
        {"k1": "k1-0", "m1": "m1-0", "m2": "m2-0", "r1": "r1-a"},
    )
    root = commit.commit(open_repository(ports, repo), "main", commit.CommitRequest("root", "sim"))
    _stage_all(open_repository(ports, repo), "main", {"r1": "r1-b"})
    base = commit.commit(open_repository(ports, repo), "main", commit.CommitRequest("base", "sim"))
    for branch in ("other", "twin"):
        names.create_branch(open_repository(ports, repo), branch, "main")
    merged = {"m1": "m1-other", "m2": "m2-other"}
    _stage_all(open_repository(ports, repo), "other", merged)
    other = commit.commit(
        open_repository(ports, repo), "other", commit.CommitRequest("other", "sim")
    )
    imported = {f"i/{name}": _put(ports, name) for name in ("a", "b")}
    start = dict.fromkeys(KEYS, GONE) | {"k1": "k1-0", "m1": "m1-0", "m2": "m2-0", "r1": "r1-b"}
    rows = _rows(world)
    proposal = NewPull("proposal", "other", "main", "sim")
    pull = pulls.create(open_repository(ports, repo), proposal)
    return Stage(
        rows=rows,
        ports=ports,
        repo=repo,
        sharded=replace(repo, staging_shards=3),
        root=root.id,
        base=base.id,
        other=other.id,
        start=start,
        merged=merged,
        imported=imported,
        commits={each.id: each.commit for each in (root, base, other)},
        pull=pull.id,
        pull_rows={
            key: row
            for key, row in _rows(world)[space(repo)].items()
            if key.startswith((PULLS, OPEN_PULLS))
        },
    )


def _put(ports: Ports, name: str) -> str:
    return ports.blocks.put(SOURCE + name, [name.encode()]).etag


def _stage_all(repo: OpenRepository, branch: str, values: Content) -> None:
    for key, value in values.items():
        write.stage(repo, branch, key, entry(value))


def _rows(world: World) -> Rows:
    """All rows except staged rows, fold records and clean-up records."""
    rows = rows_of(world)
    kept = {partition: keys for partition, keys in rows.items() if not partition.startswith(b"s/")}
    for records in kept.values():
        for key in [key for key in records if key.startswith((b"x/", b"f/"))]:
            del records[key]
    return kept


def entry(value: str) -> Entry:
    """An entry that stands for `value`."""
    return Entry(f"data/{value}", len(value), value, 1_700_000_000_000_000_000)


def checksum_of(text: str) -> str:
    """The value of a path to which `text` was uploaded."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def value_of(found: Entry) -> str:
    """The value that an entry stands for; user metadata is part of it."""
    note = found.metadata.get("n")
    return found.checksum if note is None else f"{found.checksum}#{note}"
