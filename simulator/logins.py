"""Simulated logins by an external principal: it is ended and made again while its sessions write.

    W1  a principal that was ended lets nobody in: a login at once, and a session that it began at
        once in the process that ended it, in another one once its view is
        `limits.access_seconds_max` old; a principal of the same name later changes nothing of it
    W2  a principal that stands for ann for certain lets in, and so does its session
    W3  after calls that did not overlap, without a fault, every row of a principal is of a user
        that lists it, and every listed principal has its row

Users, keys and processes are those of access.py.  For tests only.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from graveler.auth import accounts, directory, entities, principals, proofs, sessions
from graveler.auth.directory import OF_USER
from graveler.auth.entities import USERS, Keeper
from graveler.errors import AlreadyExists, NotFound, Refused, Unauthenticated
from graveler.kv.memory import MemoryStore
from simulator.access import (
    ANN,
    BOUND_NS,
    SECRET,
    AccessRun,
    Ground,
    Moment,
    Process,
    is_calm,
    played,
    statement,
)
from simulator.access import ground as of_access
from simulator.families import Family, program
from simulator.ports import SimulatedStore
from simulator.schedule import Call, SeededChoices
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
    kv = MemoryStore()
    keeper = accounts.keeper(kv, TickingClock(), SeededIds(5), SECRET)
    directory.create_user(keeper, ANN)
    directory.create_policy(keeper, "p", statement("allow"))
    directory.add(keeper, OF_USER, ANN, "p")
    principals.create(keeper, ANN, ROLE)
    keeper.sessions.current(sessions.LIFE_SECONDS)  # the key that signs exists
    rows = {name: dict(held.rows) for name, held in kv._partitions.items()}
    return Ground(rows, of_access().given)


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

    def __init__(self, choices: SeededChoices, step_ns: int, *, retrying: bool) -> None:
        super().__init__(choices, step_ns, retrying=retrying, at_first=ground())
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
        run.wrong += list(_rows(run))


def _of_login(changes: Sequence[Moment], read: Moment) -> Iterator[str]:
    ends = [each for each in changes if each.call.verb in _ENDS]
    binds = [each for each in changes if each.call.verb == "bind"]
    is_off = any(
        _acknowledged(end)
        and end.end_ns < read.start_ns
        and not [bind for bind in binds if _may_follow(bind, end, read)]
        for end in ends
    )
    if read.call.answer and is_off:
        yield f"W1 a login by a principal that was ended: {read.call.start}"
    is_on = not [end for end in ends if _may_act(end, read)] or any(
        _acknowledged(bind)
        and bind.end_ns < read.start_ns
        and not [end for end in ends if _may_follow(end, bind, read)]
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
    if not [end for end in ends if _may_follow(end, began, read)]:
        yield f"W2 a session of a principal that stands for a user was refused: {read.call.start}"


def _acknowledged(change: Moment) -> bool:
    return change.call.acknowledged


def _may_act(change: Moment, read: Moment) -> bool:
    """Whether a change may have had an effect before the end of `read`."""
    return change.start_ns <= read.end_ns and not isinstance(change.call.error, _DEFINITE)


def _may_follow(change: Moment, other: Moment, read: Moment) -> bool:
    """Whether a change may have had an effect after `other` began, and before the end of `read`."""
    is_before = change.call.acknowledged and change.end_ns < other.start_ns
    return _may_act(change, read) and not is_before


def _rows(run: LoginRun) -> Iterator[str]:
    """What rows and lists of principals contradict each other."""
    kv: Any = SimulatedStore(run.world)
    users = list(entities.listed(kv, USERS, "", "", 100))
    listed = {place for user in users for place in principals.places(user)}
    stored = {(principals.PARTITION, key) for key in run.world.rows.get(principals.PARTITION, ())}
    if listed != stored:
        yield f"W3 listed {sorted(listed)}, stored {sorted(stored)}"


def check_logins(profile: str, seed: int) -> LoginRun:
    """Run and judge one seed."""
    random = Random(f"logins/{profile}/{seed}")
    clients = program(FAMILY, random)
    run = played(LoginRun, clients, random, profile, seed)
    judge(run)
    return run
