"""The administrator is set up once, recognised, and replaced by a reset."""

import base64
import re
from typing import Literal

import pytest

from graveler.auth import accounts, credentials, directory, secrets, sessions
from graveler.auth.accounts import Account
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.auth.directory import MEMBER
from graveler.core import limits, wire
from graveler.core.clock import SystemIds
from graveler.core.errors import (
    AlreadyExists,
    Corrupt,
    Invalid,
    NotFound,
    Refused,
    Throttled,
    Unauthenticated,
)
from graveler.core.records import ABSENT, Absent
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Write

SECRET = bytes(range(32))
GIVEN = NewCredential("AKIAEXAMPLE", "a secret of some length: 32 and more")


class SteppedClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000

    def now_ns(self) -> int:
        return self.seconds * 10**9

    def steady_seconds(self) -> float:
        return float(self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += int(seconds)


def basic(given: NewCredential) -> bytes:
    raw = f"{given.access_key_id}:{given.secret_access_key}".encode()
    return b"Basic " + base64.b64encode(raw)


class Bench:
    """A store, a clock, and an authenticator over them."""

    def __init__(self) -> None:
        self.kv = MemoryStore()
        self.clock = SteppedClock()
        self.keeper = accounts.keeper(self.kv, self.clock, SystemIds(), SECRET)
        self.auth = Authenticator(self.keeper)

    def set_up(
        self, user: str, email: str, given: NewCredential | Literal[Absent.ABSENT]
    ) -> tuple[Account, NewCredential]:
        return self.auth.set_up(user, email, given, self.auth.setup_token)

    def accepts(self, given: NewCredential, address: str = "10.0.0.1") -> bool:
        return self.accepts_header(basic(given), address)

    def accepts_header(self, header: bytes, address: str = "10.0.0.1") -> bool:
        try:
            self.auth.identify(header, "", lambda: address)
        except Unauthenticated:
            return False
        return True


def test_nobody_is_accepted_before_the_set_up() -> None:
    bench = Bench()
    assert accounts.find(bench.kv) is ABSENT
    assert bench.auth.account() is ABSENT
    assert not bench.accepts(GIVEN)
    assert not bench.accepts(NewCredential("", ""))


def test_the_set_up_happens_once() -> None:
    bench = Bench()
    account, credential = bench.set_up("ann", "ann@example.com", ABSENT)
    assert (account.user, account.email) == ("ann", "ann@example.com")
    assert bench.accepts(credential)
    with pytest.raises(AlreadyExists):
        bench.set_up("bob", "", GIVEN)
    assert bench.accepts(credential)
    assert not bench.accepts(GIVEN)
    assert accounts.find(bench.kv) == account


def test_the_set_up_needs_its_token() -> None:
    bench = Bench()
    for number in range(10):
        with pytest.raises(Refused, match="X-Graveler-Setup-Token"):
            bench.auth.set_up("eve", "", GIVEN, f"guess {number}" if number else "", "10.0.0.9")
    with pytest.raises(Throttled):
        bench.auth.set_up("eve", "", GIVEN, "guess", "10.0.0.9")
    assert bench.auth.account() is ABSENT
    assert bench.auth.set_up("ann", "", GIVEN, bench.auth.setup_token, "10.0.0.1")[0].user == "ann"
    with pytest.raises(AlreadyExists):  # it is good for one set-up
        bench.auth.set_up("ann", "", GIVEN, bench.auth.setup_token, "10.0.0.1")


def test_guesses_of_others_keep_nobody_from_the_set_up() -> None:
    bench = Bench()
    for number in range(100):  # by many addresses, and by the owner's own ten times
        with pytest.raises(Refused):
            bench.auth.set_up("eve", "", GIVEN, "guess", f"10.0.{number % 10}.1")
    with pytest.raises(Throttled):
        bench.auth.set_up("eve", "", GIVEN, "guess", "10.0.0.1")
    with pytest.raises(Refused):  # an owner who mistypes it is told so
        bench.auth.set_up("ann", "", GIVEN, "mistyped", "10.1.1.1")
    assert bench.auth.set_up("ann", "", GIVEN, bench.auth.setup_token, "10.0.0.1")[0].user == "ann"


def test_no_two_services_have_the_same_set_up_token() -> None:
    first, second = Bench().auth.setup_token, Bench().auth.setup_token
    assert first != second and len(first) == len(second) == 32


def test_the_secret_is_not_stored() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    row = bench.kv.get(accounts.PARTITION, accounts.ADMINISTRATOR)
    assert row is not ABSENT
    assert GIVEN.access_key_id.encode() in row.value
    assert GIVEN.secret_access_key.encode() not in row.value


def test_the_stored_check_is_worthless_under_another_key() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    other = accounts.keeper(bench.kv, bench.clock, SystemIds(), b"x" * 32)
    bench.auth = Authenticator(other)
    assert not bench.accepts(GIVEN)


def test_a_rotated_secret_locks_nobody_out() -> None:
    """What was made under the secret before is accepted, by whoever knows both."""
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    token = bench.auth.login(GIVEN.access_key_id, GIVEN.secret_access_key).token.encode()
    rotated = b"x" * 32
    other = accounts.keeper(bench.kv, bench.clock, SystemIds(), rotated, before=SECRET)
    bench.auth = Authenticator(other)
    assert bench.accepts(GIVEN) and bench.accepts_header(b"Bearer " + token)
    fresh = bench.auth.login(GIVEN.access_key_id, GIVEN.secret_access_key).token.encode()
    assert bench.accepts_header(b"Bearer " + fresh)
    wrong = NewCredential(GIVEN.access_key_id, "another secret of some length, 32 and more")
    assert not bench.accepts(wrong) and not bench.accepts_header(b"Bearer " + token[:-2])
    bench.auth = Authenticator(bench.keeper)  # a process that started before the rotation
    assert bench.accepts_header(b"Bearer " + fresh)
    third = accounts.keeper(bench.kv, bench.clock, SystemIds(), b"y" * 32, before=rotated)
    bench.auth = Authenticator(third)  # and after the next one
    assert bench.accepts_header(b"Bearer " + fresh) and bench.accepts_header(b"Bearer " + token)


def test_a_reset_ends_the_old_credential_and_every_session() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    token = bench.auth.login(GIVEN.access_key_id, GIVEN.secret_access_key).token.encode()
    assert bench.accepts(GIVEN)
    assert bench.accepts_header(b"Bearer " + token)
    fresh = credentials.fresh(SystemIds())
    accounts.reset(bench.keeper, fresh)
    bench.clock.sleep(limits.access_seconds_max)  # what was accepted lately may be this old
    assert not bench.accepts(GIVEN)
    assert not bench.accepts_header(b"Bearer " + token)
    assert bench.accepts(fresh)
    found = accounts.find(bench.kv)
    assert found is not ABSENT
    assert found.user == "ann"


def test_a_reset_enables_the_administrator() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    directory.create_user(bench.keeper, "bob")
    directory.add(bench.keeper, MEMBER, "bob", "Admins")
    directory.disable_user(bench.keeper, "ann", "bob")
    bench.auth.access.forget()
    assert not bench.accepts(GIVEN)
    fresh = credentials.fresh(SystemIds())
    accounts.reset(bench.keeper, fresh)
    bench.auth.access.forget()
    assert bench.accepts(fresh)


def test_a_reset_needs_an_administrator() -> None:
    with pytest.raises(NotFound):
        accounts.reset(Bench().keeper, GIVEN)


def test_an_accepted_session_still_expires() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    header = b"Bearer " + bench.auth.login(*_pair(GIVEN)).token.encode()
    assert bench.accepts_header(header)
    bench.clock.sleep(sessions.LIFE_SECONDS - 1)
    assert bench.accepts_header(header)
    bench.clock.sleep(1)
    assert not bench.accepts_header(header)
    assert bench.accepts(GIVEN)


def test_a_session_that_was_ended_is_not_accepted_again() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    one, other = (bench.auth.login(*_pair(GIVEN)).token for _ in range(2))
    headers = [b"Bearer " + token.encode() for token in (one, other)]
    assert all(map(bench.accepts_header, headers))
    bench.auth.log_out(one)
    assert [bench.accepts_header(header) for header in headers] == [False, True]
    assert bench.accepts(GIVEN)
    bench.auth.log_out(one)  # again is no error, and what is no session has none
    for text in ("", "x.y.z", "é"):
        bench.auth.log_out(text)
    with pytest.raises(Unauthenticated):
        bench.auth.identify(b"", one)  # nor as a cookie


def test_a_session_that_another_process_ended_is_over_within_seconds() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    token = bench.auth.login(*_pair(GIVEN)).token
    assert bench.accepts_header(b"Bearer " + token.encode())
    Authenticator(bench.keeper).log_out(token)
    bench.clock.sleep(2)
    assert not bench.accepts_header(b"Bearer " + token.encode())


def test_the_record_of_an_ended_session_goes_once_its_token_has_expired() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    for _ in range(3):
        bench.auth.log_out(bench.auth.login(*_pair(GIVEN)).token)
    assert len(bench.kv.scan(sessions.PARTITION, b"", b"", 10).rows) == 3
    bench.clock.sleep(sessions.LIFE_SECONDS + 1)
    bench.auth.log_out(bench.auth.login(*_pair(GIVEN)).token)
    assert len(bench.kv.scan(sessions.PARTITION, b"", b"", 10).rows) == 1


def test_the_record_of_an_ended_session_goes_also_behind_many_that_last() -> None:
    bench = Bench()
    lasting = wire.encode_pairs({"expires": str(1 << 40)})
    stamp = bytes(16)
    writes = [
        Write(sessions.PARTITION, b"%032x" % number, lasting, stamp) for number in range(10_001)
    ]
    late, early = b"f" * 32, b"0" * 31
    over = wire.encode_pairs({"expires": "1"})
    writes += [Write(sessions.PARTITION, key, over, stamp) for key in (late, early)]
    bench.kv.set_many(writes)
    for id, gone in (("9" * 32, early), ("e" * 32, late)):
        session = sessions.Session("ann", "epoch", 1 << 40, id)
        sessions.put(bench.kv, bench.keeper.ids, session, 2)
        assert bench.kv.get(sessions.PARTITION, gone) is ABSENT
        assert sessions.has(bench.kv, session)


def test_a_header_is_never_mistaken_for_a_cookie() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    token = bench.auth.login(*_pair(GIVEN)).token
    assert bench.auth.identify(b"", token).user == "ann"
    assert not bench.accepts_header(token.encode())


def test_many_wrong_headers_do_not_push_out_or_let_in() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    for number in range(3_000):
        bench.clock.sleep(6)  # slow enough to be looked at
        assert not bench.accepts(NewCredential(GIVEN.access_key_id, f"wrong {number}"))
    bench.clock.sleep(6)
    assert bench.accepts(GIVEN)


@pytest.mark.parametrize(
    ("user", "key", "secret", "field"),
    [
        ("", "AKIAEXAMPLE", "long enough: at least 32 characters", "username"),
        ("a" * 256, "AKIAEXAMPLE", "long enough: at least 32 characters", "username"),
        ("a\nb", "AKIAEXAMPLE", "long enough: at least 32 characters", "username"),
        ("*", "AKIAEXAMPLE", "long enough: at least 32 characters", "username"),
        ("${user}", "AKIAEXAMPLE", "long enough: at least 32 characters", "username"),
        ("ann", "", "long enough: at least 32 characters", "access_key_id"),
        ("ann", "with:colon", "long enough: at least 32 characters", "access_key_id"),
        ("ann", "K" * 129, "long enough: at least 32 characters", "access_key_id"),
        ("ann", "AKIAEXAMPLE", "short", "secret_access_key"),
        ("ann", "AKIAEXAMPLE", "s" * 31, "secret_access_key"),
        ("ann", "AKIAEXAMPLE", "not ascii ünï", "secret_access_key"),
        ("ann", "AKIAEXAMPLE", "s" * 129, "secret_access_key"),
    ],
)
def test_bad_names_and_credentials_are_refused(
    user: str, key: str, secret: str, field: str
) -> None:
    bench = Bench()
    with pytest.raises(Invalid, match=field):
        bench.set_up(user, "", NewCredential(key, secret))
    assert bench.auth.account() is ABSENT


def test_fresh_credentials_differ_and_are_long() -> None:
    made = [credentials.fresh(SystemIds()) for _ in range(100)]
    assert len({each.access_key_id for each in made}) == 100
    assert len({each.secret_access_key for each in made}) == 100
    # What `lakectl doctor` takes for a key; it calls another one suspicious.
    assert all(re.fullmatch("AKIA[IJ][A-Z0-9]{14}Q", each.access_key_id) for each in made)
    assert all(re.fullmatch("[A-Za-z0-9/+=]{40}", each.secret_access_key) for each in made)


def test_a_damaged_record_is_reported() -> None:
    bench = Bench()
    bench.set_up("ann", "", GIVEN)
    row = bench.kv.get(accounts.PARTITION, accounts.ADMINISTRATOR)
    assert row is not ABSENT
    bench.kv.set(accounts.PARTITION, accounts.ADMINISTRATOR, row.value[:1], b"v" * 16)
    with pytest.raises(Corrupt):
        accounts.find(bench.kv)


def test_keys_of_two_purposes_differ() -> None:
    assert secrets.derive(SECRET, "a") != secrets.derive(SECRET, "b")
    assert secrets.derive(SECRET, "a") != secrets.derive(b"x" * 32, "a")


def _pair(given: NewCredential) -> tuple[str, str]:
    return given.access_key_id, given.secret_access_key
