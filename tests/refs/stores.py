"""What the tests of records share: a counted store, a repository, a store that loses answers."""

from typing import Literal

from graveler.core.clock import SystemIds
from graveler.core.errors import OutcomeUnknown
from graveler.core.ids import BranchId, RepositoryId, RepositoryUid, StagingToken
from graveler.core.records import Branch, BranchState, Repository
from graveler.core.requests import Counts, counted_store
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Condition, Outcome
from tests.refs.graphs import id_of

IDS = SystemIds()


class Counted:
    """A fresh store and its requests."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.memory = MemoryStore()
        self.kv = counted_store(self.memory, self.counts)
        self._before = self.counts.total()

    def spent(self) -> int:
        """Requests since the last call."""
        before, self._before = self._before, self.counts.total()
        return self._before - before


class LostAnswers(MemoryStore):
    """Conditional writes land, or not, and no answer comes."""

    def __init__(self, lands: bool) -> None:
        super().__init__()
        self.lands = lands

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        if self.lands:
            super().set_if(partition, key, value, version, condition, order)
        raise OutcomeUnknown("no answer")


class Echo(MemoryStore):
    """The first answer of each conditional write is lost below, and sent again below: the caller
    sees a refusal by its own write."""

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        super().set_if(partition, key, value, version, condition, order)
        return super().set_if(partition, key, value, version, condition, order)


def repository(name: str = "lake", uid: str = "u1") -> Repository:
    return Repository(
        RepositoryId(name), RepositoryUid(uid), f"mem://{name}", BranchId("main"), created_ns=1
    )


def branch(
    rev: int = 1,
    commit: int = 0,
    state: Literal[BranchState.LIVE, BranchState.DELETED] = BranchState.LIVE,
    hidden: bool = False,
) -> Branch:
    return Branch(rev, state, StagingToken(f"token-{rev}.1"), (), id_of(commit), hidden)
