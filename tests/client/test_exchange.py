"""Requests whose answers are read later: several under way in one thread, and how long it waits."""

import select
import threading
from collections.abc import Iterator

import pytest

from graveler.client.connections import Connections
from graveler.client.exchange import PendingAnswer, Request
from graveler.errors import OutcomeUnknown, Unavailable
from tests.client.scripted import Said, Scripted, scripted
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def pool(clock: TickingClock) -> Iterator[Connections]:
    connections = Connections(clock)
    yield connections
    connections.close()


def begin(pool: Connections, server: Scripted, method: str = "POST") -> PendingAnswer:
    """Send a request, and wait until the server has it."""
    before = len(server.asked)
    awaited = pool.begin(Request(method, f"{server.url}/x", {}, b"{}"))
    until(lambda: len(server.asked) > before, "the request arrived")
    return awaited


def body(awaited: PendingAnswer) -> bytes:
    with awaited.answer() as answer:
        return answer.read_all(100)


def test_answers_are_read_in_any_order_on_connections_of_their_own(pool: Connections) -> None:
    said = [Said(200, b"first"), Said(200, b"second"), Said(200, b"third")]
    with scripted(said, keeps=True) as server:
        first, second = begin(pool, server), begin(pool, server)
        assert first.connection is not second.connection
        assert [body(second), body(first)] == [b"second", b"first"]
        third = begin(pool, server)
        assert third.connection is first.connection and body(third) == b"third"
        pool.close()


@pytest.mark.parametrize(("method", "kind"), [("POST", OutcomeUnknown), ("GET", Unavailable)])
def test_an_answer_that_does_not_come_is_lost_at_the_deadline(
    pool: Connections, clock: TickingClock, method: str, kind: type[Exception]
) -> None:
    over = threading.Event()
    silent = Said(200, before=lambda: held(over))
    with scripted([silent]) as server:
        awaited = begin(pool, server, method)
        assert awaited.deadline == clock.steady_seconds() + pool.seconds
        clock.sleep(pool.seconds + 1)
        try:
            with pytest.raises(kind, match="answer was lost"):
                awaited.answer()
        finally:
            over.set()


def test_an_answer_that_came_in_time_is_read_after_the_deadline_too(
    pool: Connections, clock: TickingClock
) -> None:
    go_on = threading.Event()
    slow = Said(200, b"slow", before=lambda: held(go_on))
    with scripted([Said(200, b"here"), slow], keeps=True) as server:
        awaited = begin(pool, server)
        until(lambda: is_readable(awaited), "the answer arrived")
        clock.sleep(pool.seconds + 1)
        assert body(awaited) == b"here"
        # The connection waits as long as before.
        following = begin(pool, server)
        assert following.connection is awaited.connection
        timer = threading.Timer(0.1, go_on.set)
        timer.start()
        assert body(following) == b"slow"
        timer.join()
        pool.close()


def test_an_answer_that_is_given_up_closes_its_connection(pool: Connections) -> None:
    with scripted([Said(200), Said(200, b"other")], keeps=True) as server:
        given_up = begin(pool, server)
        given_up.close()
        other = begin(pool, server)
        assert other.connection is not given_up.connection and body(other) == b"other"
        pool.close()


def held(event: threading.Event) -> None:
    assert event.wait(PATIENCE_SECONDS)


def is_readable(awaited: PendingAnswer) -> bool:
    return bool(select.select([awaited.fileno()], [], [], 0)[0])
