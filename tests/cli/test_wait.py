"""How the client waits for a job of the server."""

from dataclasses import dataclass
from typing import Any

import pytest

from graveler.cli.commands.jobs import Task, wait
from graveler.cli.support.invocation import Invocation
from graveler.core import limits
from graveler.core.errors import NotFound, OutcomeUnknown, Unavailable
from graveler.lake.job import RefsProgress

TASK = Task("lake", "restore", "7f3c9a")
COMMAND = "graveler jobs show lake 7f3c9a"


class Clock:
    """Sleeps pass at once."""

    now = 0.0

    def steady_seconds(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Waiting:
    clock: Clock


def invocation(**flags: Any) -> tuple[Invocation, Clock]:
    made, clock = Invocation(flags), Clock()
    made.__dict__["session"] = Waiting(clock)
    return made, clock


def test_a_server_that_cannot_be_reached_is_asked_until_the_deadline() -> None:
    made, clock = invocation(quiet=True)

    def ask() -> RefsProgress:
        raise Unavailable("connection refused")

    with pytest.raises(OutcomeUnknown, match="restore still runs: job=7f3c9a") as failed:
        wait(made, TASK, ask)
    assert failed.value.fields == {"remedy": COMMAND}
    assert clock.now >= limits.job_seconds_max


def test_another_error_ends_the_waiting_and_names_the_job() -> None:
    def ask() -> RefsProgress:
        raise NotFound("not found", status="404")

    with pytest.raises(NotFound) as failed:
        wait(invocation()[0], TASK, ask)
    assert failed.value.fields == {"status": "404", "remedy": COMMAND}


def test_progress_and_an_interrupt_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    made, clock = invocation()

    def ask() -> Any:
        if clock.now > 15:
            raise KeyboardInterrupt
        return RefsProgress("7f3c9a", done=False)

    with pytest.raises(KeyboardInterrupt, match=f"the server goes on: {COMMAND}"):
        wait(made, TASK, ask)
    assert capsys.readouterr().err.startswith("the restore runs for 1")


def test_the_answer_is_returned() -> None:
    steps = [RefsProgress("7f3c9a", done=False), RefsProgress("7f3c9a", done=True)]
    answers = iter(steps)
    assert wait(invocation()[0], TASK, lambda: next(answers)) is steps[1]
