"""Secrets are stored encrypted, in the context of their key; older rows are stored anew in use."""

from contextlib import suppress

import pytest

from graveler.auth import accounts, credentials, entities
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import Credential, NewCredential, Rotation
from graveler.auth.entities import USERS, Keeper
from graveler.core import limits, wire
from graveler.core.errors import Corrupt, NotFound, OutcomeUnknown, Unauthenticated, Unavailable
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.kv.store import Place, Store
from tests.auth.bench import FAULTS, SECRET, Lake
from tests.auth.test_accounts import GIVEN, basic
from tests.support.faults import FaultyStore, nth

ROTATED = b"r" * 32


def place(given: NewCredential) -> Place:
    return credentials.PARTITION, given.access_key_id.encode()


def stored(lake: Lake, given: NewCredential) -> Credential:
    row = lake.kv.get(*place(given))
    assert row is not ABSENT
    return credentials.decode(row)


def secret_of(lake: Lake, given: NewCredential, keeper: Keeper | None = None) -> str:
    known = stored(lake, given)
    return credentials.unseal(keeper or lake.keeper(), given.access_key_id, known).secret_access_key


def as_hash_alone(lake: Lake, given: NewCredential) -> None:
    """Store the row of a key with the hash alone."""
    row = lake.kv.get(*place(given))
    assert row is not ABSENT
    pairs = {name: text for name, text in wire.decode_pairs(row.value).items() if name != "sealed"}
    lake.kv.set(*place(given), wire.encode_pairs(pairs), lake.ids.stamp())


def accepts(lake: Lake, given: NewCredential, kv: Store | None = None) -> bool:
    """Whether a process that starts now accepts a key."""
    try:
        Authenticator(lake.keeper(kv)).identify(basic(given), "")
    except Unauthenticated:
        return False
    return True


def test_a_secret_is_stored_encrypted() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    assert secret_of(lake, given) == given.secret_access_key
    secret = given.secret_access_key.encode()
    for partition in lake.kv._partitions:
        for _key, row in lake.kv.scan(partition, b"", b"", 1_000).rows:
            assert secret not in row.value and secret.hex().encode() not in row.value
    assert given.secret_access_key not in repr(given)


def test_a_stored_secret_belongs_to_its_key_and_its_user() -> None:
    lake = Lake()
    one, _ = credentials.create(lake.keeper(), "ann")
    two, _ = credentials.create(lake.keeper(), "ann")
    known, other = stored(lake, one), stored(lake, two)
    bob = entities.get(lake.kv, USERS, "bob")
    for spoiled in (
        known._replace(sealed=other.sealed),  # of another key
        known._replace(uid=bob.uid),  # of another user
        known._replace(sealed=known.sealed[:-4]),
        known._replace(sealed=known.sealed + "!"),
    ):
        with pytest.raises(Corrupt):
            credentials.unseal(lake.keeper(), one.access_key_id, spoiled)
    for unknown in (known._replace(sealed=""), known._replace(sealed="0" * 16 + ".AAAA")):
        with pytest.raises(NotFound):
            credentials.unseal(lake.keeper(), one.access_key_id, unknown)


def test_the_key_of_a_store_without_the_right_secret_opens_nothing() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    stranger = accounts.keeper(lake.kv, lake.clock, lake.ids, b"x" * 32)
    with pytest.raises(NotFound):
        secret_of(lake, given, stranger)


def test_the_administrator_is_stored_encrypted_from_the_set_up_on() -> None:
    lake = Lake()
    auth = Authenticator(lake.keeper())
    auth.set_up("root", "", GIVEN, auth.setup_token)
    assert secret_of(lake, GIVEN) == GIVEN.secret_access_key
    fresh = credentials.fresh(lake.ids)
    accounts.reset(lake.keeper(), fresh)
    assert secret_of(lake, fresh) == fresh.secret_access_key


def test_a_caller_without_rights_to_keys_stores_the_hash_and_the_first_use_does_the_rest() -> None:
    lake = Lake()
    auth = Authenticator(lake.keeper())
    auth.set_up("root", "", GIVEN, auth.setup_token)
    fresh = credentials.fresh(lake.ids)
    blind = accounts.keeper(lake.kv, lake.clock, lake.ids, SECRET, opens_keys=False)
    accounts.reset(blind, fresh)
    assert stored(lake, fresh).sealed == ""
    assert accepts(lake, fresh)
    assert secret_of(lake, fresh) == fresh.secret_access_key


# ---- rows with the hash alone --------------------------------------------------------------------


def test_the_first_use_of_a_key_that_is_a_hash_alone_encrypts_its_secret() -> None:
    lake, counts = Lake(), Counts()
    given, _ = credentials.create(lake.keeper(), "ann")
    as_hash_alone(lake, given)
    wrong = NewCredential(given.access_key_id, "a wrong secret")
    assert not accepts(lake, wrong) and stored(lake, given).sealed == ""
    assert accepts(lake, given, counted_store(lake.kv, counts))
    assert secret_of(lake, given) == given.secret_access_key
    assert counts.total() == 4 + 3  # the key and the rights; the ring, and the row read and swapped
    counts = Counts()
    assert accepts(lake, given, counted_store(lake.kv, counts)) and counts.total() == 4


def test_a_key_is_accepted_whatever_happens_while_its_secret_is_encrypted() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    as_hash_alone(lake, given)
    counts = Counts()
    row = lake.kv.get(*place(given))
    assert row is not ABSENT
    assert accepts(lake, given, counted_store(lake.kv, counts))
    for number in range(5, counts.total() + 1):
        for fault in FAULTS:
            lake.kv.set(*place(given), row.value, lake.ids.stamp())
            store = FaultyStore(lake.kv, nth({number: fault}))
            assert accepts(lake, given, store)
            assert accepts(lake, given)
            store.land()
            assert secret_of(lake, given) == given.secret_access_key


