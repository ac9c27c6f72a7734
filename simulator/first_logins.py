"""Simulated first logins by tokens of an identity provider, in two processes at once.

    X1  all first logins of a subject end with one user and one principal, unless the user is
        deleted; a user that is made again has nothing of the old one
    X2  a subject whose name nobody else has is not refused
    X3  the groups of the user are those of one token, and of none that is older than a token that
        was accepted
    X4  the indexes lack no membership of a record, and after calls that did not overlap, without a
        fault, have no row too many, and rows and lists of principals agree

Processes, schedules and faults are those of access.py.  For tests only.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from graveler.auth import accounts, directory, entities, principals
from graveler.auth.authenticator import user_of
from graveler.auth.entities import USERS, User
from graveler.auth.oidc import Claims
from graveler.errors import Refused
from graveler.kv.memory import MemoryStore
from graveler.records import ABSENT
from simulator.access import (
    SECRET,
    AccessRun,
    Ground,
    Moment,
    Process,
    indexes_of,
    is_calm,
)
from simulator.access import ground as of_access
from simulator.families import Family, profile_of, program
from simulator.ports import SimulatedStore
from simulator.schedule import Call, SeededChoices
from tests.support.clockwork import SeededIds, TickingClock

CARL, SUBJECT = "carl", "oidc:https://login.example.com#s-1"
GROUPS: Final = {"red": ("red",), "blue": ("blue",), "both": ("blue", "red"), "none": ()}
FAMILY: Final = Family({"bear": 8, "drop": 0.5}, keys=tuple(GROUPS), clients=(2, 4))
_PRIME: Final = 101  # more than a run has calls: each token has a time of its own


class Login(NamedTuple):
    """Who a token was for."""

    uid: str
    epoch: str


@cache
def ground() -> Ground:
    """There are two groups, and no user."""
    kv = MemoryStore()
    keeper = accounts.keeper(kv, TickingClock(), SeededIds(7), SECRET)
    for name in ("red", "blue"):
        directory.create_group(keeper, name)
    rows = {name: dict(held.rows) for name, held in kv._partitions.items()}
    return Ground(rows, of_access().given)


def claims_of(call: Call) -> Claims:
    """What the token of a call says.  Later calls may bring older tokens."""
    key, value = call.arguments
    issued = 1 + int(value.rpartition("-")[2]) * 37 % _PRIME
    return Claims(SUBJECT, CARL, "", GROUPS[key], issued, issued + 3_600)


class FirstLoginRun(AccessRun):
    """One run; `wrong` lists the violations."""

    def __init__(self, choices: SeededChoices, step_ns: int, *, retrying: bool) -> None:
        super().__init__(choices, step_ns, retrying=retrying, at_first=ground())

    def made(self, process: Process, call: Call) -> object:
        if call.verb == "drop":
            directory.delete_user(process.keeper, CARL)
            return ABSENT
        found = user_of(process.auth, claims_of(call), [])
        return Login(found.user.uid, found.principal.epoch)


def judge(run: FirstLoginRun) -> None:
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
        run.wrong += list(_rows(run))


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


def _rows(run: FirstLoginRun) -> Iterator[str]:
    listed = {place for user in _carl(run) for place in principals.places(user)}
    stored = {(principals.PARTITION, key) for key in run.world.rows.get(principals.PARTITION, ())}
    if listed != stored:
        yield f"X4 listed {sorted(listed)}, stored {sorted(stored)}"


def check_first_logins(profile: str, seed: int) -> FirstLoginRun:
    """Run and judge one seed."""
    random = Random(f"first logins/{profile}/{seed}")
    clients = program(FAMILY, random)
    choices = SeededChoices(random, profile_of(profile, seed))
    run = FirstLoginRun(choices, 50_000_000, retrying=seed % 2 == 0)
    run.play(clients)
    judge(run)
    return run
