"""A served store and a user of it, for the tests of client commands."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from graveler.core.clock import SystemClock
from tests.api.serving import Served, served
from tests.cli.commands import Client


@dataclass(frozen=True)
class Lake:
    """A user who is signed in to a server, and a fresh repository."""

    user: Client
    live: Served
    name: str

    def put(self, path: str, content: bytes = b"x", branch: str = "main") -> None:
        """Stage an object, past the commands."""
        reply = self.live.client.upload(self.name, path, content, branch)
        assert reply.status == 201, reply.body

    def commit(self, message: str = "a commit", branch: str = "main") -> str:
        """Commit, past the commands; the id."""
        where = f"/repositories/{self.name}/branches/{branch}/commits"
        reply = self.live.client.send("POST", where, body={"message": message})
        assert reply.status == 201, reply.body
        return str(reply.json["id"])

    def commit_of(self, path: str, message: str = "a commit") -> str:
        """Stage an object with content of its own and commit it, past the commands; the id."""
        self.put(path, path.encode())
        return self.commit(message)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A user without a profile."""
    (tmp_path / "home").mkdir()
    return Client(tmp_path / "home", monkeypatch)


@pytest.fixture
def lake(live: Served, user: Client) -> Lake:
    user.know(live.client.url)
    return Lake(user, live, live.fresh_repository())


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of commands in this process take no time, and their clock runs on by them."""
    slept, steady = 0.0, SystemClock.steady_seconds

    def sleep(_: SystemClock, seconds: float) -> None:
        nonlocal slept
        slept += seconds

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    monkeypatch.setattr(SystemClock, "steady_seconds", lambda clock: steady(clock) + slept)