def test_a_renewal_never_brings_a_deleted_key_back() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    known = stored(lake, given)
    credentials.delete(lake.keeper(), "ann", given.access_key_id)
    credentials.renew(lake.keeper(), known, given)
    assert lake.kv.get(*place(given)) is ABSENT


# ---- rotations -----------------------------------------------------------------------------------


def test_a_rotation_encrypts_every_secret_anew_and_logs_nobody_out() -> None:
    lake = Lake()
    auth = Authenticator(lake.keeper())
    keys = [credentials.create(lake.keeper(), user)[0] for user in ("ann", "ann", "bob")]
    plain, _ = credentials.create(lake.keeper(), "bob")
    as_hash_alone(lake, plain)
    token = auth.login(keys[0].access_key_id, keys[0].secret_access_key).token.encode()
    before = [credentials.sealing_key(stored(lake, key)) for key in keys]
    assert credentials.rotate(lake.keeper()) == Rotation(renewed=3, waiting=1)
    after = [credentials.sealing_key(stored(lake, key)) for key in keys]
    assert len(set(before)) == len(set(after)) == 1 and before[0] != after[0]
    assert [secret_of(lake, key) for key in keys] == [key.secret_access_key for key in keys]
    assert all(accepts(lake, key) for key in (*keys, plain))
    fresh = auth.login(keys[2].access_key_id, keys[2].secret_access_key).token.encode()
    for process in (auth, Authenticator(lake.keeper())):
        assert process.identify(b"Bearer " + token, "").user == "ann"
        assert process.identify(b"Bearer " + fresh, "").user == "bob"


def test_a_rotation_ends_all_sessions_if_it_is_asked_to() -> None:
    lake = Lake()
    process = Authenticator(lake.keeper())
    given, _ = credentials.create(lake.keeper(), "ann")
    token = process.login(given.access_key_id, given.secret_access_key).token.encode()
    assert process.identify(b"Bearer " + token, "").user == "ann"
    assert credentials.rotate(lake.keeper(), ends_sessions=True) == Rotation(renewed=1, waiting=0)
    with pytest.raises(Unauthenticated):
        Authenticator(lake.keeper()).identify(b"Bearer " + token, "")
    lake.clock.sleep(limits.access_seconds_max + 2)
    with pytest.raises(Unauthenticated):
        process.identify(b"Bearer " + token, "")
    assert accepts(lake, given)
    fresh = process.login(given.access_key_id, given.secret_access_key).token.encode()
    assert process.identify(b"Bearer " + fresh, "").user == "ann"


def test_after_a_rotation_of_keys_a_twice_rotated_secret_ends_no_key() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    once = accounts.keeper(lake.kv, lake.clock, lake.ids, ROTATED, before=SECRET)
    assert credentials.rotate(once) == Rotation(renewed=1, waiting=0)
    again = accounts.keeper(lake.kv, lake.clock, lake.ids, b"2" * 32, before=ROTATED)
    auth = Authenticator(again)
    assert auth.identify(basic(given), "").user == "ann"
    assert secret_of(lake, given, again) == given.secret_access_key


def test_a_use_after_a_rotation_of_the_secret_brings_the_key_up_to_date() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    keeper = accounts.keeper(lake.kv, lake.clock, lake.ids, ROTATED, before=SECRET)
    assert not credentials.is_current(keeper, stored(lake, given), given.secret_access_key)
    Authenticator(keeper).identify(basic(given), "")
    assert credentials.is_current(keeper, stored(lake, given), given.secret_access_key)
    alone = accounts.keeper(lake.kv, lake.clock, lake.ids, ROTATED)
    assert Authenticator(alone).identify(basic(given), "").user == "ann"
    assert secret_of(lake, given, alone) == given.secret_access_key


def test_old_keys_go_when_no_row_names_them() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    first = credentials.sealing_key(stored(lake, given))
    for _ in range(3):
        credentials.rotate(lake.keeper())
        lake.clock.sleep(24 * 3_600 + 1)
    keeper = lake.keeper()
    assert keeper.seals.find(first) is ABSENT
    assert secret_of(lake, given, keeper) == given.secret_access_key


def test_a_rotation_that_is_broken_off_is_whole_after_another() -> None:
    counts = Counts()
    lake = Lake()
    credentials.create(lake.keeper(), "ann")
    credentials.rotate(lake.keeper(counted_store(lake.kv, counts)))
    assert counts.total() == 4 + 2 + 2
    for number in range(1, counts.total() + 1):
        for fault in FAULTS:
            lake = Lake()
            given, _ = credentials.create(lake.keeper(), "ann")
            store = FaultyStore(lake.kv, nth({number: fault}))
            with suppress(Unavailable, OutcomeUnknown):
                credentials.rotate(lake.keeper(store))
            assert secret_of(lake, given) == given.secret_access_key
            assert credentials.rotate(lake.keeper()) == Rotation(1, 0)
            store.land()
            assert secret_of(lake, given) == given.secret_access_key
            assert accepts(lake, given)


def test_all_pages_of_keys_are_renewed() -> None:
    lake = Lake()
    keeper = lake.keeper()
    ann = entities.get(lake.kv, USERS, "ann")
    for number in range(limits.page_count_max + 1):
        new = NewCredential(f"KEY{number:05}", "s" * 32)
        sealed = credentials.seal(keeper, ann.uid, new)
        credentials.put(keeper, new.access_key_id, Credential("ann", ann.uid, "", "", 0, sealed))
    assert credentials.rotate(keeper).renewed == limits.page_count_max + 1
