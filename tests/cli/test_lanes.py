"""Small uploads from one thread: several at a time, with failures, silence and interrupts."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from graveler.cli.lanes import Lanes, PendingItem
from graveler.cli.tally import Tally
from graveler.client import connect, objects
from graveler.client.connections import Connections
from graveler.client.objects import Upload
from graveler.errors import Unauthenticated, Unavailable
from graveler.testing.clockwork import TickingClock
from tests.client.scripted import Said, scripted
from tests.waiting import PATIENCE_SECONDS

STATS = {"path": "p", "checksum": "c" * 32, "mtime": 1, "size_bytes": 1}
STORED = Said(201, json.dumps(STATS).encode())


def begin(url: str, tally: Tally, number: int) -> PendingItem:
    session = connect(url, "key", "secret")
    begun = objects.begin_upload(session, "lake", "main", f"p{number}", b"x", Upload())

    def finish() -> None:
        objects.uploaded(begun.answer())
        tally.ended()

    return PendingItem(begun, finish)


@contextmanager
def listener(serve: Callable[[list[socket.socket]], None], count: int) -> Iterator[str]:
    """A server that reads one request from each of `count` connections, then serves them all."""
    connections: list[socket.socket] = []

    def run() -> None:
        for _ in range(count):
            connection, _ = listening.accept()
            connections.append(connection)
            received = b""
            while not received.endswith(b"\r\n\r\nx"):
                received += connection.recv(65_536)
        serve(connections)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_SECONDS)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join(PATIENCE_SECONDS)
            for connection in connections:
                connection.close()


def answer_backwards(connections: list[socket.socket]) -> None:
    body = json.dumps(STATS).encode()
    head = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(body)
    for connection in reversed(connections):
        connection.sendall(head + body)


def test_requests_are_under_way_at_the_same_time() -> None:
    """The server answers none before it has all, and in another order."""
    tally = Tally()
    with listener(answer_backwards, 4) as url:
        lanes = Lanes(4, TickingClock(), tally)
        for number in range(4):
            lanes.send(str(number), partial(begin, url, tally, number))
        lanes.finish()
    assert tally.files == 4 and not tally.failures


def test_a_failure_is_that_of_its_item() -> None:
    tally = Tally()
    answers = [STORED, Said(412, b'{"message": "there"}'), Said(0), STORED]
    with scripted(answers) as server:
        lanes = Lanes(1, TickingClock(), tally)
        for number in range(4):
            lanes.send(str(number), partial(begin, server.url, tally, number))
        lanes.finish()
    assert tally.files == 2
    assert [name for name, _ in tally.failures] == ["1", "2"]


def test_nobody_listens() -> None:
    tally = Tally()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    lanes = Lanes(2, TickingClock(), tally)
    lanes.send("a", partial(begin, url, tally, 1))
    assert isinstance(tally.errors[0], Unavailable)


def test_credentials_that_are_wrong_end_all() -> None:
    tally = Tally()
    with scripted([Said(401)]) as server:
        lanes = Lanes(1, TickingClock(), tally)
        lanes.send("a", partial(begin, server.url, tally, 1))
        with pytest.raises(Unauthenticated):
            lanes.finish()


def test_a_server_that_is_silent_is_given_up() -> None:
    tally, clock = Tally(), TickingClock()
    with listener(lambda _: None, 1) as url:
        lanes = Lanes(1, clock, tally)
        lanes.send("a", partial(begin, url, tally, 1))
        clock.sleep(61)
        lanes.finish()
    assert [name for name, _ in tally.failures] == ["a"] and "no answer" in str(tally.errors[0])


def test_an_interrupt_waits_for_no_answer() -> None:
    tally = Tally()
    with listener(lambda _: None, 1) as url:
        lanes = Lanes(1, TickingClock(), tally)
        lanes.send("a", partial(begin, url, tally, 1))
        tally.stop.set()
        lanes.finish()
        lanes.close()
    assert not tally.files and not tally.failures


def test_connections_are_opened_together() -> None:
    """The server accepts none before all have come; then requests use what is open."""
    pool, count = Connections(), 4
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        pool.prepare(url, count)
        listening.settimeout(PATIENCE_SECONDS)
        accepted = [listening.accept()[0] for _ in range(count)]
        session, begun = connect(url, "key", "secret", connections=pool), []
        for number in range(count):
            begun.append(
                objects.begin_upload(session, "lake", "main", f"p{number}", b"x", Upload())
            )
        assert all(connection.recv(4) == b"POST" for connection in accepted)
        for sent, connection in zip(begun, accepted, strict=True):
            sent.give_up()
            connection.close()
