"""Guesses are limited by address and by key; who knows the secret is not held up by others."""

import pytest

from graveler.auth import accounts, sessions, throttling
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.auth.keyrings import RingKey
from graveler.auth.throttling import DEFAULT_RATES, Attempts
from graveler.core import limits
from graveler.core.clock import SystemIds
from graveler.core.errors import Throttled, Unauthenticated
from graveler.core.requests import Counts, counted_store
from tests.auth.test_accounts import GIVEN, SECRET, Bench, SteppedClock, basic

KEY = GIVEN.access_key_id
ADDRESS, OTHER = "10.0.0.1", "10.0.0.2"


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    found.set_up("ann", "", GIVEN)
    return found


def guesses(bench: Bench, count: int, address: str, key: str = KEY) -> None:
    for number in range(count):
        assert not bench.accepts(NewCredential(key, f"wrong {number}"), address)


def test_an_address_that_keeps_guessing_is_not_looked_at(bench: Bench) -> None:
    guesses(bench, DEFAULT_RATES.by_address, ADDRESS)
    with pytest.raises(Throttled) as refused:
        bench.accepts(GIVEN, ADDRESS)  # not even the right one
    assert refused.value.seconds == 6
    with pytest.raises(Throttled):
        bench.auth.login(KEY, GIVEN.secret_access_key, ADDRESS)
    assert bench.auth.login(KEY, GIVEN.secret_access_key, OTHER).token
    bench.clock.sleep(refused.value.seconds)
    guesses(bench, 1, ADDRESS)
    with pytest.raises(Throttled):
        bench.accepts(GIVEN, ADDRESS)
    bench.clock.sleep(60)
    assert bench.accepts(GIVEN, ADDRESS)


def test_logins_count_as_every_other_request(bench: Bench) -> None:
    for _ in range(DEFAULT_RATES.by_address):
        with pytest.raises(Unauthenticated):
            bench.auth.login(KEY, "wrong", ADDRESS)
    with pytest.raises(Throttled):
        bench.accepts(NewCredential("OTHERKEY", "wrong"), ADDRESS)


def test_many_addresses_guess_one_key_together(bench: Bench) -> None:
    for number in range(DEFAULT_RATES.by_key):
        guesses(bench, 1, f"10.0.1.{number}")
    with pytest.raises(Throttled):
        guesses(bench, 1, "10.0.2.1")
    guesses(bench, 1, "10.0.2.1", "ANOTHERKEY")


def test_nobody_is_locked_out_by_others(bench: Bench) -> None:
    """Neither the next request with a header that was right, nor another one of its addresses."""
    assert bench.accepts(GIVEN, ADDRESS)
    for number in range(DEFAULT_RATES.by_key):
        guesses(bench, 1, f"10.0.1.{number}")
    assert bench.accepts(GIVEN, OTHER)  # the header was right before
    for address in (ADDRESS, OTHER):
        assert bench.auth.login(KEY, GIVEN.secret_access_key, address).token
    with pytest.raises(Throttled):
        bench.auth.login(KEY, GIVEN.secret_access_key, "10.0.0.3")


def test_an_address_stays_trusted_as_long_as_its_header_is_used(bench: Bench) -> None:
    for _ in range(24):  # hours of requests that are answered without a comparison
        assert bench.accepts(GIVEN, ADDRESS)
        bench.clock.sleep(1_800)
    assert bench.accepts(GIVEN, ADDRESS)
    for number in range(DEFAULT_RATES.by_key):
        guesses(bench, 1, f"10.0.1.{number}")
    assert bench.auth.login(KEY, GIVEN.secret_access_key, ADDRESS).token


def test_a_key_that_has_ended_makes_no_address_trusted(bench: Bench) -> None:
    assert bench.accepts(GIVEN, ADDRESS)
    accounts.reset(bench.keeper, NewCredential("ANOTHERKEY", "another secret of this test" * 2))
    bench.clock.sleep(limits.access_seconds_max)
    assert not bench.accepts(GIVEN, OTHER)
    for number in range(DEFAULT_RATES.by_key):
        guesses(bench, 1, f"10.0.1.{number}")
    with pytest.raises(Throttled):
        bench.auth.login(KEY, "wrong", OTHER)


