"""The start and the stop of an application, as a server sees them."""

import asyncio
import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest

from graveler.api.app import Graveler, Life
from graveler.core.errors import Unavailable
from graveler.http.server import make_server

Message = MutableMapping[str, Any]


def life_in(log: list[str], failing: str = "") -> Life:
    """A life that logs its start and its end; the one that `failing` names raises instead."""

    def step(name: str) -> None:
        if name == failing:
            raise Unavailable(f"the store is away: at the {name}")
        log.append(name)

    @contextmanager
    def life() -> Iterator[None]:
        step("start")
        yield
        step("end")

    return life


def drive(life: Life, log: list[str]) -> list[Message]:
    """Start an application with this life and stop it, as a server does, and return its answers."""
    events = iter(["startup", "shutdown"])
    answers: list[Message] = []

    async def receive() -> Message:
        log.append(next(events))
        return {"type": f"lifespan.{log[-1]}"}

    async def send(message: Message) -> None:
        log.append(message["type"].removeprefix("lifespan."))
        answers.append(message)

    asyncio.run(Graveler(life)({"type": "lifespan"}, receive, send))
    return answers


def test_the_life_lasts_from_the_start_to_the_stop() -> None:
    log: list[str] = []
    drive(life_in(log), log)
    assert log == ["startup", "start", "startup.complete", "shutdown", "end", "shutdown.complete"]


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ("start", ["startup", "startup.failed"]),
        ("end", ["startup", "start", "startup.complete", "shutdown", "shutdown.failed"]),
    ],
)
def test_a_failure_is_told_to_the_server(failing: str, expected: list[str]) -> None:
    log: list[str] = []
    with pytest.raises(Unavailable, match="the store is away"):
        drive(life_in(log, failing), log)
    assert log == expected


def test_a_server_whose_application_does_not_start_never_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    ready: list[int] = []
    server = make_server(Graveler(life_in([], "start")), "127.0.0.1", 0, ready.append)
    with pytest.raises(SystemExit):
        server.run()
    assert not ready
    assert not server.started
    assert "the store is away: at the start" in caplog.text


def test_a_server_logs_what_fails_at_the_stop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    log: list[str] = []

    def stop(_port: int) -> None:
        server.should_exit = True

    server = make_server(Graveler(life_in(log, "end")), "127.0.0.1", 0, stop)
    server.run()
    assert log == ["start"]
    assert "the store is away: at the end" in caplog.text
