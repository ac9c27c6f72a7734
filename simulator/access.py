"""Simulated access control: users, groups and policies change while their rights are used.

    V1  what was taken away is not granted: in the process that took it at once, and in another
        once its view is `limits.access_seconds_max` old
    V2  what is granted for certain is not refused, within the same times
    V3  a fresh look at the records grants nothing that was taken away before it
    V4  the indexes lack no link of a record
    V5  after calls that did not overlap, without a fault, the indexes have no row too many, no
        record has a link that leads nowhere, and no key of a user who is gone is stored

Every process has its own authenticator; two clients share one.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from graveler.auth import accounts, credentials, directory, entities
from graveler.auth.access import effective
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.auth.directory import MEMBER, OF_GROUP, OF_USER
from graveler.auth.entities import GROUPS, POLICIES, USERS, Keeper
from graveler.auth.permissions import Permission
from graveler.auth.throttling import Rates
from graveler.core import limits
from graveler.core.errors import AlreadyExists, NotFound, Refused, Unauthenticated
from graveler.core.requests import RetryPolicy
from graveler.kv.retry import retrying_store
from graveler.kv.store import Store
from simulator.families import Family, profile_of, program
from simulator.ports import SimulatedClock, SimulatedIds, SimulatedStore
from simulator.schedule import (
    NEVER,
    Actor,
    Breach,
    Call,
    Choices,
    Rows,
    SeededChoices,
    World,
    empty_world,
    faithful,
    rows_of,
)
from tests.support.clockwork import SeededIds, TickingClock

ANN, TEAM = "ann", "team"
NAMES: Final = ("p", "q")  # of policies
WRITE: Final = Permission("fs:WriteObject", "arn:lakefs:fs:::repository/lake/object/a")
FAMILY: Final = Family(
    {
        "use": 8,
        "look": 2,
        "attach": 2,
        "detach": 2,
        "join": 2,
        "leave": 1.5,
        "grant": 1.5,
        "revoke": 1.5,
        "forbid": 0.5,
        "permit": 0.5,
        "end_key": 0.3,
        "drop_user": 0.4,
        "make_user": 0.4,
        "drop_group": 0.6,
        "make_group": 0.6,
        "drop_policy": 1.2,
        "make_policy": 1.2,
    },
    keys=NAMES,
)
PROCESSES: Final = 2
_LOOKS_ON: Final = 0.8
SECRET: Final = bytes(range(32))
BOUND_NS: Final = limits.access_seconds_max * limits.SECOND_NS
_POLICY: Final = RetryPolicy(attempts=3, deadline_seconds=10.0, backoff_seconds=0.001)
_ANY_NUMBER: Final = Rates(10**9, 10**9)  # of failed logins
# What a caller's right rests on: the verbs that may begin it, and those that end it; what is made
# again has nothing.  A verb whose name ends in `*` counts whatever policy it names.
_BEGINS: Final = {"attached": "attach", "member": "join", "granted": "grant", "allows": "permit"}
_ENDS: Final = {
    "attached": ("detach", "drop_policy", "make_policy", "drop_user*", "make_user*"),
    "member": ("leave*", "drop_group*", "make_group*", "drop_user*", "make_user*"),
    "granted": ("revoke", "drop_policy", "make_policy", "drop_group*", "make_group*"),
    "allows": ("forbid", "drop_policy"),
    "known": ("drop_user*", "make_user*", "end_key*"),
}
_AT_FIRST: Final = {("attached", "p"), ("member", "*"), ("allows", "p"), ("allows", "q"),
                    ("known", "*")}  # fmt: skip


def statement(effect: str) -> list[Any]:
    """The one statement of a policy."""
    return [{"effect": effect, "action": ["fs:*"], "resource": "*"}]


class Ground(NamedTuple):
    """The rows before a run, and the key of ann."""

    rows: Rows
    given: NewCredential


@cache
def ground() -> Ground:
    """ann is in `team`, and has the policy `p` attached.  `q` is attached to nobody."""
    world = empty_world()
    keeper = accounts.keeper(SimulatedStore(world), TickingClock(), SeededIds(3), SECRET)
    directory.create_user(keeper, ANN)
    directory.create_group(keeper, TEAM)
    for name in NAMES:
        directory.create_policy(keeper, name, statement("allow"))
    directory.add(keeper, OF_USER, ANN, "p")
    directory.add(keeper, MEMBER, ANN, TEAM)
    given, _ = credentials.create(keeper, ANN)
    return Ground(rows_of(world), given)


class Process(NamedTuple):
    """What the calls of some clients share."""

    keeper: Keeper
    auth: Authenticator


class Moment(NamedTuple):
    """When a call began and ended, on the steady clock."""

    call: Call
    process: int
    start_ns: int
    end_ns: int


class AccessRun:
    """One run; `wrong` lists the violations."""

    def __init__(
        self,
        choices: Choices,
        step_ns: int,
        *,
        retrying: bool,
        breach: Breach = faithful,
        at_first: Ground | None = None,
    ) -> None:
        self.ground = at_first or ground()
        self.world = World(self.ground.rows, choices, breach)
        self.world.step_ns = step_ns
        self.wrong: list[str] = []
        self.moments: list[Moment] = []
        self._processes = [self.process(retrying=retrying) for _ in range(PROCESSES)]

    def process(self, *, retrying: bool = False) -> Process:
        """One more process over the world."""
        clock = self.world.port("clock", SimulatedClock(self.world, 0))
        store: Store = self.world.port("kv", SimulatedStore(self.world))
        if retrying:
            store = retrying_store(store, clock, _POLICY)
        keeper = accounts.keeper(
            store, clock, self.world.port("ids", SimulatedIds(self.world)), SECRET
        )
        return Process(keeper, Authenticator(keeper, rates=_ANY_NUMBER))

    def now_ns(self) -> int:
        return self.world.step * self.world.step_ns + self.world.jumped_ns

    def play(self, clients: Sequence[Sequence[Call]]) -> None:
        """Run all clients."""
        self.world.play(clients, self._perform)

    def _perform(self, actor: Actor, call: Call) -> Any:
        number = call.client % PROCESSES
        place, start_ns = len(self.moments), self.now_ns()
        self.moments.append(Moment(call, number, start_ns, NEVER * limits.SECOND_NS))
        answer = self.made(self._processes[number], call)
        self.moments[place] = Moment(call, number, start_ns, self.now_ns())
        return answer

    def made(self, process: Process, call: Call) -> object:
        """The answer of a call."""
        if call.verb in READS:
            return READS[call.verb](process, self.ground.given)
        try:
            return CHANGES[call.verb](process.keeper, str(call.arguments[0]))
        finally:
            process.auth.access.forget(ANN if call.verb == "end_key" else "")


# ---- verbs ---------------------------------------------------------------------------------------


def _use(process: Process, given: NewCredential) -> bool:
    """Whether a request of ann to write is let in."""
    pair = f"{given.access_key_id}:{given.secret_access_key}".encode()
    with suppress(Refused, Unauthenticated, NotFound):
        caller = process.auth.identify(b"Basic " + base64.b64encode(pair), "")
        process.auth.authorize(caller, (WRITE,))
        return True
    return False


def _look(process: Process, _given: NewCredential) -> bool:
    """Whether any policy of ann counts, as the records say now."""
    with suppress(NotFound):
        return bool(effective(process.keeper.kv, entities.get(process.keeper.kv, USERS, ANN)))
    return False


READS: Final[dict[str, Callable[[Process, NewCredential], bool]]] = {"use": _use, "look": _look}
CHANGES: Final[dict[str, Callable[[Keeper, str], object]]] = {
    "attach": lambda keeper, name: directory.add(keeper, OF_USER, ANN, name),
    "detach": lambda keeper, name: directory.remove(keeper, OF_USER, ANN, name),
    "join": lambda keeper, _name: directory.add(keeper, MEMBER, ANN, TEAM),
    "leave": lambda keeper, _name: directory.remove(keeper, MEMBER, ANN, TEAM),
    "grant": lambda keeper, name: directory.add(keeper, OF_GROUP, TEAM, name),
    "revoke": lambda keeper, name: directory.remove(keeper, OF_GROUP, TEAM, name),
    "forbid": lambda keeper, name: directory.update_policy(keeper, name, statement("deny")),
    "permit": lambda keeper, name: directory.update_policy(keeper, name, statement("allow")),
    "end_key": lambda keeper, _name: credentials.delete(keeper, ANN, ground().given.access_key_id),
    "drop_user": lambda keeper, _name: directory.delete_user(keeper, ANN),
    "make_user": lambda keeper, _name: directory.create_user(keeper, ANN),
    "drop_group": lambda keeper, _name: directory.delete_group(keeper, TEAM),
    "make_group": lambda keeper, _name: directory.create_group(keeper, TEAM),
    "drop_policy": lambda keeper, name: directory.delete_policy(keeper, name),
    "make_policy": lambda keeper, name: directory.create_policy(keeper, name, statement("allow")),
}
_DEFINITE: Final = (NotFound, AlreadyExists)  # nothing was changed


# ---- judging -------------------------------------------------------------------------------------


class Judge:
    """What was certain when a call was made."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self.changes = [each for each in moments if each.call.verb in CHANGES]

    def surely_off(self, fact: str, name: str, read: Moment) -> bool:
        """Whether the fact ended for certain before `read`, and nothing could begin it again."""
        begins = [each for each in self.changes if self._begins(each, fact, name)]
        if (fact, name) not in _AT_FIRST and not [c for c in begins if _before(c, read)]:
            return True
        return any(
            _in_force(end, read) and not [c for c in begins if may_follow(c, end, read)]
            for end in self.changes
            if self._ends(end, fact, name)
        )

    def surely_on(self, fact: str, name: str, read: Moment) -> bool:
        """Whether the fact began for certain before `read`, and nothing could end it."""
        ends = [each for each in self.changes if self._ends(each, fact, name)]
        if (fact, name) in _AT_FIRST and not [end for end in ends if _before(end, read)]:
            return True
        return any(
            _in_force(begin, read) and not [end for end in ends if may_follow(end, begin, read)]
            for begin in self.changes
            if self._begins(begin, fact, name)
        )

    def _begins(self, each: Moment, fact: str, name: str) -> bool:
        verbs = [_BEGINS.get(fact, "")]
        if fact == "allows":
            verbs.append("make_policy")
        return each.call.verb in verbs and name in ("*", each.call.arguments[0])

    def _ends(self, each: Moment, fact: str, name: str) -> bool:
        verb = each.call.verb
        return f"{verb}*" in _ENDS[fact] or (verb in _ENDS[fact] and each.call.arguments[0] == name)

    def cannot(self, read: Moment) -> bool:
        """Whether ann can have no right for certain."""
        if read.call.verb == "use" and self.surely_off("known", "*", read):
            return True
        return all(self._leads_nowhere(name, read) for name in NAMES)

    def _leads_nowhere(self, name: str, read: Moment) -> bool:
        if read.call.verb == "use" and self.surely_off("allows", name, read):
            return True
        by_group = self.surely_off("member", "*", read) or self.surely_off("granted", name, read)
        return by_group and self.surely_off("attached", name, read)

    def must(self, read: Moment) -> bool:
        """Whether ann has the right for certain."""
        if not self.surely_on("known", "*", read):
            return False
        if any(each.call.verb == "forbid" for each in self.changes):
            return False  # a deny wins
        return any(
            self.surely_on("allows", name, read)
            and (
                self.surely_on("attached", name, read)
                or (
                    self.surely_on("member", "*", read)
                    and self.surely_on("granted", name, read)
                )
            )
            for name in NAMES
        )  # fmt: skip


