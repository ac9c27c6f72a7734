"""External principals: two records that agree, also when requests go wrong and others interfere."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest

from graveler.auth import directory, entities, principals
from graveler.auth.entities import USERS, Keeper
from graveler.core import limits, wire
from graveler.core.errors import AlreadyExists, Corrupt, Invalid, NotFound, OutcomeUnknown
from graveler.core.records import ABSENT
from graveler.kv.store import Place, Row
from tests.auth.bench import Lake, Verb, broken
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import InterposedStore, Script

ROLE = "arn:aws:sts::123456789012:assumed-role/engineers"
OTHER = "arn:aws:iam::123456789012:user/bob"


def holder(lake: Lake, id: str = ROLE) -> str:
    """The user for whom a principal stands; empty if there is none."""
    with suppress(NotFound):
        return principals.get(lake.kv, id).user.id
    return ""


def listed(lake: Lake, user: str) -> list[str]:
    record = entities.get(lake.kv, USERS, user)
    return [each.principal.id for each in principals.of_user(lake.kv, record, "", "", 1_000)]


def check(lake: Lake) -> None:
    """What a user lists and what finds the user are the same."""
    for user in entities.listed(lake.kv, USERS, "", "", 100):
        assert {id for id in (ROLE, OTHER) if holder(lake, id) == user.id} == set(
            listed(lake, user.id)
        )


def test_a_principal_stands_for_one_user() -> None:
    lake = Lake()
    keeper = lake.keeper()
    principals.create(keeper, "ann", ROLE, [{"note": "first"}])
    assert principals.get(lake.kv, ROLE).settings == ({"note": "first"},)
    for user in ("ann", "bob"):
        with pytest.raises(AlreadyExists):
            principals.create(keeper, user, ROLE)
    assert holder(lake) == "ann" and listed(lake, "ann") == [ROLE] and listed(lake, "bob") == []
    assert not entities.get(lake.kv, USERS, "bob").principals
    with pytest.raises(NotFound):
        principals.create(keeper, "nobody", OTHER)
    for user in ("bob", "nobody"):
        with pytest.raises(NotFound):
            principals.delete(keeper, user, ROLE)
    principals.delete(keeper, "ann", ROLE)
    assert not holder(lake) and listed(lake, "ann") == []
    principals.create(keeper, "bob", ROLE)
    assert holder(lake) == "bob"


def test_a_role_is_known_by_the_name_of_its_sessions() -> None:
    for id in ("role/engineers", "role/of/a/path/engineers"):
        assert principals.normal(f"arn:aws:iam::123456789012:{id}") == ROLE
    cn = "arn:aws-cn:iam::123456789012:role/x"
    assert principals.normal(cn) == "arn:aws-cn:sts::123456789012:assumed-role/x"
    for id in (ROLE, ROLE + "/session", OTHER, "arn:aws:iam::1:role/x", "anything"):
        assert principals.normal(id) == id
    lake = Lake()
    principals.create(lake.keeper(), "ann", "arn:aws:iam::123456789012:role/path/engineers")
    assert holder(lake, "arn:aws:iam::123456789012:role/engineers") == "ann"
    assert listed(lake, "ann") == [ROLE]


@pytest.mark.parametrize("id", ["", "x" * 513, "a b", "a\n", "rôle", "a\0"])
def test_an_id_is_printable_and_has_a_greatest_length(id: str) -> None:
    lake = Lake()
    for verb in (
        lambda: principals.create(lake.keeper(), "ann", id),
        lambda: principals.delete(lake.keeper(), "ann", id),
        lambda: principals.get(lake.kv, id),
    ):
        with pytest.raises(Invalid, match="principal id invalid"):
            verb()


def test_numbers_and_settings_have_limits() -> None:
    lake = Lake()
    keeper = lake.keeper()
    with pytest.raises(Invalid, match="settings invalid"):
        principals.create(keeper, "ann", ROLE, [{"a": "x" * 4_096}])
    for number in range(limits.user_principals_count_max):
        principals.create(keeper, "ann", f"p{number:03}")
    with pytest.raises(Invalid, match="too many principals"):
        principals.create(keeper, "ann", ROLE)
    user = entities.get(lake.kv, USERS, "ann")
    shown = principals.of_user(lake.kv, user, "p0", "p097", 1)
    assert [each.principal.id for each in shown] == ["p098"]
    assert principals.of_user(lake.kv, user, "q", "", 5) == []


def test_a_user_that_is_created_again_has_no_principal_of_the_old_one() -> None:
    lake = Lake()
    keeper = lake.keeper()
    principals.create(keeper, "ann", ROLE)
    row = lake.kv.get(principals.PARTITION, ROLE.encode())
    assert row is not ABSENT
    directory.delete_user(keeper, "ann")
    assert lake.kv.get(principals.PARTITION, ROLE.encode()) is ABSENT
    lake.kv.set(principals.PARTITION, ROLE.encode(), row.value, lake.ids.stamp())  # comes late
    directory.create_user(keeper, "ann")
    assert not holder(lake) and listed(lake, "ann") == []
    principals.create(keeper, "bob", ROLE)  # what is left is in nobody's way
    assert holder(lake) == "bob"


def test_the_deletion_of_a_user_leaves_the_principal_of_another() -> None:
    lake, script = Lake(), Script()
    keeper = lake.keeper()
    principals.create(keeper, "ann", ROLE)
    principals.create(keeper, "ann", OTHER)
    script.before("delete", lambda: principals.create(keeper, "bob", ROLE))
    directory.delete_user(lake.keeper(InterposedStore(lake.kv, script)), "ann")
    assert holder(lake) == "bob" and not holder(lake, OTHER)


@pytest.mark.parametrize("verb", ["get", "set_if"])
@pytest.mark.parametrize("number", [1, 2])
def test_of_two_users_one_has_it(verb: str, number: int) -> None:
    for moment in ("before", "after"):
        lake, script = Lake(), Script()

        def other(lake: Lake = lake) -> None:
            with suppress(AlreadyExists):
                principals.create(lake.keeper(), "bob", ROLE)

        getattr(script, moment)(verb, other, number)
        with suppress(AlreadyExists):
            principals.create(lake.keeper(InterposedStore(lake.kv, script)), "ann", ROLE)
        assert holder(lake) in ("ann", "bob")
        check(lake)
        assert sum(len(entities.get(lake.kv, USERS, u).principals) for u in ("ann", "bob")) == 1


def test_a_principal_of_a_user_that_goes_meanwhile_stands_for_nobody() -> None:
    lake, script = Lake(), Script()
    keeper = lake.keeper()
    principals.create(keeper, "bob", ROLE)
    script.before("set_if", lambda: directory.delete_user(keeper, "ann"), 1)
    with pytest.raises(NotFound):
        principals.create(lake.keeper(InterposedStore(lake.kv, script)), "ann", ROLE)
    assert holder(lake) == "bob"


def test_a_removal_leaves_what_a_new_user_of_that_name_has() -> None:
    lake, script = Lake(), Script()
    keeper = lake.keeper()
    principals.create(keeper, "ann", ROLE)

    def again() -> None:
        directory.delete_user(keeper, "ann")
        directory.create_user(keeper, "ann")
        principals.create(keeper, "ann", ROLE)

    script.after("get_many", again)
    principals.delete(lake.keeper(InterposedStore(lake.kv, script)), "ann", ROLE)
    assert holder(lake) == "ann"


class _OneByOne(InterposedStore):
    """Reads of several rows are no snapshot."""

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        rows = {place: self.get(*place) for place in places}
        return {place: row for place, row in rows.items() if row is not ABSENT}


def test_a_removal_leaves_the_row_of_a_principal_that_was_made_between_its_reads() -> None:
    lake, script = Lake(), Script()
    keeper = lake.keeper()
    principals.create(keeper, "ann", ROLE)

    def again() -> None:
        principals.delete(keeper, "ann", ROLE)
        principals.create(keeper, "ann", ROLE)

    script.after("get", again)
    principals.delete(lake.keeper(_OneByOne(lake.kv, script)), "ann", ROLE)
    assert holder(lake) == "ann"


def test_a_principal_that_has_ended_does_not_come_back_by_a_retry() -> None:
    """Its first write has no answer; meanwhile it is used and ended by others."""
    lake, script, epochs = Lake(), Script(), list[str]()
    keeper = lake.keeper()

    def end() -> None:
        principals.create(keeper, "ann", ROLE)
        epochs.append(principals.get(lake.kv, ROLE).principal.epoch)
        principals.delete(keeper, "ann", ROLE)
        raise OutcomeUnknown("no answer")

    script.after("set_if", end)
    with pytest.raises(OutcomeUnknown):
        principals.create(lake.keeper(InterposedStore(lake.kv, script)), "ann", ROLE)
    assert script.finished and epochs and not holder(lake)
    principals.create(keeper, "ann", ROLE)
    assert principals.get(lake.kv, ROLE).principal.epoch not in epochs


def test_a_principal_whose_first_write_comes_late_is_valid() -> None:
    """The first write has no answer and is not seen at once; it lands before the second one."""
    lake, script = Lake(), Script()
    store = FaultyStore(lake.kv, nth({2: Fault.LATE}))
    script.before("set_if", store.land, 2)
    principals.create(lake.keeper(InterposedStore(store, script)), "ann", ROLE)
    assert script.finished and holder(lake) == "ann"
    check(lake)


def test_a_deletion_that_may_have_ended_the_principal_is_not_refused() -> None:
    """Its swap has no answer, and another deletion of the user goes on from there."""
    lake, script = Lake(), Script()
    keeper = lake.keeper()
    principals.create(keeper, "ann", ROLE)

    def end() -> None:
        assert not holder(lake)
        directory.delete_user(keeper, "ann")
        raise OutcomeUnknown("no answer")

    script.after("set_if", end)
    with pytest.raises(OutcomeUnknown):
        directory.delete_user(lake.keeper(InterposedStore(lake.kv, script)), "ann")
    assert script.finished
    with pytest.raises(NotFound):
        directory.delete_user(keeper, "ann")


def test_a_damaged_row_is_reported() -> None:
    lake = Lake()
    for pairs in ({"user": "ann"}, {"user": "ann", "uid": "", "epoch": "", "created_ns": "x"}):
        raw = wire.encode_pairs({**pairs, "settings": "[]"})
        lake.kv.set(principals.PARTITION, ROLE.encode(), raw, lake.ids.stamp())
        with pytest.raises(Corrupt):
            principals.get(lake.kv, ROLE)


def with_principal(lake: Lake) -> None:
    principals.create(lake.keeper(), "ann", ROLE)


def refused(keeper: Keeper) -> None:
    with suppress(AlreadyExists):
        principals.create(keeper, "bob", ROLE)


VERBS: dict[str, tuple[Verb, int]] = {
    "create": (lambda k: principals.create(k, "ann", OTHER), 4),
    "create of another's": (refused, 6),
    "get": (lambda k: principals.get(k.kv, ROLE), 2),
    "list": (lambda k: principals.of_user(k.kv, entities.get(k.kv, USERS, "ann"), "", "", 9), 2),
    "delete": (lambda k: principals.delete(k, "ann", ROLE), 4),
    "delete user": (lambda k: directory.delete_user(k, "ann"), 9),
}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_costs_what_it_states(name: str) -> None:
    verb, requests = VERBS[name]
    lake = Lake()
    with_principal(lake)
    assert lake.requests(verb) == requests


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_whose_request_goes_wrong_is_whole_after_a_retry(name: str) -> None:
    verb, _ = VERBS[name]
    wanted = Lake()
    with_principal(wanted)
    verb(wanted.keeper())
    expected = holder(wanted), holder(wanted, OTHER)
    for lake in broken(verb, with_principal):
        check(lake)
        with suppress(AlreadyExists, NotFound):
            verb(lake.keeper())
        assert (holder(lake), holder(lake, OTHER)) == expected
        lake.land()
        assert (holder(lake), holder(lake, OTHER)) == expected
        check(lake)
