"""What a process knows about callers: how old it is, what it costs, and what it decides."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from graveler.auth import accounts, credentials, directory, entities, policies
from graveler.auth.access import Access, Caller, effective
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.auth.directory import MEMBER, OF_GROUP, OF_USER
from graveler.auth.entities import GROUPS, POLICIES, USERS
from graveler.auth.permissions import Permission
from graveler.auth.policies import ADMINS
from graveler.core import limits
from graveler.core.errors import NotFound, OutcomeUnknown, Refused, Unauthenticated, Unavailable
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Place, Row
from tests.auth.bench import FAULTS, READS, Lake, Verb
from tests.auth.test_accounts import GIVEN, basic
from tests.engine.overridden import Overridden
from tests.support.faults import Fault, FaultyStore, nth

LAKE = "arn:lakefs:fs:::repository/lake"
READ, WRITE = Permission("fs:ReadObject", LAKE + "/object/a"), Permission("fs:WriteObject", LAKE)
OTHER = NewCredential("AKIAOTHER", "another secret of some length: 32 and more")


class Process:
    """A process over a lake, whose requests are counted."""

    def __init__(self, lake: Lake) -> None:
        self.counts = Counts()
        self.auth = Authenticator(lake.keeper(counted_store(lake.kv, self.counts)))

    def caller(self, given: NewCredential) -> Caller:
        return self.auth.identify(basic(given), "", lambda: "10.0.0.1")

    def accepts(self, given: NewCredential) -> bool:
        with suppress(Unauthenticated):
            self.caller(given)
            return True
        return False

    def may(self, given: NewCredential, permission: Permission) -> bool:
        with suppress(Refused):
            self.auth.authorize(self.caller(given), (permission,))
            return True
        return False


def test_rights_cost_three_requests_then_none_and_one_when_they_are_old() -> None:
    lake, counts = Lake(), Counts()
    access = Access(counted_store(lake.kv, counts), lake.clock)
    for requests, seconds in ((3, 0), (3, 0), (4, limits.access_seconds_max), (4, 0)):
        lake.clock.sleep(seconds)
        view = access.view("ann")
        assert view.user is not ABSENT and view.rights.allow(READ, "")
        assert counts.total() == requests
    access.forget()
    access.view("ann")
    assert counts.total() == 7


def test_a_refresh_without_a_change_keeps_the_rights_as_they_are() -> None:
    lake = Lake()
    access = Access(lake.kv, lake.clock)
    first = access.view("ann").rights
    lake.clock.sleep(limits.access_seconds_max)
    assert access.view("ann").rights is first
    directory.update_policy(lake.keeper(), "own", READS * 2)
    lake.clock.sleep(limits.access_seconds_max)
    assert len(access.view("ann").rights.statements) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda k: directory.remove(k, MEMBER, "ann", "team"),
        lambda k: directory.remove(k, OF_GROUP, "team", "reads"),
        lambda k: directory.delete_group(k, "team"),
        lambda k: directory.delete_policy(k, "reads"),
        lambda k: directory.update_policy(
            k, "reads", [{"effect": "deny", "action": ["fs:*"], "resource": "*"}]
        ),
        lambda k: directory.delete_user(k, "ann"),
        lambda k: directory.disable_user(k, "ann", "admin"),
    ],
)
def test_a_change_elsewhere_takes_effect_within_seconds_and_here_at_once(change: object) -> None:
    lake = Lake()
    directory.remove(lake.keeper(), OF_USER, "ann", "own")
    key, _ = credentials.create(lake.keeper(), "ann")
    here, there = Process(lake), Process(lake)
    assert here.may(key, READ) and there.may(key, READ)
    change(lake.keeper())  # type: ignore[operator]
    here.auth.access.forget()

    def may(process: Process) -> bool:
        with suppress(Unauthenticated):
            return process.may(key, READ)
        return False

    assert not may(here) and may(there)
    lake.clock.sleep(limits.access_seconds_max)
    assert not may(there)
    assert limits.access_seconds_max < 5


def test_a_user_may_have_several_keys_and_each_ends_alone() -> None:
    lake = Lake()
    process = Process(lake)
    one, _ = credentials.create(lake.keeper(), "ann")
    two, _ = credentials.create(lake.keeper(), "ann")
    assert process.accepts(one) and process.accepts(two)
    session = process.auth.login(one.access_key_id, one.secret_access_key).token
    assert process.auth.identify(b"", session).user == "ann"
    credentials.delete(lake.keeper(), "ann", one.access_key_id)
    process.auth.access.forget()
    assert not process.accepts(one) and process.accepts(two)
    with pytest.raises(Unauthenticated):
        process.auth.identify(b"", session)


def test_an_unknown_key_and_a_wrong_secret_cost_the_same_requests() -> None:
    lake = Lake()
    accounts.create(lake.keeper(), "root", "", GIVEN)
    known, _ = credentials.create(lake.keeper(), "ann")
    wrong = NewCredential(known.access_key_id, OTHER.secret_access_key)
    costs = {}
    for given in (wrong, OTHER):
        process, spent = Process(lake), []
        for _ in range(3):
            before = process.counts.total()
            assert not process.accepts(given)
            spent.append(process.counts.total() - before)
            lake.clock.sleep(10)
        costs[given] = spent
    assert costs[wrong] == costs[OTHER] == [2, 2, 2]


def test_a_session_that_has_ended_costs_other_users_nothing() -> None:
    lake = Lake()
    process = Process(lake)
    dead, _ = credentials.create(lake.keeper(), "ann")
    other, _ = credentials.create(lake.keeper(), "bob")
    session = process.auth.login(dead.access_key_id, dead.secret_access_key).token
    assert process.accepts(other)
    credentials.delete(lake.keeper(), "ann", dead.access_key_id)
    process.auth.access.forget("ann")
    costs = []
    for _ in range(10):
        before = process.counts.total()
        with pytest.raises(Unauthenticated):
            process.auth.identify(b"", session)
        costs.append(process.counts.total() - before)
        before = process.counts.total()
        assert process.accepts(other)
        assert process.counts.total() == before
    # Each time whether the session was ended; the user and the administrator at first.
    assert costs[1:] == [1] * 9 and costs[0] <= 8
    fresh, _ = credentials.create(lake.keeper(), "ann")
    assert not process.accepts(fresh)
    lake.clock.sleep(1)
    assert process.accepts(fresh)


def test_renewals_are_remembered_for_a_bounded_number_of_users() -> None:
    lake, counts = Lake(), Counts()
    access = Access(counted_store(lake.kv, counts), lake.clock)
    for number in range(2_049):
        access.renew(f"user {number}")
    access.view("ann")
    before = counts.total()
    access.renew("user 0")  # was forgotten, so this discards a view: that of nobody else
    access.view("ann")
    assert counts.total() == before


def test_a_view_that_was_read_before_a_change_is_not_kept() -> None:
    lake = Lake()

    def get_many(places: Sequence[Place]) -> Mapping[Place, Row]:
        """On the first read, the user changes."""
        found = lake.kv.get_many(places)
        if changes:
            changes.pop()()
        return found

    def change() -> None:
        credentials.create(lake.keeper(), "ann")
        access.forget("ann")

    changes = [change]
    access = Access(Overridden(lake.kv, get_many=get_many), lake.clock)
    stale, fresh = access.view("ann"), access.view("ann")
    assert stale.user is not ABSENT and fresh.user is not ABSENT
    assert not stale.user.keys and len(fresh.user.keys) == 1


def test_a_key_made_elsewhere_is_accepted_at_once() -> None:
    lake = Lake()
    process = Process(lake)
    first, _ = credentials.create(lake.keeper(), "ann")
    assert process.accepts(first)
    second, _ = credentials.create(lake.keeper(), "ann")
    assert process.accepts(second)


def test_a_request_with_a_known_header_costs_no_request() -> None:
    lake = Lake()
    key, _ = credentials.create(lake.keeper(), "ann")
    process = Process(lake)
    assert process.may(key, READ)
    assert process.counts.total() == 4  # the key, and three for the rights
    for _ in range(10):
        assert process.may(key, READ) and not process.may(key, WRITE)
    assert process.counts.total() == 4


def test_a_session_costs_two_requests_beside_its_rights_and_later_one() -> None:
    lake = Lake()
    key, _ = credentials.create(lake.keeper(), "ann")
    issued = Authenticator(lake.keeper()).login(key.access_key_id, key.secret_access_key)
    process, bearer = Process(lake), b"Bearer " + issued.token.encode()

    def cost() -> int:
        before = process.counts.total()
        process.auth.identify(bearer, "")
        return process.counts.total() - before

    assert cost() == 2 + 3  # the keys, and whether it has ended; the rights
    assert [cost() for _ in range(10)] == [0] * 10
    lake.clock.sleep(2)
    assert cost() == 1  # whether it has ended


def test_a_denied_caller_learns_what_is_missing_but_not_what_it_may_not_see() -> None:
    lake = Lake()
    key, _ = credentials.create(lake.keeper(), "ann")
    stranger, _ = credentials.create(lake.keeper(), "bob")
    process = Process(lake)
    with pytest.raises(Refused, match="permission missing: fs:WriteObject on " + LAKE):
        process.auth.authorize(process.caller(key), (READ, WRITE), "lake")
    with pytest.raises(NotFound, match="repository not found"):
        process.auth.authorize(process.caller(stranger), (READ,), "lake")
    with pytest.raises(Refused):
        process.auth.authorize(process.caller(stranger), (Permission("auth:ListUsers", "*"),))
    process.auth.authorize(process.caller(stranger), ())


def test_the_address_of_the_caller_counts_for_conditions() -> None:
    lake = Lake()
    inside = {"IpAddress": {"SourceIp": ["10.0.0.0/8"]}}
    directory.update_policy(lake.keeper(), "own", [{**READS[0], "condition": inside}])
    directory.remove(lake.keeper(), MEMBER, "ann", "team")
    key, _ = credentials.create(lake.keeper(), "ann")
    auth = Process(lake).auth
    for address, allowed in (("10.0.0.1", True), ("11.0.0.1", False), ("", False)):
        caller = auth.identify(basic(key), "", lambda address=address: address)  # type: ignore[misc]
        assert bool(caller.lacks((READ,))) is not allowed


# ---- the administrator ---------------------------------------------------------------------------


def old_store() -> Lake:
    """A store whose set-up broke off: the administrator's row is all there is."""
    lake = Lake()
    lake.kv = MemoryStore()
    store = FaultyStore(lake.kv, lambda number, _: Fault.NONE if number == 1 else Fault.REFUSED)
    with pytest.raises(OutcomeUnknown):
        accounts.create(lake.keeper(store), "root", "r@x", GIVEN)
    return lake


