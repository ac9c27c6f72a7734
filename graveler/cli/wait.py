"""Waits for a job of the server, which runs on if the command ends first.  For this folder."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from graveler import limits
from graveler.cli.hints import of_server
from graveler.cli.invocation import Invocation
from graveler.errors import GravelerError, OutcomeUnknown, Unavailable
from graveler.records import Absent

_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0
_LINE_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = limits.job_seconds_max + 15 * 60

T = TypeVar("T")


class Task(NamedTuple):
    """What is waited for.  `kind`: a word for it, for people."""

    repository: str
    kind: str
    id: str


def wait(invocation: Invocation, task: Task, ask: Callable[[], T | Absent]) -> T:
    """Ask until the answer is not `ABSENT`, and return it.  Progress goes to stderr.

    A server that cannot be reached is asked again.  Raises the other errors of `ask`, and
    `OutcomeUnknown` if the job does not end in time; each names the command that shows the job, as
    the `KeyboardInterrupt` does."""
    clock, pause = invocation.session.clock, _PAUSE_SECONDS
    command = f"graveler jobs show {task.repository} {task.id}"
    start = shown_at = clock.steady_seconds()
    try:
        while (now := clock.steady_seconds()) < start + _WAIT_SECONDS:
            if now - shown_at >= _LINE_SECONDS:
                shown_at = now
                invocation.output.note(f"the {task.kind} runs for {now - start:.0f} s")
            with suppress(Unavailable):  # the server continues the job
                answer = ask()
                if not isinstance(answer, Absent):
                    return answer
            clock.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        raise OutcomeUnknown(f"{task.kind} still runs: job={task.id}")
    except KeyboardInterrupt as interrupt:
        text = of_server(invocation, f"the server goes on: {command}")
        raise KeyboardInterrupt(text) from interrupt
    except GravelerError as error:
        error.fields = {**error.fields, "remedy": command}
        raise