def test_an_address_that_is_silent_for_an_hour_is_as_new(bench: Bench) -> None:
    assert bench.accepts(GIVEN, ADDRESS)
    bench.clock.sleep(3_600)
    for number in range(DEFAULT_RATES.by_key):
        guesses(bench, 1, f"10.0.1.{number}")
    with pytest.raises(Throttled):
        bench.auth.login(KEY, GIVEN.secret_access_key, ADDRESS)


def test_a_right_header_goes_on_from_an_address_that_failed(bench: Bench) -> None:
    assert bench.accepts(GIVEN, ADDRESS)
    guesses(bench, DEFAULT_RATES.by_address, ADDRESS)
    assert bench.auth.identify(basic(GIVEN), "", lambda: ADDRESS).user == "ann"


def test_forged_tokens_are_limited_and_hinder_nobody_with_a_right_one(bench: Bench) -> None:
    session = b"Bearer " + bench.auth.login(KEY, GIVEN.secret_access_key, ADDRESS).token.encode()
    for _ in range(DEFAULT_RATES.by_token):
        assert not bench.accepts_header(b"Bearer x.y.z", ADDRESS)
    with pytest.raises(Throttled):
        bench.auth.identify(b"Bearer x.y.z", "", lambda: ADDRESS)
    with pytest.raises(Throttled):
        bench.auth.log_out("x.y.z", ADDRESS)
    assert not bench.accepts_header(b"Bearer x.y.z", "10.0.0.77")  # of another sender
    assert bench.accepts_header(session, ADDRESS) and bench.accepts(GIVEN, ADDRESS)
    bench.clock.sleep(2)  # so that the session is verified again
    assert bench.accepts_header(session, ADDRESS)


def test_an_expired_session_is_no_forgery(bench: Bench) -> None:
    """A browser with an old session sends it on and on."""
    session = b"Bearer " + bench.auth.login(KEY, GIVEN.secret_access_key, ADDRESS).token.encode()
    bench.clock.sleep(sessions.LIFE_SECONDS)
    for _ in range(2 * DEFAULT_RATES.by_token):
        assert not bench.accepts_header(session, ADDRESS)


def test_a_forged_key_id_costs_no_request_once_the_limit_is_reached(bench: Bench) -> None:
    counts = Counts()
    keeper = accounts.keeper(counted_store(bench.kv, counts), bench.clock, SystemIds(), SECRET)
    bench.auth = Authenticator(keeper)
    for number in range(DEFAULT_RATES.by_token):
        token = sessions.issue(
            RingKey(f"{number:016}", SECRET), "ann", "e", bench.clock.seconds, "i"
        )
        assert not bench.accepts_header(b"Bearer " + token.token.encode(), ADDRESS)
    assert counts.total() == DEFAULT_RATES.by_token
    with pytest.raises(Throttled):
        bench.auth.identify(b"Bearer " + token.token.encode(), "", lambda: ADDRESS)
    assert counts.total() == DEFAULT_RATES.by_token


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("", "", True),
        ("no address", "no address", True),
    ],
)
def test_addresses_of_one_sender_count_together(one: str, other: str, same: bool) -> None:
    found = Attempts(SteppedClock())
    for _ in range(DEFAULT_RATES.by_address):
        found.failed("A", one)
    if same:
        with pytest.raises(Throttled):
            found.check("B", other)
    else:
        found.check("B", other)


def test_memory_is_bounded_and_the_latest_are_remembered() -> None:
    found = Attempts(SteppedClock())
    for number in range(throttling._COUNT_MAX + 100):
        found.failed(f"key {number}", f"10.1.{number // 256}.{number % 256}")
        found.succeeded(f"10.2.{number // 256}.{number % 256}")
    for kept in (found._addresses._used, found._keys._used, found._trusted):
        assert len(kept) == throttling._COUNT_MAX
    for _ in range(DEFAULT_RATES.by_address):
        found.failed("key", ADDRESS)
    with pytest.raises(Throttled):
        found.check("other", ADDRESS)