def _before(change: Moment, read: Moment) -> bool:
    """Whether the change may have had an effect before the end of `read`."""
    return change.start_ns <= read.end_ns


def _in_force(change: Moment, read: Moment) -> bool:
    """Whether the change was acknowledged, and the process of `read` must know it."""
    wait_ns = 0 if change.process == read.process or read.call.verb == "look" else BOUND_NS
    return change.call.acknowledged and change.end_ns + wait_ns < read.start_ns


def may_follow(change: Moment, other: Moment, read: Moment) -> bool:
    """Whether a change may have had an effect after `other` did, and before the end of `read`."""
    if not _before(change, read):
        return False
    if isinstance(change.call.error, _DEFINITE):
        return False
    return not (change.call.acknowledged and change.end_ns < other.start_ns)


def judge(run: AccessRun) -> None:
    """Add violations to `run.wrong`.  The run has ended."""
    judged = Judge(run.moments)
    for each in run.moments:
        call = each.call
        if call.verb in CHANGES or not call.acknowledged:
            continue
        if call.answer and judged.cannot(each):
            rule = "V1" if call.verb == "use" else "V3"
            run.wrong.append(f"{rule} {call.verb} was granted what was taken away: {call.start}")
        if call.verb == "use" and not call.answer and judged.must(each):
            run.wrong.append(f"V2 a use was refused what was granted: {call.start}")
    run.wrong += list(indexes_of(run, exact=not run.world.faults and is_calm(judged.changes)))


