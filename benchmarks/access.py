"""A member of a lake with ten policies, for the cost of requests that he may send."""

import base64
from dataclasses import dataclass
from typing import Any

from graveler.auth import accounts, credentials
from graveler.auth.access import Caller
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.auth.directory import MEMBER, OF_GROUP
from graveler.auth.entities import (
    GROUPS,
    POLICIES,
    USERS,
    Entity,
    Group,
    Keeper,
    Link,
    Policy,
    User,
)
from graveler.auth.permissions import Permission
from graveler.core.clock import SystemIds
from graveler.kv.store import Place, Store, Write
from tests.support.clockwork import TickingClock

SECRET = bytes(range(32))
GROUP_POLICIES = 10  # attached to each group; each user is in one group
_BATCH = 1_000
_OBJECT = Permission("fs:ReadObject", "arn:lakefs:fs:::repository/r7/object/a/b/c")


@dataclass(frozen=True)
class Scale:
    """The size of the directory."""

    users: int = 2
    policies: int = GROUP_POLICIES


class Member:
    """A process that has just begun to serve a lake, and a user of it with ten policies."""

    def __init__(self, kv: Store, clock: TickingClock, scale: Scale | None = None) -> None:
        scale = scale or Scale()
        self.clock = clock
        self.keeper = accounts.keeper(kv, clock, SystemIds(), SECRET)
        fill(self.keeper, scale)
        self.key, _ = credentials.create(self.keeper, user_name(scale.users // 2))
        self.auth = Authenticator(self.keeper)

    def authorize(self, key: NewCredential | None = None) -> Caller:
        """The caller of a request with a key, its own or another; it may read an object."""
        caller = self.auth.identify(_basic(key or self.key), "")
        self.auth.authorize(caller, (_OBJECT,), "r7")
        return caller

    def forget_rights(self) -> None:
        """Know the key, but no longer what its user may do."""
        self.authorize()
        self.auth.access.forget()


def user_name(number: int) -> str:
    return f"user{number:06}"


def fill(keeper: Keeper, scale: Scale) -> None:
    """Write users, policies, and a group for each ten policies, with their indexes, in batches."""
    ids, now = keeper.ids, keeper.clock.now_ns()
    policies = [
        Policy(f"policy{n:04}", ids.stamp().hex(), now, _statement(n))
        for n in range(scale.policies)
    ]
    groups = []
    rows: list[tuple[Place, bytes]] = [
        (POLICIES.place(policy.id), POLICIES.encode(policy)) for policy in policies
    ]
    for number in range(0, scale.policies, GROUP_POLICIES):
        attached = policies[number : number + GROUP_POLICIES]
        held = tuple(_link(policy) for policy in attached)
        name = f"group{number // GROUP_POLICIES:04}"
        groups.append(Group(name, ids.stamp().hex(), now, policies=held))
        rows.append((GROUPS.place(name), GROUPS.encode(groups[-1])))
        rows += [(OF_GROUP.place(policy, name), b"\x01") for policy in attached]
    for number in range(scale.users):
        group = groups[number % len(groups)]
        user = User(user_name(number), ids.stamp().hex(), now, groups=(_link(group),))
        rows.append((USERS.place(user.id), USERS.encode(user)))
        rows.append((MEMBER.place(group, user.id), b"\x01"))
    for begin in range(0, len(rows), _BATCH):
        batch = rows[begin : begin + _BATCH]
        keeper.kv.set_many([Write(*place, value, ids.stamp()) for place, value in batch])


def _link(entity: Entity) -> Link:
    return Link(entity.id, entity.uid)


def _statement(number: int) -> list[dict[str, Any]]:
    """Reads of one repository; every tenth policy, so one of each group, of `r7`."""
    repository = "r7" if number % GROUP_POLICIES == GROUP_POLICIES - 1 else f"other{number}"
    resource = f"arn:lakefs:fs:::repository/{repository}/*"
    return [{"effect": "allow", "action": ["fs:Read*", "fs:List*"], "resource": resource}]


def _basic(given: NewCredential) -> bytes:
    pair = f"{given.access_key_id}:{given.secret_access_key}".encode()
    return b"Basic " + base64.b64encode(pair)
