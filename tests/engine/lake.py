"""A repository in a few words, for tests of single verbs.

`Lake` calls the verbs through its ports; `another_process` is the same store seen with caches of
its own, `interposed` one whose requests follow a script.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from graveler import assembly
from graveler.assembly.drivers import thread_turns
from graveler.block.adapter import CREATE, Update
from graveler.core.records import (
    Absent,
    Branch,
    BreakParameters,
    CommitEntry,
    Entry,
    Repository,
    Strategy,
)
from graveler.engine import names
from graveler.engine.commits import commit, diff, merge
from graveler.engine.objects import read, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.kv.store import Store
from graveler.refs.cache import RefCache
from tests.engine.short_pages import ShortLists, ShortScans
from tests.support.interposer import InterposedStore, Script

COMMITTER = "tester"


@dataclass(frozen=True)
class Lake:
    """One repository behind some ports."""

    ports: Ports
    repo: Repository

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    # --- the same store, seen otherwise ---

    def with_kv(self, wrap: Callable[[Store], Store]) -> "Lake":
        """Through another key-value port, with caches and turns of its own."""
        cache, turns = RefCache(self.ports.clock), thread_turns()
        ports = replace(self.ports, kv=wrap(self.ports.kv), cache=cache, turns=turns)
        return Lake(ports, self.repo)

    def another_process(self) -> "Lake":
        """With caches and turns of its own."""
        return self.with_kv(lambda kv: kv)

    def interposed(self) -> tuple["Lake", Script]:
        """With a script between verbs and store."""
        script = Script()
        return self.with_kv(lambda kv: InterposedStore(kv, script)), script

    def with_short_scans(self, rows_max: int) -> "Lake":
        """With a key-value store whose pages have at most so many rows."""
        kv: Any = ShortScans(self.ports.kv, rows_max)
        return Lake(replace(self.ports, kv=kv), self.repo)

    def with_short_lists(self, lines_max: int) -> "Lake":
        """With object storage whose pages have at most so many lines."""
        blocks: Any = ShortLists(self.ports.blocks, lines_max)
        return Lake(replace(self.ports, blocks=blocks), self.repo)

    def with_settings(self, **changes: float) -> "Lake":
        """With other settings of the engine."""
        settings = self.ports.settings._replace(**changes)  # type: ignore[arg-type]
        return Lake(replace(self.ports, settings=settings), self.repo)

    # --- verbs ---

    def put(self, path: str, identity: str, branch: str = "main") -> None:
        entry = Entry(f"data/{identity}/{path}", len(identity), identity, 1)
        write.stage(self.opened, branch, path, entry)

    def put_if_absent(self, path: str, identity: str, branch: str = "main") -> None:
        """Each call names an address of its own, as the verb demands."""
        address = f"data/{self.ports.ids.unique(20)}"
        entry = Entry(address, len(identity), identity, 1)
        write.stage(self.opened, branch, path, entry, CREATE)

    def put_over(self, path: str, identity: str, before: str, branch: str = "main") -> None:
        """Only while the path has the identity `before`."""
        address = f"data/{self.ports.ids.unique(20)}"
        entry = Entry(address, len(identity), identity, 1)
        write.stage(self.opened, branch, path, entry, Update(before))

    def delete(self, path: str, branch: str = "main") -> None:
        write.delete(self.opened, branch, path)

    def commit(
        self,
        message: str = "m",
        branch: str = "main",
        committer: str = COMMITTER,
        **more: Any,
    ) -> CommitEntry:
        request = commit.CommitRequest(message, committer, **more)
        return commit.commit(self.opened, branch, request)

    def commit_of(self, branch: str = "main", **identities: str) -> str:
        """Stage what is given (empty: a deletion) and commit it."""
        for path, identity in identities.items():
            if identity:
                self.put(path, identity, branch)
            else:
                self.delete(path, branch)
        return self.commit(f"{identities}", branch).id

    def branch(self, name: str, source: str = "main") -> None:
        names.create_branch(self.opened, name, source)

    def merge(
        self, source: str, dest: str = "main", strategy: Strategy = "", **more: object
    ) -> str:
        request = merge.MergeRequest(COMMITTER, "merge", strategy=strategy, **more)  # type: ignore[arg-type]
        return merge.merge(self.opened, source, dest, request)

    # --- looks ---

    def tree(self, ref: str = "main") -> dict[str, str]:
        """path -> identity"""
        query = read.ListQuery(amount=1_000)
        page = read.list_objects(self.opened, ref, query)
        assert not page.more
        return {path: entry.checksum for path, entry in page.lines if not isinstance(entry, Absent)}

    def head(self, branch: str = "main") -> str:
        return names.get_branch(self.opened, branch).branch.commit

    def record(self, branch: str = "main") -> Branch:
        return names.get_branch(self.opened, branch).branch

    def conflicts(self, source: str, dest: str = "main", amount: int = 1_000) -> list[str]:
        query = diff.DiffQuery(amount=amount)
        page = merge.conflicts(self.opened, source, dest, query)
        return [line.path for line in page.lines]

    def uncommitted(self, branch: str = "main") -> list[tuple[str, str]]:
        page = diff.diff_branch(self.opened, branch, diff.DiffQuery())
        return [(line.kind, line.path) for line in page.lines]


def new_lake(shards: int = 1, raggedness: int = 3) -> Lake:
    """A fresh repository in memory; few records to a range."""
    ports = assembly.open_memory()
    new = repository.NewRepository(
        "lake",
        "mem://bucket/lake",
        breaks=BreakParameters(raggedness=raggedness, salt=b"lake"),
        staging_shards=shards,
    )
    return Lake(ports, repository.create(ports, new))