def check_settled(lake: Lake, key_id: str) -> None:
    user = entities.get(lake.kv, USERS, "root")
    assert [group.id for group in directory.targets(lake.kv, MEMBER, user)] == [ADMINS]
    assert [each.id for each in directory.members(lake.kv, ADMINS, "", "", 10)] == ["root"]
    names = {policy.id for policy in effective(lake.kv, user)}
    assert names == set(policies.GROUPS[ADMINS])
    assert [key.id for key in user.keys] == [key_id]
    groups = [group.id for group in entities.listed(lake.kv, GROUPS, "", "", 50)]
    ids = [policy.id for policy in entities.listed(lake.kv, POLICIES, "", "", 50)]
    assert (groups, ids) == (sorted(policies.GROUPS), sorted(policies.POLICIES))
    account = accounts.find(lake.kv)
    assert account is not ABSENT and account.settled


def test_an_administrator_whose_set_up_broke_off_becomes_a_user_at_its_first_request() -> None:
    lake = old_store()
    process = Process(lake)
    assert process.may(GIVEN, Permission("auth:CreateUser", "arn:lakefs:auth:::user/x"))
    assert process.caller(GIVEN).email == "r@x"
    check_settled(lake, GIVEN.access_key_id)


def test_settling_goes_on_wherever_it_was_broken_off() -> None:
    lake, counts = old_store(), Counts()
    account = accounts.find(lake.kv)
    assert account is not ABSENT
    accounts.settle(lake.keeper(counted_store(lake.kv, counts)), account)
    for number in range(1, counts.total() + 1):
        for fault in FAULTS:
            lake = old_store()
            store = FaultyStore(lake.kv, nth({number: fault}))
            with suppress(Unavailable, OutcomeUnknown):
                accounts.settle(lake.keeper(store), account)
            assert Process(lake).accepts(GIVEN)
            assert Process(lake).auth.account() is not ABSENT  # which settles it at the latest
            check_settled(lake, GIVEN.access_key_id)
            store.land()
            assert Process(lake).accepts(GIVEN)
            check_settled(lake, GIVEN.access_key_id)


