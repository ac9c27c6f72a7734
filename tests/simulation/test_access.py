"""Access control, logins and first logins under random schedules, kills and faults."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from graveler.auth import accounts, credentials, entities, principals
from graveler.auth.authenticator import Authenticator
from graveler.auth.entities import USERS, Keeper
from graveler.core.errors import AlreadyExists, NotFound, Unauthenticated
from simulator.access import AccessRun, check_access
from simulator.logins import check_first_logins, check_logins
from tests.auth.bench import Lake
from tests.auth.test_accounts import basic
from tests.auth.test_directory import VERBS
from tests.simulation.failing import Killed, Kind, Port, Turn

CALLS_MAX = 40
PROFILES = ("clean", "crash", "amb", "delay", "all")
SEEDS_PER_PROFILE = 100
KILLS = (Kind.KILLED, Kind.KILLED_AFTER)
ROLE = "arn:aws:sts::123456789012:assumed-role/etl"


def _end_a_key(keeper: Keeper) -> None:
    (key,) = entities.get(keeper.kv, USERS, "ann").keys
    credentials.delete(keeper, "ann", key.id)


CHANGES: dict[str, Callable[[Keeper], object]] = {
    **{name: verb for name, (verb, _requests) in VERBS.items()},
    "end key": _end_a_key,
    "let a role stand for a user": lambda k: principals.create(k, "bob", ROLE),
    "end a role": lambda k: principals.delete(k, "ann", ROLE),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("check", "seeds"),
    [
        (check_access, SEEDS_PER_PROFILE),
        (check_logins, SEEDS_PER_PROFILE),
        (check_first_logins, 4 * SEEDS_PER_PROFILE),
    ],
    ids=["access", "logins", "first logins"],
)
def test_no_rule_is_broken(
    check: Callable[[str, int], AccessRun], seeds: int, profile: str
) -> None:
    """Nobody has a right that was taken away; a subject has one user with its newest groups."""
    for seed in range(seeds):
        wrong = check(profile, seed).wrong
        assert not wrong, f"{profile} {seed}: {wrong}"


def test_a_seed_of_first_logins_that_once_failed() -> None:
    """A user was made without an answer and deleted, and the retry made it again."""
    assert not check_first_logins("all", 1520000004084).wrong


def test_the_seeds_reach_what_matters() -> None:
    """Sessions let in, and are refused after their principal has ended; first logins of two
    processes overlap, and users are deleted."""
    rides = [
        moment.call.answer.is_in
        for seed in range(SEEDS_PER_PROFILE)
        for moment in check_logins("clean", seed).moments
        if moment.call.verb == "ride" and moment.call.acknowledged and moment.call.answer.place >= 0
    ]
    assert min(rides.count(True), rides.count(False)) > 20
    moments = [check_first_logins("clean", seed).moments for seed in range(100)]
    together = [
        any(one.process != two.process and two.start_ns < one.end_ns for one, two in pairwise(run))
        for run in moments
    ]
    drops = [any(each.call.verb == "drop" for each in run) for run in moments]
    assert together.count(True) > 50 and drops.count(True) > 10


def _lake(name: str) -> Lake:
    lake = Lake()
    if name == "end key":
        credentials.create(lake.keeper(), "ann")
    if name == "end a role":
        principals.create(lake.keeper(), "ann", ROLE)
    return lake


def _shown(lake: Lake) -> Any:
    """What the records say, without what is fresh with each creation."""
    users = list(entities.listed(lake.kv, USERS, "", "", 100))
    roles = {user.id: len(principals.of_user(lake.kv, user, "", "", 10)) for user in users}
    return lake.policies, {user.id: len(user.keys) for user in users}, roles


@pytest.mark.parametrize("kind", KILLS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("name", CHANGES)
def test_a_process_is_killed_at_each_request(name: str, kind: Kind) -> None:
    """Nobody gains a right by it; the index lacks no member; somebody else can end it."""
    change = CHANGES[name]
    before, wanted = _lake(name), _lake(name)
    change(wanted.keeper())
    for number in range(1, CALLS_MAX):
        lake, turn = _lake(name), Turn(number, kind)
        with suppress(Killed):
            kv: Any = Port(lake.kv, turn)
            change(lake.keeper(kv))
        if not turn.reached:
            return
        lake.check_index()
        for user, policies in lake.policies.items():
            known = before.policies.get(user, []) + wanted.policies.get(user, [])
            assert set(policies) <= set(known), (number, user)
        if name != "create key" or _shown(lake) == _shown(before):  # again: one more key
            with suppress(AlreadyExists, NotFound, ValueError):
                change(lake.keeper())
        assert _shown(lake) == _shown(wanted), number
        lake.check_index()
    pytest.fail(f"more than {CALLS_MAX} requests")


@pytest.mark.parametrize("kind", KILLS, ids=lambda kind: kind.value)
def test_a_set_up_that_is_killed_is_ended_by_the_first_use(kind: Kind) -> None:
    given = credentials.NewCredential("AKIAEXAMPLE", "a secret of some length: 32 and more")
    for number in range(1, CALLS_MAX):
        lake, turn = Lake(), Turn(number, kind)
        with suppress(Killed):
            kv: Any = Port(lake.kv, turn)
            accounts.create(lake.keeper(kv), "root", "", given)
        if not turn.reached:
            return
        account = accounts.find(lake.kv)
        if number > 1 or kind is Kind.KILLED_AFTER:
            assert isinstance(account, accounts.Account)
            accounts.settle(lake.keeper(), account)
            assert accounts.accepts(lake.keeper(), given)
            assert "AuthFullAccess" in lake.policies["root"]
    pytest.fail(f"more than {CALLS_MAX} requests")


@pytest.mark.parametrize("kind", KILLS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("name", ["rotation", "logout", "login"])
def test_a_kill_ends_no_key_and_no_session_of_another(name: str, kind: Kind) -> None:
    """While keys are rotated, and while one session ends or begins."""
    for number in range(1, CALLS_MAX):
        lake, turn = Lake(), Turn(number, kind)
        given, _ = credentials.create(lake.keeper(), "ann")
        pair = given.access_key_id, given.secret_access_key
        auth = Authenticator(lake.keeper())
        kept, ended = auth.login(*pair).token, auth.login(*pair).token
        kv: Any = Port(lake.kv, turn)
        doomed = Authenticator(lake.keeper(kv))
        done = False
        with suppress(Killed):
            if name == "rotation":
                credentials.rotate(doomed.keeper)
            elif name == "logout":
                doomed.log_out(ended)
            else:
                doomed.login(*pair)
            done = True
        fresh = Authenticator(lake.keeper())
        assert fresh.identify(basic(given), "").user == "ann"
        assert fresh.identify(b"", kept).user == "ann"
        if name == "rotation":
            credentials.rotate(lake.keeper())
        if name == "logout" and done:
            with pytest.raises(Unauthenticated):
                fresh.identify(b"", ended)
        last = Authenticator(lake.keeper())
        assert last.identify(b"", kept).user == "ann"
        assert last.identify(basic(given), "").user == "ann"
        if not turn.reached:
            assert done
            return
    pytest.fail(f"more than {CALLS_MAX} requests")
