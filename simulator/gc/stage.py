"""The start state of simulated garbage collection: a repository with a past, on real addresses."""

from dataclasses import dataclass, field, replace
from typing import Any

from graveler.block.address import FILES
from graveler.core import limits, wire
from graveler.core.errors import Unavailable
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, Commit, Repository
from graveler.engine import names as branches
from graveler.engine.commits import commit
from graveler.engine.gc import collect, retention
from graveler.engine.gc.listing import used_name
from graveler.engine.objects import write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.refs.garbage import Retention
from simulator.blocks import MortalStore, Objects, RememberedRanges, SharedObjects, storage_ports
from simulator.schedule import Rows, empty_world, rows_of

PATHS = ("a", "b", "c", "d")
LIFE_SECONDS = limits.import_seconds_max
RULE = Retention(default_days=1, unreachable_days=3)


@dataclass
class CollectStage:
    """A repository with some past.  `history`: its commits, oldest first; `metaranges`: their
    metaranges."""

    rows: Rows
    objects: Objects
    files: RememberedRanges
    repo: Repository
    history: tuple[str, ...]
    metaranges: tuple[str, ...]
    uses: dict[str, frozenset[str]] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)

    def commit(self, id: str, stored: bytes) -> Commit:
        """A commit; its row never changes."""
        known = self.commits.get(id)
        if known is None:
            known = self.commits[id] = wire.decode_commit(stored)
        return known

    def content_of(self, metarange: str) -> frozenset[str]:
        """The files of a metarange: itself, its ranges, the objects."""
        known = self.uses.get(metarange)
        if known is None:
            names: set[str] = set()
            if metarange:
                found = self.files.read_metarange(self.repo.namespace, MetarangeId(metarange))
                names.add(FILES + metarange)
                for ref in found.ranges:
                    names.add(FILES + ref.id)
                    for chunk in self.files.open_range(self.repo.namespace, ref.id).chunks():
                        for _, value in chunk.records():
                            names.add(used_name(self.repo, wire.decode_entry(value)))
            known = self.uses[metarange] = frozenset(names)
        return known


def build_collect_stage() -> CollectStage:
    """Build the state: one branch with four commits, one with one more, and one commit to which no
    ref leads."""
    files = RememberedRanges()
    world = empty_world()
    shared = SharedObjects(world, {})
    ports = storage_ports(world, shared, files, lambda: None, LIFE_SECONDS)
    breaks = BreakParameters(raggedness=2, salt=b"collect")
    new = repository.NewRepository("lake", "mem://b/lake", breaks=breaks)
    repo = repository.create(ports, new)
    retention.set_rule(open_repository(ports, repo), RULE)
    made: list[tuple[str, str]] = []

    def save(branch: str, *paths: str) -> None:
        for path in paths:
            body = f"{path} {len(made)}".encode()
            write.upload(open_repository(ports, repo), branch, path, write.Upload([body]))
        done = commit.commit(
            open_repository(ports, repo), branch, commit.CommitRequest("past", "sim")
        )
        made.append((done.id, done.commit.metarange))

    save("main", *PATHS)
    branches.create_branch(open_repository(ports, repo), "side", "main")
    save("main", "a")
    save("main", "b")
    save("side", "c")
    branches.create_branch(open_repository(ports, repo), "lost", "side")
    save("lost", "d", "a")
    branches.delete_branch(open_repository(ports, repo), "lost")
    save("main", "b", "c")
    for branch, path in (("main", "d"), ("side", "a")):
        write.upload(open_repository(ports, repo), branch, path, write.Upload([b"staged"]))
        made.append((made[-1][0], _died(ports, shared, repo, branch)))
    # records the unreachable commit; all files are young
    collect.collect(open_repository(ports, repo), delete=True)
    return CollectStage(
        rows=rows_of(world),
        objects={name: _content(shared, name) for name in shared.names(repo.namespace)},
        files=files,
        repo=repo,
        history=tuple(id for id, _ in made),
        metaranges=tuple(metarange for _, metarange in made),
    )


class _Dead(MortalStore):
    """A store that refuses every batch."""

    def set_many(self, writes: object) -> None:
        raise Unavailable("the committer has ended")


def _died(ports: Any, shared: SharedObjects, repo: Repository, branch: str) -> str:
    """Let a committer die before it writes its commit, and return the metarange that it left.  The
    next commit will write the same files."""
    before = set(shared.names(repo.namespace))
    dead = replace(ports, kv=_Dead(shared.world, lambda: None))
    try:
        commit.commit(open_repository(dead, repo), branch, commit.CommitRequest("died", "sim"))
    except Unavailable:
        left = [name for name in shared.names(repo.namespace) if name not in before]
        return next(name for name in left if _content(shared, name) == b"metarange")[-64:]
    raise AssertionError("the committer lives")


def _content(shared: SharedObjects, address: str) -> bytes:
    return b"".join(shared.get(address).chunks)