def test_settling_costs_what_it_states() -> None:
    lake = old_store()
    account = accounts.find(lake.kv)
    assert account is not ABSENT
    assert lake.requests(lambda keeper: accounts.settle(keeper, account)) == 33
    assert lake.requests(lambda keeper: accounts.settle(keeper, account)) == 2  # by another
    settled = accounts.find(lake.kv)
    assert settled is not ABSENT
    assert lake.requests(lambda keeper: accounts.settle(keeper, settled)) == 0


def test_a_reset_gives_a_locked_out_administrator_its_rights_back() -> None:
    lake = old_store()
    process = Process(lake)
    assert process.accepts(GIVEN)
    extra, _ = credentials.create(lake.keeper(), "root")
    directory.delete_group(lake.keeper(), ADMINS)
    directory.delete_policy(lake.keeper(), "AuthFullAccess")
    directory.delete_user(lake.keeper(), "root")
    accounts.reset(lake.keeper(), OTHER)
    check_settled(lake, OTHER.access_key_id)
    process = Process(lake)
    assert process.accepts(OTHER) and not process.accepts(GIVEN) and not process.accepts(extra)


def test_who_has_the_name_of_a_deleted_administrator_is_not_made_one_by_a_late_settling() -> None:
    lake = old_store()
    account = accounts.find(lake.kv)
    assert account is not ABSENT
    accounts.settle(lake.keeper(), account)
    directory.delete_user(lake.keeper(), "root")
    directory.create_user(lake.keeper(), "root")
    accounts.settle(lake.keeper(), account)  # late: as if another process had begun it long ago
    user = entities.get(lake.kv, USERS, "root")
    assert not user.keys and not user.groups and not user.policies
    assert not Process(lake).accepts(GIVEN)
    directory.delete_user(lake.keeper(), "root")
    accounts.settle(lake.keeper(), account)
    assert USERS.read("root", lake.kv.get(*USERS.place("root"))) is ABSENT


