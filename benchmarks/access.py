"""The cost of access control: decisions, a large directory of users, a member beside the
administrator.

    decisions   of the code itself: time, and requests of the key-value store
    directory   the same verbs in a lake of many users and policies
    members     requests to a running server by a member of ten policies and by the administrator,
                in alternating rounds

Times are medians.  Requests are exact: every call of a line makes the same number, or the
measurement fails.  Each line has the goal that it must hold.  Run: python -m benchmarks.access
"""

import base64
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks import served, single
from benchmarks.load import Target, repeated, run
from graveler.assembly import open_embedded
from graveler.auth import access, accounts, credentials, directory, entities
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
from graveler.core import limits
from graveler.core.clock import SystemIds
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.kv.store import Place, Store, Write
from tests.support.clockwork import TickingClock

SECRET = bytes(range(32))
GROUP_POLICIES = 10  # attached to each group; each user is in one group
PAGE = 100
DECISION_GOAL_US, FRESH_GOAL_REQUESTS = 30.0, 3
_BATCH = 1_000
_OBJECT = Permission("fs:ReadObject", "arn:lakefs:fs:::repository/r7/object/a/b/c")
Line = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """The size of the directory, and how often and how long each line is measured."""

    users: int = 50_000
    policies: int = 1_000
    decisions: int = 20_000
    verbs: int = 300
    seconds: float = 4.0
    rounds: int = 5


FULL = Scale()
QUICK = Scale(users=5_000, policies=200, decisions=5_000, verbs=100, seconds=1.0, rounds=3)


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as folder:
        found = directory_lines(Path(folder) / "lake", scale)
    return [*found, *member_lines(scale)]


# ---- a directory ---------------------------------------------------------------------------------


class Member:
    """A process that has just begun to serve a lake, and a user of it with ten policies."""

    def __init__(self, kv: Store, clock: TickingClock, scale: Scale | None = None) -> None:
        scale = scale or Scale(users=2, policies=GROUP_POLICIES)
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


class Lake(Member):
    """A member in a lake of many users and policies, whose requests are counted."""

    def __init__(self, kv: Store, clock: TickingClock, scale: Scale) -> None:
        self.counts, self.scale = Counts(), scale
        self.kv = counted_store(kv, self.counts)
        super().__init__(self.kv, clock, scale)
        self.administrator = credentials.fresh(self.keeper.ids)
        accounts.create(self.keeper, "admin", "", self.administrator)


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


def directory_lines(folder: Path, scale: Scale) -> list[Line]:
    """Decisions, and verbs over the directory, on an embedded store in `folder`."""
    store = open_embedded(folder)
    try:
        began = time.perf_counter()
        lake = Lake(store.ports.kv, TickingClock(), scale)
        made = time.perf_counter() - began
        size = f"{scale.users:,} users and {scale.policies:,} policies"
        lines = [*_decisions(lake), *_verbs(lake)]
        return [*lines, _line(f"setting up {size}", made, "s")]
    finally:
        store.close()


def _decisions(lake: Lake) -> Iterator[Line]:
    users = cycle([user_name(number * 37 % lake.scale.users) for number in range(1_000)])
    often, verbs = lake.scale.decisions, lake.scale.verbs
    known: dict[str, Any] = {"goal": DECISION_GOAL_US, "requests_goal": 0}
    for who, given in (("administrator", lake.administrator), ("10 policies", lake.key)):
        decide = partial(lake.auth.authorize, lake.authorize(given), (_OBJECT,), "r7")
        whole = partial(lake.authorize, given)
        yield _timed(lake, f"decision, rights known, {who}", decide, often, **known)
        yield _timed(lake, f"key and decision, rights known, {who}", whole, often, **known)

    def fresh() -> None:
        lake.auth.access.forget()
        view = lake.auth.access.view(next(users))
        assert view.user is not ABSENT
        assert not Caller(view.user, view.rights, str).lacks((_OBJECT,))

    def refreshed() -> None:
        # A little more than that age: sums of seconds are not exact.
        lake.clock.sleep(limits.access_seconds_max + 0.001)
        lake.authorize()

    goal = {"requests_goal": FRESH_GOAL_REQUESTS}
    yield _timed(lake, "decision, rights not known, 10 policies", fresh, verbs, **goal)
    lake.authorize()
    old = f"rights {limits.access_seconds_max} s old"
    yield _timed(lake, f"key and decision, {old}, 10 policies", refreshed, verbs, requests_goal=1)


