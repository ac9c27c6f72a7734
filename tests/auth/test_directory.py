"""Users, groups, policies, their links and their deletions, also when requests go wrong."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import permutations, product
from typing import Any, Literal, cast

import pytest

from graveler.auth import credentials, directory, entities, keyrings
from graveler.auth.directory import MEMBER, OF_GROUP, OF_USER
from graveler.auth.entities import GROUPS, POLICIES, USERS, Keeper, Table
from graveler.core import limits, wire
from graveler.core.errors import AlreadyExists, Corrupt, Invalid, NotFound, OutcomeUnknown
from graveler.core.records import ABSENT, Absent
from graveler.kv.store import Row, Store
from tests.auth.bench import READS, Lake, Verb, broken
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import InterposedStore, Script


def test_the_policies_of_a_user_are_its_own_and_those_of_its_groups() -> None:
    assert Lake().policies == {"ann": ["own", "reads"], "bob": []}


def test_a_name_is_created_once() -> None:
    lake = Lake()
    keeper = lake.keeper()
    for create in (
        lambda: directory.create_user(keeper, "ann"),
        lambda: directory.create_group(keeper, "team"),
        lambda: directory.create_policy(keeper, "own", READS),
    ):
        with pytest.raises(AlreadyExists):
            create()


@pytest.mark.parametrize("id", ["", "a" * 101, "a\nb", " a", "a ", *(f"a{x}" for x in "*?${}:/")])
def test_an_id_never_has_what_a_pattern_or_a_key_could_take_for_its_own(id: str) -> None:
    with pytest.raises(Invalid, match="user id invalid"):
        directory.create_user(Lake().keeper(), id)


def test_texts_have_a_greatest_length() -> None:
    for text in ("x" * 1_001, "a\nb"):
        with pytest.raises(Invalid, match="friendly_name"):
            directory.create_user(Lake().keeper(), "new", "", text)
        with pytest.raises(Invalid, match="description"):
            directory.create_group(Lake().keeper(), "new", text)


def test_a_user_who_is_created_again_has_nothing_of_the_old_one() -> None:
    lake = Lake()
    keeper = lake.keeper()
    given, key = credentials.create(keeper, "ann")
    old = entities.get(lake.kv, USERS, "ann")
    directory.delete_user(keeper, "ann")
    credentials.put(  # as a late duplicate of the creation of the key
        keeper, given.access_key_id,
        credentials.Credential("ann", old.uid, "check", key.epoch, key.created_ns),
    )  # fmt: skip
    new = directory.create_user(keeper, "ann")
    assert new.uid != old.uid and lake.policies["ann"] == [] and not lake.listed_members
    stored = credentials.find(lake.kv, given.access_key_id)
    assert stored is not ABSENT and not credentials.is_of(stored, given.access_key_id, new)


@pytest.mark.parametrize(
    ("delete", "create"),
    [
        (lambda k: directory.delete_group(k, "team"), lambda k: directory.create_group(k, "team")),
        (
            lambda k: directory.delete_policy(k, "own"),
            lambda k: directory.create_policy(k, "own", READS),
        ),
    ],
)
def test_what_is_created_again_is_linked_to_nobody(
    delete: Callable[[Keeper], None], create: Callable[[Keeper], object]
) -> None:
    lake = Lake()
    before = entities.get(lake.kv, USERS, "ann")
    delete(lake.keeper())
    after = lake.policies["ann"]
    assert len(after) == 1
    create(lake.keeper())
    assert lake.policies["ann"] == after
    # Nor if a write of the old record comes late.
    lake.kv.set(*USERS.place("ann"), USERS.encode(before), lake.ids.stamp())
    assert lake.policies["ann"] == after and not (set(lake.listed_members) - {"ann"})
    lake.check_index()


def test_a_deletion_leaves_no_row_but_the_place_of_the_name() -> None:
    lake = Lake()
    keeper = lake.keeper()
    credentials.create(keeper, "ann")
    directory.add(keeper, OF_USER, "bob", "reads")
    team = entities.get(lake.kv, GROUPS, "team")
    for user in ("ann", "bob"):
        directory.delete_user(keeper, user)
    directory.delete_group(keeper, "team")
    for policy in ("reads", "own", "spare"):
        directory.delete_policy(keeper, policy)
    left = {partition: list(p.rows) for partition, p in lake.kv._partitions.items() if p.rows}
    assert left.pop(keyrings.PARTITION) == [b"secrets"]  # of the whole store
    assert set(left) == {USERS.partition, GROUPS.partition, POLICIES.partition}
    for table, id in ((USERS, "ann"), (GROUPS, "team"), (POLICIES, "own")):
        row = lake.kv.get(*table.place(id))
        assert row is not ABSENT and set(wire.decode_pairs(row.value)) == {"deleted_ns"}
    with pytest.raises(NotFound):
        directory.members(lake.kv, team.id, "", "", 1)


def test_pairs_of_a_later_release_stay() -> None:
    lake = Lake()
    row = lake.kv.get(*USERS.place("ann"))
    assert row is not ABSENT
    later = {**wire.decode_pairs(row.value), "moon": "full"}
    lake.kv.set(*USERS.place("ann"), wire.encode_pairs(later), lake.ids.stamp())
    directory.remove(lake.keeper(), MEMBER, "ann", "team")
    row = lake.kv.get(*USERS.place("ann"))
    assert row is not ABSENT and wire.decode_pairs(row.value)["moon"] == "full"


def test_a_damaged_record_is_reported() -> None:
    lake = Lake()
    for pairs in ({"uid": "x"}, {**{"uid": "x", "created_ns": "y"}}):
        lake.kv.set(*USERS.place("ann"), wire.encode_pairs(pairs), lake.ids.stamp())
        with pytest.raises(Corrupt):
            entities.get(lake.kv, USERS, "ann")


def test_links_have_a_greatest_number() -> None:
    lake = Lake()
    keeper = lake.keeper()
    for number in range(limits.attached_policies_count_max):
        directory.create_policy(keeper, f"p{number}", READS)
        directory.add(keeper, OF_USER, "bob", f"p{number}")
    with pytest.raises(Invalid, match="too many policies"):
        directory.add(keeper, OF_USER, "bob", "own")
    directory.add(keeper, OF_USER, "bob", "p1")  # is attached already
    for _ in range(limits.user_keys_count_max):
        credentials.create(keeper, "bob")
    with pytest.raises(Invalid, match="too many keys"):
        credentials.create(keeper, "bob")


def test_members_are_listed_in_order_from_any_place() -> None:
    lake = Lake()
    keeper = lake.keeper()
    names = [f"u{number:03}" for number in range(30)]
    for name in names:
        directory.create_user(keeper, name)
        directory.add(keeper, MEMBER, name, "team")
    for name in names[:20]:
        directory.remove(keeper, MEMBER, name, "team")

    def page(prefix: str, after: str, amount: int) -> list[str]:
        found = directory.members(lake.kv, "team", prefix, after, amount)
        return [user.id for user, _ in zip(found, range(amount), strict=False)]

    assert page("", "", 100) == ["ann", *names[20:]]
    assert page("u", "u021", 2) == ["u022", "u023"]
    assert page("", "ann", 1) == ["u020"] and page("x", "", 5) == [] and page("u", "v", 5) == []
    every = [user.id for user in entities.listed(lake.kv, USERS, "u", "u028", 1)]
    assert every == ["u029"]


VERBS: dict[str, tuple[Verb, int]] = {
    "create user": (lambda k: directory.create_user(k, "new"), 1),
    "create group": (lambda k: directory.create_group(k, "new"), 1),
    "create policy": (lambda k: directory.create_policy(k, "new", READS), 1),
    "update policy": (lambda k: directory.update_policy(k, "own", READS * 2), 2),
    "add member": (lambda k: directory.add(k, MEMBER, "bob", "team"), 4),
    "add member again": (lambda k: directory.add(k, MEMBER, "ann", "team"), 2),
    "remove member": (lambda k: directory.remove(k, MEMBER, "ann", "team"), 4),
    "remove no member": (lambda k: directory.remove(k, MEMBER, "bob", "team"), 2),
    "attach to user": (lambda k: directory.add(k, OF_USER, "bob", "spare"), 4),
    "attach to group": (lambda k: directory.add(k, OF_GROUP, "team", "spare"), 4),
    "detach from user": (lambda k: directory.remove(k, OF_USER, "ann", "own"), 4),
    "detach from group": (lambda k: directory.remove(k, OF_GROUP, "team", "reads"), 4),
    "create key": (lambda k: credentials.create(k, "ann"), 6),  # 2 of them make the first ring key
    "delete user": (lambda k: directory.delete_user(k, "ann"), 8),
    "delete group": (lambda k: directory.delete_group(k, "team"), 12),
    "delete policy": (lambda k: directory.delete_policy(k, "own"), 8),
}
_CREATES = ("create user", "create group", "create policy")


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_costs_what_it_states(name: str) -> None:
    verb, requests = VERBS[name]
    assert Lake().requests(verb) == requests


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_whose_request_goes_wrong_is_whole_after_a_retry(name: str) -> None:
    """In between, nobody is in a group that does not list it, whatever came through; and what
    comes late changes nothing."""
    verb, _ = VERBS[name]
    wanted = Lake()
    verb(wanted.keeper())
    for lake in broken(verb):
        lake.check_index()
        with suppress(AlreadyExists if name in _CREATES else NotFound):
            verb(lake.keeper())
        assert lake.policies == wanted.policies
        lake.land()
        assert lake.policies == wanted.policies
        lake.check_index()


def test_a_key_ends_with_its_entry_in_the_record_of_its_user() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    key_id = given.access_key_id

    def valid(lake: Lake) -> bool:
        stored = credentials.find(lake.kv, key_id)
        user = entities.get(lake.kv, USERS, "ann")
        return stored is not ABSENT and credentials.is_of(stored, key_id, user)

    assert valid(lake)
    assert lake.requests(lambda k: credentials.delete(k, "ann", key_id)) == 4
    assert not valid(lake)
    with pytest.raises(NotFound):
        credentials.delete(lake.keeper(), "ann", key_id)
    with pytest.raises(NotFound):
        credentials.delete(lake.keeper(), "bob", key_id)


def test_a_key_may_have_a_name_that_an_earlier_release_leaves_alone() -> None:
    lake = Lake()
    named, key = credentials.create(lake.keeper(), "ann", "laptop")
    plain, _ = credentials.create(lake.keeper(), "ann")
    names = {each.id: each.name for each in entities.get(lake.kv, USERS, "ann").keys}
    assert names == {named.access_key_id: "laptop", plain.access_key_id: ""}
    row = lake.kv.get(*USERS.place("ann"))
    assert row is not ABSENT
    listed = json.loads(wire.decode_pairs(row.value)["keys"])
    assert [key.id, key.epoch, key.created_ns] in listed and {len(each) for each in listed} == {3}
    credentials.delete(lake.keeper(), "ann", named.access_key_id)
    row = lake.kv.get(*USERS.place("ann"))
    assert row is not ABSENT and "key_names" not in wire.decode_pairs(row.value)
    for name in ("n" * 101, "two\nlines"):
        with pytest.raises(Invalid):
            credentials.create(lake.keeper(), "ann", name)


def test_a_key_whose_deletion_goes_wrong_is_gone_after_a_retry() -> None:
    ids: list[str] = []

    def prepare(lake: Lake) -> None:
        ids.append(credentials.create(lake.keeper(), "ann")[0].access_key_id)

    def verb(keeper: Keeper) -> None:
        credentials.delete(keeper, "ann", ids[-1])

    for lake in broken(verb, prepare):
        with suppress(NotFound):
            verb(lake.keeper())
        lake.land()
        assert not entities.get(lake.kv, USERS, "ann").keys


def test_what_is_no_key_id_costs_no_request() -> None:
    for text in ("", "ab", "k" * 129, "schlüssel"):
        assert Lake().requests(lambda k, text=text: credentials.find(k.kv, text)) == 0  # type: ignore[misc]


def _join(keeper: Keeper) -> None:
    directory.add(keeper, MEMBER, "ann", "team")


def _leave(keeper: Keeper) -> None:
    directory.remove(keeper, MEMBER, "ann", "team")


def _regroup(keeper: Keeper, *names: str) -> None:
    groups = [entities.get(keeper.kv, GROUPS, name) for name in names]
    directory.set_groups(keeper, entities.get(keeper.kv, USERS, "ann"), groups, 1)


@pytest.mark.parametrize("inner", [_join, _leave])
@pytest.mark.parametrize(
    "outer",
    [
        _join,
        _leave,
        lambda k: _regroup(k, "team"),
        _regroup,
        lambda k: directory.delete_user(k, "ann"),
        lambda k: directory.delete_group(k, "team"),
    ],
)
@pytest.mark.parametrize("joins_first", [False, True])
def test_a_change_between_the_steps_of_another_leaves_an_index_without_gaps(
    outer: Callable[[Keeper], None], inner: Callable[[Keeper], None], joins_first: bool
) -> None:
    for moment, verb in product(
        ("before", "after"), ("get", "get_many", "scan", "set_if", "delete")
    ):
        for number in (1, 2, 3):
            lake, script = Lake(), Script()
            (_join if joins_first else _leave)(lake.keeper())

            def act(lake: Lake = lake) -> None:
                with suppress(NotFound):
                    inner(lake.keeper())

            getattr(script, moment)(verb, act, number)
            with suppress(NotFound):
                outer(lake.keeper(InterposedStore(lake.kv, script)))
            lake.check_index()


def test_a_removal_stops_an_addition_that_arrives_late() -> None:
    """The swap of the addition is under way when its process dies."""
    lake = Lake()
    _leave(lake.keeper())
    store = FaultyStore(lake.kv, nth({4: Fault.LATE, 5: Fault.REFUSED}))
    with pytest.raises(OutcomeUnknown):
        _join(lake.keeper(store))
    _leave(lake.keeper())
    store.land()
    assert lake.policies["ann"] == ["own"]
    lake.check_index()


class _Echoes:
    """A store that can send each write again."""

    def __init__(self, kv: Store) -> None:
        self.kv = kv
        self.writes: list[Callable[[], object]] = []

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self.kv, name)
        if name.startswith(("get", "scan")):
            return cast("Callable[..., object]", method)

        def send(*arguments: object) -> object:
            self.writes.append(partial(method, *arguments))
            return method(*arguments)

        return send


def test_late_duplicates_take_no_row_of_a_link() -> None:
    """Of an addition and a removal, before and after another addition, in any order."""
    for order in permutations(range(4)):
        for before in range(5):
            lake = Lake()
            _leave(lake.keeper())
            echoes: Any = _Echoes(lake.kv)
            _join(lake.keeper(echoes))
            _leave(lake.keeper(echoes))
            assert len(echoes.writes) == 4
            for number in order[:before]:
                echoes.writes[number]()
            assert lake.policies["ann"] == ["own"]
            _join(lake.keeper())
            for number in order[before:]:
                echoes.writes[number]()
            assert lake.policies["ann"] == ["own", "reads"], (order, before)
            lake.check_index()


def test_a_user_that_was_deleted_does_not_come_back_by_a_retry_of_its_creation() -> None:
    lake, script = Lake(), Script()

    def end() -> None:
        directory.delete_user(lake.keeper(), "new")
        raise OutcomeUnknown("no answer")

    script.after("set_if", end)
    with pytest.raises(OutcomeUnknown):
        directory.create_user(lake.keeper(InterposedStore(lake.kv, script)), "new")
    assert script.finished
    with pytest.raises(NotFound):
        entities.get(lake.kv, USERS, "new")


class _Delayed(FaultyStore):
    """The first read was answered long ago.  After the first removal the process is gone."""

    def __init__(self, store: Store, answer: Row) -> None:
        super().__init__(store, self._fault)
        self._answer: Row | Literal[Absent.ABSENT] = answer
        self._is_gone = False

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        answer, self._answer = self._answer, ABSENT
        return super().get(partition, key) if answer is ABSENT else answer

    def _fault(self, _number: int, verb: str) -> Fault:
        fault = Fault.REFUSED if self._is_gone else Fault.NONE
        self._is_gone = self._is_gone or verb == "delete"
        return fault


@pytest.mark.parametrize(
    ("table", "id", "target", "delete"),
    [
        (USERS, "ann", "own", directory.delete_user),
        (GROUPS, "team", "reads", directory.delete_group),
    ],
)
def test_a_deletion_that_stops_in_between_takes_no_row_of_a_later_link(
    table: Table[Any], id: str, target: str, delete: Callable[[Keeper, str], None]
) -> None:
    """The link of the record that it read was removed, and is about to be made again."""
    lake, script = Lake(), Script()
    relation = OF_USER if table is USERS else OF_GROUP
    _leave(lake.keeper())
    seen = lake.kv.get(*table.place(id))
    assert seen is not ABSENT
    directory.remove(lake.keeper(), relation, id, target)

    def begin() -> None:
        with pytest.raises(OutcomeUnknown):
            delete(lake.keeper(_Delayed(lake.kv, seen)), id)

    script.before("set_if", begin, 2)
    directory.add(lake.keeper(InterposedStore(lake.kv, script)), relation, id, target)
    policy = entities.get(lake.kv, POLICIES, target)
    assert [link.id for link in entities.get(lake.kv, table, id).policies] == [target]
    assert lake.kv.get(*relation.place(policy, id)) is not ABSENT


def test_an_addition_again_writes_a_row_that_is_missing() -> None:
    lake = Lake()
    team = entities.get(lake.kv, GROUPS, "team")
    partition, key = MEMBER.place(team, "ann")
    lake.kv.delete(partition, [key])
    assert not lake.listed_members
    assert lake.requests(_join) == 3
    lake.check_index()


def test_a_failure_after_a_swap_without_an_answer_leaves_the_outcome_unknown() -> None:
    """The next round's write of the row is refused, after which the first swap is applied."""
    lake = Lake()
    faults = {4: Fault.LATE, 6: Fault.REFUSED}
    store = FaultyStore(lake.kv, nth(faults))
    with pytest.raises(OutcomeUnknown):
        directory.add(lake.keeper(store), MEMBER, "bob", "team")
    store.land()
    assert lake.policies["bob"] == ["reads"]
    lake.check_index()