DENY: list[Any] = [{"effect": "deny", "action": ["*"], "resource": "*"}]


@pytest.mark.parametrize(
    "lock",
    [
        lambda k: directory.add(k, OF_USER, "root", "locks"),
        lambda k: directory.add(k, OF_GROUP, ADMINS, "locks"),
        lambda k: directory.add(k, OF_GROUP, "SuperUsers", "locks"),
        lambda k: directory.update_policy(k, "AuthFullAccess", DENY),
    ],
)
def test_a_reset_leaves_no_deny_wherever_it_was_attached(lock: Verb) -> None:
    lake = old_store()
    process = Process(lake)
    assert process.accepts(GIVEN)
    keeper = lake.keeper()
    directory.create_policy(keeper, "locks", DENY)
    directory.add(keeper, MEMBER, "root", "SuperUsers")
    lock(keeper)
    create = Permission("auth:CreateUser", "arn:lakefs:auth:::user/x")
    process.auth.access.forget()
    assert not process.may(GIVEN, create)
    accounts.reset(keeper, OTHER)
    assert Process(lake).may(OTHER, create)
    user, group = entities.get(lake.kv, USERS, "root"), entities.get(lake.kv, GROUPS, ADMINS)
    assert [link.id for link in user.groups] == [ADMINS] and not user.policies
    assert [link.id for link in group.policies] == sorted(policies.GROUPS[ADMINS])
    directory.delete_policy(keeper, "locks")  # rows of the index that are too many do no harm
    assert directory.targets(lake.kv, MEMBER, user) == [group]


def test_a_deleted_administrator_is_not_brought_back_by_a_late_settling() -> None:
    lake = old_store()
    account = accounts.find(lake.kv)
    assert account is not ABSENT
    accounts.settle(lake.keeper(), account)
    fresh, _ = credentials.create(lake.keeper(), "root")
    credentials.delete(lake.keeper(), "root", GIVEN.access_key_id)
    accounts.settle(lake.keeper(), account)  # by a process that read the row before
    process = Process(lake)
    assert process.accepts(fresh) and not process.accepts(GIVEN)
    directory.delete_user(lake.keeper(), "root")
    accounts.settle(lake.keeper(), account)
    with pytest.raises(NotFound):
        entities.get(lake.kv, USERS, "root")


def test_the_administrator_is_asked_for_a_key_that_is_valid() -> None:
    lake = old_store()
    keeper = lake.keeper()
    assert accounts.accepts(keeper, GIVEN) and not accounts.accepts(keeper, OTHER)
    assert Process(lake).accepts(GIVEN)
    assert accounts.accepts(keeper, GIVEN) and not accounts.accepts(keeper, OTHER)
    credentials.delete(keeper, "root", GIVEN.access_key_id)
    assert not accounts.accepts(keeper, GIVEN)
    assert not accounts.accepts(lake.keeper(MemoryStore()), GIVEN)
