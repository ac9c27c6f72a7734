"""Calls at the same time: all of them, in order, errors last, and no waiting for oneself."""

import threading
from collections.abc import Iterator

import pytest

from graveler.assembly.drivers import ThreadFanout
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def fanout() -> Iterator[ThreadFanout]:
    fanout = ThreadFanout(4)
    yield fanout
    fanout.close()


def test_calls_run_at_the_same_time_and_answer_in_order(fanout: ThreadFanout) -> None:
    together = threading.Barrier(4)

    def call(number: int) -> int:
        together.wait(timeout=PATIENCE_SECONDS)
        return number * number

    assert fanout.map(call, range(4)) == [0, 1, 4, 9]


def test_an_error_is_raised_after_all_have_ended(fanout: ThreadFanout) -> None:
    ended: list[int] = []

    def call(number: int) -> None:
        if number == 0:
            raise ValueError("first")
        ended.append(number)

    with pytest.raises(ValueError, match="first"):
        fanout.map(call, range(8))
    assert sorted(ended) == list(range(1, 8))


def test_calls_that_hand_over_calls_do_not_wait_for_themselves(fanout: ThreadFanout) -> None:
    def outer(number: int) -> list[int]:
        return fanout.map(lambda inner: 10 * number + inner, range(3))

    assert fanout.map(outer, range(8))[7] == [70, 71, 72]
