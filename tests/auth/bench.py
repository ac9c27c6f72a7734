"""A lake's users, groups and policies on the memory store, with faults and counted requests."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from graveler.auth import accounts, directory, entities
from graveler.auth.access import effective
from graveler.auth.entities import USERS, Keeper, User
from graveler.core.errors import NotFound, OutcomeUnknown, Unavailable
from graveler.core.requests import Counts, counted_store
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Store
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore, nth

SECRET = bytes(range(32))
FAULTS = (Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE)
READS: list[Any] = [{"effect": "allow", "action": ["fs:Read*"], "resource": "*"}]
Verb = Callable[[Keeper], object]


class Lake:
    """ann and bob; ann is in `team`, which has the policy `reads`; ann has `own` and a key."""

    def __init__(self) -> None:
        self.kv = MemoryStore()
        self.clock = TickingClock()
        self.ids = SeededIds(7)
        self.land: Callable[[], None] = lambda: None
        keeper = self.keeper(self.kv)
        for user in ("ann", "bob"):
            directory.create_user(keeper, user)
        directory.create_group(keeper, "team")
        for policy in ("reads", "own", "spare"):
            directory.create_policy(keeper, policy, READS)
        directory.add(keeper, directory.MEMBER, "ann", "team")
        directory.add(keeper, directory.OF_GROUP, "team", "reads")
        directory.add(keeper, directory.OF_USER, "ann", "own")

    def keeper(self, kv: Store | None = None) -> Keeper:
        return accounts.keeper(kv or self.kv, self.clock, self.ids, SECRET)

    def requests(self, verb: Verb) -> int:
        """How many requests a verb makes."""
        counts = Counts()
        verb(self.keeper(counted_store(self.kv, counts)))
        return counts.total()

    @property
    def policies(self) -> dict[str, list[str]]:
        """The effective policies of each user that exists."""
        return {
            user.id: [policy.id for policy in effective(self.kv, user)]
            for user in entities.listed(self.kv, USERS, "", "", 100)
        }

    @property
    def listed_members(self) -> list[str]:
        try:
            return [user.id for user in directory.members(self.kv, "team", "", "", 100)]
        except NotFound:
            return []

    def check_index(self) -> None:
        """A user of the group, as its record says, is listed; and nobody else."""
        users: list[User] = list(entities.listed(self.kv, USERS, "", "", 100))
        groups = {user.id: [g.id for g in directory.targets(self.kv, directory.MEMBER, user)]
                  for user in users}  # fmt: skip
        assert self.listed_members == sorted(name for name in groups if "team" in groups[name])


def broken(verb: Verb, prepare: Callable[[Lake], None] = lambda lake: None) -> Iterator[Lake]:
    """A fresh lake for every request of `verb` and every fault of it, after the attempt."""
    lake = Lake()
    prepare(lake)
    count = lake.requests(verb)
    assert count > 0
    for number in range(1, count + 1):
        for fault in FAULTS:
            lake = Lake()
            prepare(lake)
            store = FaultyStore(lake.kv, nth({number: fault}))
            with suppress(Unavailable, OutcomeUnknown):
                verb(lake.keeper(store))
            lake.land = store.land
            yield lake