def is_calm(changes: Sequence[Moment]) -> bool:
    """Whether changes did not overlap, and each was made or was not, for certain."""
    ordered = sorted(changes, key=lambda each: each.start_ns)
    whole = all(
        each.call.acknowledged or isinstance(each.call.error, _DEFINITE) for each in ordered
    )
    return whole and all(one.end_ns < two.start_ns for one, two in pairwise(ordered))


def indexes_of(run: AccessRun, *, exact: bool) -> Iterator[str]:
    """What is wrong with the indexes, as the records say.  `exact`: nothing may be too many."""
    kv: Any = SimulatedStore(run.world)
    linked: set[tuple[bytes, bytes]] = set()
    dangling: list[object] = []
    users: list[Any] = list(entities.listed(kv, USERS, "", "", 100))
    groups: list[Any] = list(entities.listed(kv, GROUPS, "", "", 100))
    policies: list[Any] = list(entities.listed(kv, POLICIES, "", "", 100))
    for relation, holders, targets in (
        (MEMBER, users, groups),
        (OF_USER, users, policies),
        (OF_GROUP, groups, policies),
    ):
        known = {(target.id, target.uid): target for target in targets}
        for holder in holders:
            for link in relation.links(holder):
                target = known.get((link.id, link.uid))
                if target is not None:
                    linked.add(relation.place(target, holder.id))
                else:
                    dangling.append(link)
    found = {
        (partition, key)
        for partition, rows in run.world.rows.items()
        for key in rows
        if partition.startswith((b"auth/members/", b"auth/holders/"))
    }
    if linked - found:
        yield f"V4 the indexes lack {sorted(linked - found)}"
    if exact and found - linked:
        yield f"V5 the indexes have more: {sorted(found - linked)}"
    if exact and dangling:
        yield f"V5 links lead nowhere: {dangling}"
    keys = {key.id.encode() for user in users for key in user.keys}
    if exact and set(run.world.rows.get(credentials.PARTITION, ())) - keys:
        yield "V5 a key of nobody is stored"


R = TypeVar("R", bound=AccessRun)


def check_access(profile: str, seed: int, breach: Breach = faithful) -> AccessRun:
    """Run and judge one seed."""
    random = Random(f"access/{profile}/{seed}")
    clients = program(FAMILY, random)
    for calls in clients[1::2]:  # the second process looks on most of the time
        for call in calls:
            call.verb = "use" if random.random() < _LOOKS_ON else call.verb
    run = played(AccessRun, clients, random, profile, seed, breach)
    judge(run)
    return run


def played(
    kind: Callable[..., R],
    clients: Sequence[Sequence[Call]],
    random: Random,
    profile: str,
    seed: int,
    breach: Breach,
) -> R:
    """A run of all clients.  The seed says how long a step is, and whether calls are retried."""
    step_ns = 50_000_000 if seed % 3 else 700_000_000
    choices = SeededChoices(random, profile_of(profile, seed))
    run = kind(choices, step_ns, retrying=seed % 2 == 0, breach=breach)
    run.play(clients)
    return run
