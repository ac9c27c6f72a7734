"""Callers that prove a secret by what they sign: the promises of a login hold for them."""

from contextlib import suppress

import pytest

from graveler.auth import accounts, credentials, directory, proofs
from graveler.auth.access import Caller
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.auth.proofs import Proofs
from graveler.core import limits
from graveler.core.errors import (
    Code,
    OutcomeUnknown,
    Refused,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.kv.store import Store
from tests.auth.bench import FAULTS, SECRET, Lake
from tests.auth.test_access import READ, WRITE
from tests.auth.test_accounts import GIVEN, basic
from tests.auth.test_sealing import as_hash_alone
from tests.support.faults import FaultyStore, nth

UNKNOWN = NewCredential("GRVLUNKNOWN", "u" * 40)


class Process:
    """A process over a lake, whose requests are counted."""

    def __init__(self, lake: Lake, kv: Store | None = None) -> None:
        self.counts = Counts()
        keeper = lake.keeper(counted_store(kv or lake.kv, self.counts))
        self.auth = Authenticator(keeper)
        self.proofs = Proofs()
        self.compared: list[tuple[str, str]] = []

    def caller(self, given: NewCredential, address: str = "10.0.0.1") -> Caller:
        """A caller that proves by the secret itself."""

        def matches(secret: str, epoch: str) -> bool:
            self.compared.append((secret, epoch))
            return secret == given.secret_access_key

        return self.proofs.identify(self.auth, given.access_key_id, matches, lambda: address)

    def failure(self, given: NewCredential, address: str = "10.0.0.1") -> str:
        """Why a caller is refused; empty if it is accepted."""
        try:
            self.caller(given, address)
        except Unauthenticated as error:
            return error.code
        except (Throttled, Refused) as error:
            return type(error).__name__
        return ""

    def cost(self, given: NewCredential, address: str = "10.0.0.1") -> int:
        before = self.counts.total()
        self.failure(given, address)
        return self.counts.total() - before


def wrong(given: NewCredential) -> NewCredential:
    return NewCredential(given.access_key_id, "w" * 40)


def test_a_caller_is_the_user_of_the_key_with_its_rights() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    process = Process(lake)
    caller = process.caller(given)
    assert caller.user == "ann" and not caller.lacks((READ,)) and caller.lacks((WRITE,))
    assert process.failure(wrong(given)) == Code.UNAUTHENTICATED
    assert process.failure(UNKNOWN) == Code.KEY_NOT_FOUND
    for key_id in ("", "é", "K" * 129, "a/b"):
        assert process.failure(NewCredential(key_id, "u" * 40)) == Code.KEY_NOT_FOUND


def test_a_disabled_user_proves_nothing_by_its_keys() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    process = Process(lake)
    assert process.failure(given) == ""
    directory.disable_user(lake.keeper(), "ann", "admin")
    process.auth.access.forget()
    assert process.failure(given) == Code.KEY_NOT_FOUND == process.failure(UNKNOWN)
    directory.enable_user(lake.keeper(), "ann")
    process.auth.access.forget()
    assert process.failure(given) == ""


def test_a_proved_key_costs_nothing_from_the_same_address_and_one_request_from_another() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    process = Process(lake)
    assert process.cost(given) == 1 + 1 + 1 + 3  # key, administrator, keyring, rights
    assert [process.cost(given) for _ in range(5)] == [0] * 5
    assert process.cost(given, "10.0.0.2") == 1
    assert process.compared[-1][1] == ""  # nothing remembered decides for another address
    assert process.cost(given, "10.0.0.2") == 0 and process.compared[-1][1] != ""
    lake.clock.sleep(limits.access_seconds_max)
    assert process.cost(given) == 1  # the rights


def test_an_unknown_key_costs_the_same_requests_and_comparisons_as_a_wrong_proof() -> None:
    lake = Lake()
    known, _ = credentials.create(lake.keeper(), "ann")
    costs = {}
    for given in (wrong(known), UNKNOWN):
        process, spent = Process(lake), []
        for seconds in (0, 10, 1, 10):
            lake.clock.sleep(seconds)
            compared = len(process.compared)
            spent.append((process.cost(given), len(process.compared) - compared))
        costs[given] = spent
    assert costs[wrong(known)] == costs[UNKNOWN]
    assert all(compared == 1 for _, compared in costs[UNKNOWN])


def test_the_decoy_proves_nothing() -> None:
    lake = Lake()
    process = Process(lake)
    secret = proofs._DECOY.secret_access_key
    for key_id in (UNKNOWN.access_key_id, proofs._DECOY.access_key_id):
        assert process.failure(NewCredential(key_id, secret)) == Code.KEY_NOT_FOUND
    assert process.compared[-1] == (secret, "")


def test_the_decoy_outlives_the_key_that_encrypted_it() -> None:
    lake = Lake()
    process = Process(lake)
    assert process.failure(UNKNOWN) == Code.KEY_NOT_FOUND
    lake.clock.sleep(10)
    lake.keeper().seals.rotate(alone=True)
    lake.clock.sleep(limits.access_seconds_max)
    assert process.failure(UNKNOWN) == Code.KEY_NOT_FOUND


def test_a_key_that_ended_elsewhere_is_refused_within_seconds_and_here_at_once() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    here, there = Process(lake), Process(lake)
    assert here.failure(given) == there.failure(given) == ""
    credentials.delete(lake.keeper(), "ann", given.access_key_id)
    here.auth.access.forget("ann")
    assert here.failure(given) == Code.KEY_NOT_FOUND and there.failure(given) == ""
    lake.clock.sleep(limits.access_seconds_max)
    assert there.failure(given) == Code.KEY_NOT_FOUND
    assert limits.access_seconds_max <= 5


def test_the_keys_of_a_deleted_user_end_and_one_of_its_name_has_none_of_them() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    row = lake.kv.get(credentials.PARTITION, given.access_key_id.encode())
    assert row is not ABSENT
    process = Process(lake)
    assert process.failure(given) == ""
    directory.delete_user(lake.keeper(), "ann")
    directory.create_user(lake.keeper(), "ann")
    lake.kv.set(credentials.PARTITION, given.access_key_id.encode(), row.value, b"v" * 16)
    lake.clock.sleep(limits.access_seconds_max)
    assert process.failure(given) == Code.KEY_NOT_FOUND


def test_wrong_proofs_and_unknown_keys_are_limited_by_address() -> None:
    lake = Lake()
    known, _ = credentials.create(lake.keeper(), "ann")
    for given in (wrong(known), UNKNOWN):
        process = Process(lake)
        failures = [process.failure(given) for _ in range(12)]
        assert failures[:10].count("Throttled") == 0 and failures[10:] == ["Throttled"] * 2
        assert process.cost(given) == 0
        assert process.failure(known, "10.0.0.9") == ""
        assert process.failure(known) == "Throttled"  # this address has proved nothing yet


def test_who_proved_a_key_is_not_blocked_by_failures_of_others_behind_the_address() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    other, _ = credentials.create(lake.keeper(), "bob")
    process = Process(lake)
    assert process.failure(given) == ""
    while process.failure(wrong(other)) != "Throttled":
        pass
    assert process.failure(given) == ""
    assert process.failure(other) == process.failure(wrong(given)) == "Throttled"


def test_who_knows_the_id_of_a_key_cannot_lock_its_owner_out() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    process = Process(lake)
    for number in range(200):
        assert process.failure(wrong(given), f"10.0.1.{number}") == Code.UNAUTHENTICATED
    assert process.failure(given, "10.0.2.1") == ""
    assert process.auth.identify(basic(given), "", lambda: "10.0.2.2").user == "ann"


def test_a_key_that_is_a_hash_alone_proves_nothing_until_it_is_used_once() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    as_hash_alone(lake, given)
    process = Process(lake)
    with pytest.raises(Refused, match="Log in with the key once"):
        process.caller(given)
    assert process.compared == []
    assert process.auth.identify(basic(given), "", lambda: "10.0.0.1").user == "ann"
    assert process.failure(given) == ""


def test_a_process_that_opens_no_secrets_accepts_no_proof() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    blind = accounts.keeper(lake.kv, lake.clock, lake.ids, SECRET, opens_keys=False)
    process = Process(lake)
    process.auth = Authenticator(blind)
    assert process.failure(given) == process.failure(UNKNOWN) == "Refused"


def test_a_secret_whose_key_is_gone_proves_nothing_until_it_is_used_once() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    lake.keeper().seals.rotate(alone=True)
    assert Process(lake).failure(given) == "Refused"


def test_a_process_that_started_before_a_rotation_of_the_secret_accepts_every_key_after_it() -> (
    None
):
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    stored = {"secrets": (SECRET, b"")}
    process = Process(lake)
    process.auth = Authenticator(
        accounts.keeper(
            lake.kv, lake.clock, lake.ids, SECRET, read_again=lambda: stored["secrets"]
        ),
    )
    assert process.failure(given) == ""
    rotated = b"r" * 32
    stored["secrets"] = (rotated, SECRET)
    credentials.rotate(accounts.keeper(lake.kv, lake.clock, lake.ids, rotated, before=SECRET))
    assert process.failure(given, "10.0.0.2") == ""
    lake.clock.sleep(limits.access_seconds_max)
    later, _ = credentials.create(
        accounts.keeper(lake.kv, lake.clock, lake.ids, rotated, before=SECRET), "bob"
    )
    assert process.failure(later) == process.failure(given) == ""
    assert process.failure(wrong(given), "10.0.0.3") == Code.UNAUTHENTICATED


def test_a_secret_that_cannot_be_read_again_is_no_failure_of_the_caller() -> None:
    lake, answers = Lake(), [False]
    rotated = b"r" * 32

    def read_again() -> tuple[bytes, bytes]:
        if not answers[0]:
            raise Unavailable("no answer")
        return rotated, SECRET

    process = Process(lake)
    keeper = accounts.keeper(lake.kv, lake.clock, lake.ids, SECRET, read_again=read_again)
    process.auth = Authenticator(keeper)
    lake.keeper().seals.current()
    credentials.rotate(accounts.keeper(lake.kv, lake.clock, lake.ids, rotated, before=SECRET))
    given, _ = credentials.create(
        accounts.keeper(lake.kv, lake.clock, lake.ids, rotated, before=SECRET), "ann"
    )
    for _ in range(50):
        with pytest.raises(Unavailable, match="no answer"):
            process.caller(given)
    answers[0] = True
    lake.clock.sleep(limits.secret_retry_seconds)
    assert process.failure(given) == ""  # no address is blocked


def test_the_credential_of_the_deployment_is_accepted_at_the_first_request() -> None:
    lake = Lake()
    process = Process(lake)
    process.auth = Authenticator(lake.keeper(), first=GIVEN)
    assert process.caller(GIVEN).user == accounts.USER_DEFAULT


def test_whatever_a_store_does_a_wrong_proof_is_never_accepted() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    count = Process(lake).cost(given)
    for number in range(1, count + 1):
        for fault in FAULTS:
            store = FaultyStore(lake.kv, nth({number: fault}))
            process = Process(lake, store)
            with suppress(Unavailable, OutcomeUnknown):
                assert process.failure(wrong(given)) != ""
            with suppress(Unavailable, OutcomeUnknown):
                assert process.failure(given, "10.0.0.2") == ""


def test_what_is_remembered_has_a_bound_and_shows_no_secret() -> None:
    lake = Lake()
    given, _ = credentials.create(lake.keeper(), "ann")
    process = Process(lake)
    for number in range(4_100):
        assert process.failure(given, f"10.1.{number >> 8}.{number & 255}") == ""
    assert len(process.proofs._holders) < 4_096
    assert given.secret_access_key not in repr(process.proofs._holders)
