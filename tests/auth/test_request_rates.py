"""Requests of one user are limited, whatever keys it uses; those of others go on."""

import pytest

from graveler.auth.throttling import BURST_SECONDS, RequestRates
from graveler.core.errors import Throttled
from tests.support.clockwork import TickingClock


def _served(rates: RequestRates, uid: str, count: int) -> int:
    """How many of `count` requests are served."""
    served = 0
    for _ in range(count):
        try:
            rates.take(uid)
            served += 1
        except Throttled:
            pass
    return served


def test_a_user_has_a_burst_and_then_a_rate() -> None:
    clock = TickingClock()
    rates = RequestRates(clock, 5)
    burst = int(5 * BURST_SECONDS)
    assert _served(rates, "a", 3 * burst) == burst
    clock.sleep(2.0)
    assert _served(rates, "a", 100) == 10
    clock.sleep(3600.0)
    assert _served(rates, "a", 1_000) == burst  # no more is saved up


def test_others_are_served() -> None:
    rates = RequestRates(TickingClock(), 1)
    assert _served(rates, "a", 1_000) == 10
    assert _served(rates, "b", 5) == 5


@pytest.mark.parametrize(("rate", "seconds"), [(5, 1), (0.1, 10), (1 / 60, 60)])
def test_who_waits_as_long_as_told_is_served(rate: float, seconds: int) -> None:
    clock = TickingClock()
    rates = RequestRates(clock, rate)
    for _ in range(5):
        with pytest.raises(Throttled) as refused:
            _ = [rates.take("a") for _ in range(1_000)]
        assert refused.value.seconds == seconds
        clock.sleep(refused.value.seconds)
        rates.take("a")


def test_a_refused_request_takes_nothing() -> None:
    clock = TickingClock()
    rates = RequestRates(clock, 1)
    assert _served(rates, "a", 10_000) == 10
    clock.sleep(1.0)
    assert _served(rates, "a", 2) == 1


def test_without_a_rate_nothing_is_refused() -> None:
    assert _served(RequestRates(TickingClock()), "a", 10_000) == 10_000


def test_the_users_with_the_latest_requests_are_remembered() -> None:
    rates = RequestRates(TickingClock(), 1, users_max=3)
    for uid in "abcd":
        _served(rates, uid, 100)
    assert [_served(rates, uid, 1) for uid in "bcd"] == [0, 0, 0]
    assert _served(rates, "a", 100) == 10  # forgotten, so it begins again
    assert _served(rates, "b", 1) == 1  # and it took the place of the oldest
