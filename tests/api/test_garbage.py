"""Requests and connections leave no cycles: what they held is freed when they end.

Python's collector would find cycles, but late, and a service lets it look rarely
(cli/support/host.py).
Each test sends requests to a real server while the collector is off.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from graveler.core.records import ABSENT
from tests.api.garbage import COUNT, left_by
from tests.api.serving import API, Served, served
from tests.tls import certified

REPO = "/repositories/lake"


@pytest.fixture(scope="module", params=["http", "https"])
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("garbage")
    tls = certified(folder) if request.param == "https" else ABSENT
    with served(folder / "store", tls=tls) as running:
        body = {"name": "lake", "storage_namespace": "local://lake/x"}
        assert running.client.send("POST", "/repositories", body=body).status == 201
        yield running


def _cut_off(live: Served) -> None:
    """Begin an upload, and hang up."""
    head = (
        f"POST {API}{REPO}/branches/main/objects?path=cut HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {live.client.authorization}\r\nContent-Length: 100\r\n\r\n"
    )
    with closing(live.client.connected()) as raw:
        raw.sendall(head.encode() + b"x" * 50)


def _malformed(live: Served) -> None:
    with closing(live.client.connected()) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nno header\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


def _sends(method: str, path: str, status: int, **more: object) -> Callable[[Served], None]:
    def send(live: Served) -> None:
        assert live.client.send(method, path, **more).status == status  # type: ignore[arg-type]

    return send


REQUESTS: dict[str, Callable[[Served], None]] = {
    "an answer": _sends("GET", f"{REPO}/branches/main", 200),
    "an answer of a thread": _sends("GET", f"{REPO}/refs/main/objects/ls", 200),
    "an error": _sends("GET", f"{REPO}/branches/none", 404),
    "an error of a thread": _sends("GET", f"{REPO}/refs/none/objects/ls", 404),
    "a commit without changes": _sends(
        "POST", f"{REPO}/branches/main/commits", 400, body={"message": "m"}
    ),
    "no credentials": _sends("GET", REPO, 401, headers={"Authorization": "Basic eDp5"}),
    "no operation": _sends("GET", "/nothing", 404),
    "an upload that is cut off": _cut_off,
    "a malformed request": _malformed,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_leaves_no_cycle(live: Served, name: str) -> None:
    assert not left_by(live, REQUESTS[name])


def test_the_measure_finds_a_cycle(live: Served) -> None:
    class Found:
        def __init__(self) -> None:
            self.itself = self

    Found.__module__ = "graveler.none"
    assert left_by(live, lambda _: Found() and None) == {
        "graveler.none.test_the_measure_finds_a_cycle.<locals>.Found": COUNT
    }