def _verbs(lake: Lake) -> Iterator[Line]:
    users, verbs = lake.scale.users, lake.scale.verbs
    middle = user_name(users // 2)
    groups = lake.scale.policies // GROUP_POLICIES
    group = f"group{groups // 2:04}"
    members = min(PAGE, len(range(groups // 2, users, groups)))
    everybody = f"{users:,} users"

    def page(after: str) -> None:
        found = list(islice(entities.listed(lake.kv, USERS, "user", after, PAGE), PAGE))
        assert len(found) == PAGE

    def of_group() -> None:
        assert len(list(islice(directory.members(lake.kv, group, "", "", PAGE), PAGE))) == members

    def effective() -> None:
        user = entities.get(lake.kv, USERS, middle)
        assert len(access.effective(lake.kv, user)) == GROUP_POLICIES

    named: list[tuple[str, Callable[[], object], int]] = [
        (f"first page of {PAGE} of {everybody}", partial(page, ""), 1),
        (f"page of {PAGE} from the middle of {everybody}", partial(page, middle), 1),
        (f"page of {members} of the members of a group of {users // groups:,}", of_group, 3),
        (f"effective policies of one of {everybody}", effective, 3),
    ]
    for name, call, requests in named:
        yield _timed(lake, name, call, verbs, requests_goal=requests)


def _timed(
    lake: Lake,
    name: str,
    call: Callable[[], object],
    times: int,
    goal: float = 0.0,
    requests_goal: int = 0,
) -> Line:
    """The median time of a call, and the requests that each call makes: always as many."""
    taken, requests = [], set()
    for _ in range(times):
        before = lake.counts.total()
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
        requests.add(lake.counts.total() - before)
    assert len(requests) == 1, f"the number of requests varies: {name=} {requests=}"
    found = requests.pop()
    line = _line(name, statistics.median(taken) * 1e6, "µs")
    line |= {"requests": found, "requests_goal": requests_goal, "held": found <= requests_goal}
    if goal:
        line |= {"goal": goal, "held": line["held"] and line["value"] <= goal}
    return line


# ---- requests to a server ------------------------------------------------------------------------


def member_lines(scale: Scale) -> list[Line]:
    """Look-ups through a running server: a member of ten policies beside the administrator."""
    with tempfile.TemporaryDirectory() as folder, served.serving(Path(folder)) as (target, _pid):
        served.prepare(target)
        member = _member(target)
        who = {"administrator": target, "10 policies": member}
        rates: dict[str, list[float]] = {name: [] for name in who}
        for _ in range(scale.rounds):
            for name, each in who.items():
                request = served.stat(each)
                load = run(each, 8, [repeated(request, scale.seconds)] * 8)
                rates[name].append(served.checked(load).rate)
    shares = [one / all for one, all in zip(*reversed(rates.values()), strict=True)]
    return [
        *[
            _line(f"stat, 8 connections, {name}", statistics.median(found), "requests/s")
            for name, found in rates.items()
        ],
        _line("stat of the member, as a share of the administrator's", statistics.median(shares)),
    ]


def _member(target: Target) -> Target:
    """A user in a group of ten policies, which together allow to read the repository."""
    served.make(target, "POST", "/auth/users", {"id": "member"})
    served.make(target, "POST", "/auth/groups", {"id": "readers"})
    for number in range(GROUP_POLICIES):
        name = f"arn:lakefs:fs:::repository/{served.REPO if number == 9 else f'other{number}'}"
        statement = {"effect": "allow", "action": ["fs:Read*", "fs:List*"]}
        resources = [{**statement, "resource": name + end} for end in ("", "/*")]
        policy = {"id": f"p{number}", "statement": resources}
        served.make(target, "POST", "/auth/policies", policy)
        served.make(target, "PUT", f"/auth/groups/readers/policies/p{number}", {})
    served.make(target, "PUT", "/auth/groups/readers/members/member", {})
    given = served.make(target, "POST", "/auth/users/member/credentials", {})
    return Target(target.host, target.port, given["access_key_id"], given["secret_access_key"])


def _basic(given: NewCredential) -> bytes:
    pair = f"{given.access_key_id}:{given.secret_access_key}".encode()
    return b"Basic " + base64.b64encode(pair)


def _line(name: str, value: float, unit: str = "") -> Line:
    return {"name": name, "value": round(value, 2 if value < 100 else 0), "unit": unit}


# ---- its section of the document -----------------------------------------------------------------

HEADING = "Access control"
ABOUT = (
    "`make bench` writes this section; `make bench ARGS='--only access'` measures only it.\n"
    "Times are medians, and requests are those of the key-value store for each call.\n"
    "Each user of the directory is in one group, and each group has 10 policies.\n"
    "*Key* stands for the identification of the caller by the header of its request."
)


if __name__ == "__main__":
    single.print_lines("access", __doc__, measure, QUICK, FULL)
