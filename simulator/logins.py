"""Simulated logins by an external principal, and first logins by tokens of an identity provider.

    W1  a principal that was ended lets nobody in: a login at once, and a session that it began at
        once in the process that ended it, in another one once its view is
        `limits.access_seconds_max` old; a principal of the same name later changes nothing of it
    W2  a principal that stands for ann for certain lets in, and so does its session
    W3  after calls that did not overlap, without a fault, every row of a principal is of a user
        that lists it, and every listed principal has its row
    X1  all first logins of a subject end with one user and one principal, unless the user is
        deleted; a user that is made again has nothing of the old one
    X2  a subject whose name nobody else has is not refused
    X3  the groups of the user are those of one token, and of none that is older than a token that
        was accepted
    X4  the indexes lack no membership of a record; after calls that did not overlap, without a
        fault, they have no row too many, and rows and lists of principals agree

Users, keys, processes, schedules and faults are those of access.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from graveler.auth import accounts, directory, entities, principals, proofs, sessions
from graveler.auth.authenticator import user_of
from graveler.auth.directory import OF_USER
from graveler.auth.entities import USERS, Keeper, User
from graveler.auth.oidc import Claims
from graveler.core.errors import AlreadyExists, NotFound, Refused, Unauthenticated
from graveler.core.records import ABSENT
from simulator.access import (
    ANN,
    BOUND_NS,
    SECRET,
    AccessRun,
    Ground,
    Moment,
    Process,
    indexes_of,
    is_calm,
    may_follow,
    played,
    statement,
)
from simulator.access import ground as of_access
from simulator.families import Family, profile_of, program
from simulator.ports import SimulatedStore
from simulator.schedule import Breach, Call, SeededChoices, empty_world, faithful, rows_of
from tests.support.clockwork import SeededIds, TickingClock

ROLE: Final = "arn:aws:sts::123456789012:assumed-role/etl"
FAMILY: Final = Family(
    {"enter": 4, "ride": 8, "bind": 3, "unbind": 3, "drop_user": 0.6, "make_user": 1.2},
    keys=("p",),
)
_DEFINITE: Final = (NotFound, AlreadyExists)  # nothing was changed


@cache
def ground() -> Ground:
    """A role stands for ann, who has the policy `p`."""
    world = empty_world()
    keeper = accounts.keeper(SimulatedStore(world), TickingClock(), SeededIds(5), SECRET)
    directory.create_user(keeper, ANN)
    directory.create_policy(keeper, "p", statement("allow"))
    directory.add(keeper, OF_USER, ANN, "p")
    principals.create(keeper, ANN, ROLE)
    keeper.sessions.current(sessions.LIFE_SECONDS)  # the key that signs exists
    return Ground(rows_of(world), of_access().given)


class Ticket(NamedTuple):
    """A session, and the login that began it."""

    token: str
    place: int


class Ride(NamedTuple):
    """Whether a session let in, and the place of its login among the moments; -1: none yet."""

    is_in: bool
    place: int


class LoginRun(AccessRun):
    """One run; `wrong` lists the violations."""

    def __init__(
        self, choices: SeededChoices, step_ns: int, *, retrying: bool, breach: Breach
    ) -> None:
        super().__init__(choices, step_ns, retrying=retrying, breach=breach, at_first=ground())
        self._newest = Ticket("", -1)

    def made(self, process: Process, call: Call) -> object:
        if call.verb == "enter":
            return self._entered(process, call)
        if call.verb == "ride":
            return self._ridden(process)
        try:
            return CHANGES[call.verb](process.keeper)
        finally:
            process.auth.access.forget()

    def _entered(self, process: Process, call: Call) -> bool:
        """Log in with a proof of the role."""
        place = next(at for at, each in enumerate(self.moments) if each.call is call)
        with suppress(Refused):
            issued = proofs.login(
                process.auth,
                "iam",
                lambda _now: proofs.known(process.auth, [ROLE]),
                sessions.LIFE_SECONDS,
                "",
            )
            self._newest = Ticket(issued.token, place)
            return True
        return False

    def _ridden(self, process: Process) -> Ride:
        """Use the newest session of any process."""
        ticket = self._newest
        if ticket.token:
            with suppress(Unauthenticated):
                process.auth.identify(b"", ticket.token)
                return Ride(True, ticket.place)
        return Ride(False, ticket.place)


CHANGES: Final[dict[str, Callable[[Keeper], object]]] = {
    "bind": lambda keeper: principals.create(keeper, ANN, ROLE),
    "unbind": lambda keeper: principals.delete(keeper, ANN, ROLE),
    "drop_user": lambda keeper: directory.delete_user(keeper, ANN),
    "make_user": lambda keeper: directory.create_user(keeper, ANN),
}
_ENDS: Final = ("unbind", "drop_user")


# ---- judging -------------------------------------------------------------------------------------


def judge(run: LoginRun) -> None:
    """Add violations to `run.wrong`.  The run has ended."""
    changes = [each for each in run.moments if each.call.verb in CHANGES]
    for each in run.moments:
        call = each.call
        if not call.acknowledged:
            continue
        if call.verb == "enter":
            run.wrong += list(_of_login(changes, each))
        elif call.verb == "ride" and call.answer.place >= 0:
            began = run.moments[call.answer.place]
            run.wrong += list(_of_session(changes, began, each))
    if not run.world.faults and is_calm(changes):
        run.wrong += list(_rows(run, "W3"))


def _of_login(changes: Sequence[Moment], read: Moment) -> Iterator[str]:
    ends = [each for each in changes if each.call.verb in _ENDS]
    binds = [each for each in changes if each.call.verb == "bind"]
    is_off = any(
        _acknowledged(end)
        and end.end_ns < read.start_ns
        and not [bind for bind in binds if may_follow(bind, end, read)]
        for end in ends
    )
    if read.call.answer and is_off:
        yield f"W1 a login by a principal that was ended: {read.call.start}"
    is_on = not [end for end in ends if _may_act(end, read)] or any(
        _acknowledged(bind)
        and bind.end_ns < read.start_ns
        and not [end for end in ends if may_follow(end, bind, read)]
        for bind in binds
    )
    if not read.call.answer and is_on:
        yield f"W2 a login by a principal that stands for a user was refused: {read.call.start}"


def _of_session(changes: Sequence[Moment], began: Moment, read: Moment) -> Iterator[str]:
    ends = [each for each in changes if each.call.verb in _ENDS]
    for end in ends:
        wait_ns = 0 if end.process == read.process else BOUND_NS
        is_later = _acknowledged(end) and end.start_ns > began.end_ns
        if read.call.answer.is_in and is_later and end.end_ns + wait_ns < read.start_ns:
            yield f"W1 a session of a principal that was ended: {read.call.start}"
    if read.call.answer.is_in or began.end_ns + BOUND_NS >= read.start_ns:
        return  # a view may be older than the principal
    if not [end for end in ends if may_follow(end, began, read)]:
        yield f"W2 a session of a principal that stands for a user was refused: {read.call.start}"


def _acknowledged(change: Moment) -> bool:
    return change.call.acknowledged


def _may_act(change: Moment, read: Moment) -> bool:
    """Whether a change may have had an effect before the end of `read`."""
    return change.start_ns <= read.end_ns and not isinstance(change.call.error, _DEFINITE)


def _rows(run: AccessRun, rule: str) -> Iterator[str]:
    """What rows and lists of principals contradict each other."""
    kv: Any = SimulatedStore(run.world)
    users = list(entities.listed(kv, USERS, "", "", 100))
    listed = {place for user in users for place in principals.places(user)}
    stored = {(principals.PARTITION, key) for key in run.world.rows.get(principals.PARTITION, ())}
    if listed != stored:
        yield f"{rule} listed {sorted(listed)}, stored {sorted(stored)}"


def check_logins(profile: str, seed: int, breach: Breach = faithful) -> LoginRun:
    """Run and judge one seed."""
    random = Random(f"logins/{profile}/{seed}")
    clients = program(FAMILY, random)
    run = played(LoginRun, clients, random, profile, seed, breach)
    judge(run)
    return run


# ---- first logins -------------------------------------------------------------------------------

CARL, SUBJECT = "carl", "oidc:https://login.example.com#s-1"
GROUPS: Final = {"red": ("red",), "blue": ("blue",), "both": ("blue", "red"), "none": ()}
FIRST_FAMILY: Final = Family({"bear": 8, "drop": 0.5}, keys=tuple(GROUPS), clients=(2, 4))
_PRIME: Final = 101  # more than a run has calls: each token has a time of its own


class Login(NamedTuple):
    """Who a token was for."""

    uid: str
    epoch: str


@cache
def first_ground() -> Ground:
    """There are two groups, and no user."""
    world = empty_world()
    keeper = accounts.keeper(SimulatedStore(world), TickingClock(), SeededIds(7), SECRET)
    for name in ("red", "blue"):
        directory.create_group(keeper, name)
    return Ground(rows_of(world), of_access().given)


def claims_of(call: Call) -> Claims:
    """What the token of a call says.  Later calls may bring older tokens."""
    key, value = call.arguments
    issued = 1 + int(value.rpartition("-")[2]) * 37 % _PRIME
    return Claims(SUBJECT, CARL, "", GROUPS[key], issued, issued + 3_600)


class FirstLoginRun(AccessRun):
    """One run; `wrong` lists the violations."""

    def __init__(
        self, choices: SeededChoices, step_ns: int, *, retrying: bool, breach: Breach
    ) -> None:
        super().__init__(
            choices, step_ns, retrying=retrying, breach=breach, at_first=first_ground()
        )

    def made(self, process: Process, call: Call) -> object:
        if call.verb == "drop":
            directory.delete_user(process.keeper, CARL)
            return ABSENT
        found = user_of(process.auth, claims_of(call), [])
        return Login(found.user.uid, found.principal.epoch)


def judge_first(run: FirstLoginRun) -> None:
    """Add violations to `run.wrong`.  The run has ended."""
    bears = [each for each in run.moments if each.call.verb == "bear"]
    drops = [each for each in run.moments if each.call.verb == "drop"]
    accepted = [each for each in bears if each.call.acknowledged]
    if drops:
        run.wrong += list(_made_again(accepted, drops))
    else:
        run.wrong += list(_one_user(run, bears, accepted))
    calm = not run.world.faults and is_calm(run.moments)
    run.wrong += [f"X4 {each}" for each in indexes_of(run, exact=calm)]
    if calm:
        run.wrong += list(_rows(run, "X4"))


def _made_again(accepted: Sequence[Moment], drops: Sequence[Moment]) -> Iterator[str]:
    for drop in drops:
        ended = drop.call.acknowledged
        before = {it.call.answer for it in accepted if ended and it.end_ns < drop.start_ns}
        after = [it.call.answer for it in accepted if ended and it.start_ns > drop.end_ns]
        uids, epochs = {it.uid for it in before}, {it.epoch for it in before}
        if any(it.uid in uids or it.epoch in epochs for it in after):
            yield f"X1 a user was deleted and came back: {drop.call.start}"


def _one_user(
    run: FirstLoginRun, bears: Sequence[Moment], accepted: Sequence[Moment]
) -> Iterator[str]:
    answers = {each.call.answer for each in accepted}
    if len(answers) > 1:
        yield f"X1 one subject has several users or principals: {sorted(answers)}"
    refused = [each for each in bears if isinstance(each.call.error, Refused)]
    if refused:
        yield f"X2 a subject was refused: {refused[0].call.error}"
    user = _carl(run)
    if not accepted:
        return
    if not user or [Login(user[0].uid, each.epoch) for each in user[0].principals] != [*answers]:
        yield f"X1 the record has another user or principal: {user}"
        return
    newest = max(claims_of(each.call).issued for each in accepted)
    names = tuple(link.id for link in user[0].groups)
    tokens = {(claims_of(each.call).issued, claims_of(each.call).groups) for each in bears}
    if user[0].groups_at < newest or (user[0].groups_at, names) not in tokens:
        yield f"X3 the groups of no newest token: {names} at {user[0].groups_at}, {newest=}"


def _carl(run: FirstLoginRun) -> Sequence[User]:
    kv: Any = SimulatedStore(run.world)
    return list(entities.listed(kv, USERS, "", "", 100))


def check_first_logins(profile: str, seed: int, breach: Breach = faithful) -> FirstLoginRun:
    """Run and judge one seed."""
    random = Random(f"first logins/{profile}/{seed}")
    clients = program(FIRST_FAMILY, random)
    choices = SeededChoices(random, profile_of(profile, seed))
    run = FirstLoginRun(choices, 50_000_000, retrying=seed % 2 == 0, breach=breach)
    run.play(clients)
    judge_first(run)
    return run
