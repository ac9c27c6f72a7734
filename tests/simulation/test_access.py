"""Access control under random schedules, kills and faults, and broken variants of it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from graveler.auth import accounts, credentials, entities, principals
from graveler.auth.authenticator import Authenticator
from graveler.auth.entities import USERS, Keeper
from graveler.errors import AlreadyExists, NotFound, Unauthenticated
from simulator.access import check_access
from tests.auth.bench import Lake
from tests.auth.test_accounts import basic
from tests.auth.test_directory import VERBS
from tests.simulation.access_mutants import ACCESS_MUTANTS, AccessMutant
from tests.simulation.access_rules import PROFILES, check_caught, check_rules
from tests.simulation.failing import Killed, Kind, Port, Turn

CALLS_MAX = 40
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
def test_what_was_taken_away_is_not_granted(profile: str) -> None:
    check_rules(check_access, profile)


@pytest.mark.parametrize("mutant", ACCESS_MUTANTS, ids=[each.name for each in ACCESS_MUTANTS])
def test_broken_access_control_is_caught(mutant: AccessMutant) -> None:
    check_caught(mutant, check_access)


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
