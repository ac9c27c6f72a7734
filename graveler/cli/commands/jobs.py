"""`graveler jobs`: what the server does in the background."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import click

from graveler.cli.support.command import client, group
from graveler.cli.support.failures import of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, count, yes
from graveler.cli.support.output import Column, Styles, field
from graveler.core import limits
from graveler.core.errors import GravelerError, OutcomeUnknown

_STATES: Final = ("queued", "running", "landing", "done", "failed", "cancelled", "expired")
_LISTED_BY: Final = "graveler jobs list"


def _progress(job: Mapping[str, Any]) -> str:
    progress = job.get("progress")
    if not progress:
        return ""
    return f"{progress['done']} {progress['unit']}, {progress['per_second']:.0f}/s"


def _result(job: Mapping[str, Any]) -> str:
    return str(job.get("commit_id") or job.get("error", {}).get("message", ""))


_COLUMNS: Final = (
    field("id"),
    field("kind"),
    field("state"),
    field("create_time", "time", "CREATED"),
    field("branch"),
    Column("PROGRESS", _progress),
)
_WHOLE: Final = (
    *_COLUMNS,
    field("update_time", "time", "UPDATED"),
    field("attempts", "count"),
    field("waits_for"),
    field("committer"),
    field("cancellable"),
    Column("RESULT", _result),
)
_STYLES: Final[Styles] = ("state", {"failed": {"fg": "red"}, "running": {"fg": "green"}})


@group("jobs")
def jobs() -> None:
    """See and cancel what the server does in the background."""


@client(
    "list",
    group=jobs,
    examples=(
        "graveler jobs list lake",
        "graveler jobs list lake --state running",
        "graveler jobs list lake --kind import -n 5 --json",
    ),
)
@address_argument("repository")
@click.option("--kind", default="", metavar="KIND", help="commit, merge, import, dump …")
@click.option("--state", type=click.Choice(_STATES), default=None, help="only those in it")
@count
def list_jobs(
    invocation: Invocation, repository: str, kind: str, state: str | None, amount: int | None
) -> int:
    """List the jobs of a repository, the newest first."""
    name = invocation.repository(repository)
    rows = invocation.repo(name).jobs(kind=kind, state=state or "", limit=amount)
    invocation.output.items(_COLUMNS, rows, _STYLES, none="no jobs")
    return 0


@client("show", group=jobs, examples=("graveler jobs show lake 7f3c9a",))
@address_argument("repository")
@click.argument("id")
def show(invocation: Invocation, repository: str, id: str) -> int:
    """Show one job, with its result."""
    name = invocation.item_of(repository, id, _LISTED_BY)
    invocation.output.pairs(invocation.repo(name).job(id), _WHOLE)
    return 0


@client("cancel", group=jobs, examples=("graveler jobs cancel lake 7f3c9a --yes",))
@address_argument("repository")
@click.argument("id")
@yes
def cancel(invocation: Invocation, repository: str, id: str, yes: bool) -> int:
    """Cancel a job; what it has done so far is lost.

    A job that has ended, or is landing, cannot be cancelled: the command ends with 5.
    """
    name = invocation.item_of(repository, id, _LISTED_BY)
    known = invocation.repo(name)
    if not yes:
        job = known.job(id)
        progress = _progress(job.answer)
        done = f", {progress}" if progress else ""
        invocation.confirm(f"Cancel {job.kind} {id} ({job.state}{done})?", yes=yes)
    known.cancel_job(id)
    invocation.output.done(f"cancelled {id}")
    return 0


_LINE_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = limits.job_seconds_max + 15 * 60


class _Ends(Protocol):
    @property
    def done(self) -> bool: ...


T = TypeVar("T", bound=_Ends)


class Task(NamedTuple):
    """What is waited for.  `kind`: a word for it, for people."""

    repository: str
    kind: str
    id: str


def wait(invocation: Invocation, task: Task, ask: Callable[[], T]) -> T:
    """Ask until the answer is `done`, and return it.  Progress goes to stderr.

    A server that cannot be reached is asked again.  Raises the other errors of `ask`, and
    `OutcomeUnknown` if the job does not end in time; each names the command that shows the job, as
    the `KeyboardInterrupt` does."""
    from graveler.lake.session import looks, paused

    clock = invocation.session.clock
    command = f"graveler jobs show {task.repository} {task.id}"
    start = shown_at = clock.steady_seconds()

    def look() -> T | None:
        nonlocal shown_at
        now = clock.steady_seconds()
        if now - shown_at >= _LINE_SECONDS:
            shown_at = now
            invocation.output.note(f"the {task.kind} runs for {now - start:.0f} s")
        answer = ask()
        return answer if answer.done else None

    try:
        answer = paused(clock, looks(clock, look, _WAIT_SECONDS, inf))
        if answer is None:
            raise OutcomeUnknown(f"{task.kind} still runs: job={task.id}")
        return answer
    except KeyboardInterrupt as interrupt:
        text = of_server(invocation, f"the server goes on: {command}")
        raise KeyboardInterrupt(text) from interrupt
    except GravelerError as error:
        error.fields = {**error.fields, "remedy": command}
        raise
