"""`graveler jobs`: what the server does in the background."""

from collections.abc import Mapping
from typing import Any, Final

import click

from graveler.cli.arguments import address_argument, count, yes
from graveler.cli.command import client, group
from graveler.cli.invocation import Invocation
from graveler.cli.output import Column, field
from graveler.client import jobs as client_jobs

_STATES: Final = ("queued", "running", "landing", "done", "failed", "cancelled", "expired")


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
    field("cancellable"),
    Column("RESULT", _result),
)
_COLORS: Final[dict[str, dict[str, Any]]] = {"failed": {"fg": "red"}, "running": {"fg": "green"}}


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
    name = invocation.repository(repository).repository
    rows = client_jobs.list_jobs(
        invocation.session, name, kind=kind, state=state or "", amount=amount
    )
    style = lambda job: _COLORS.get(job["state"], {})  # noqa: E731
    if not invocation.output.items(_COLUMNS, rows, style):
        invocation.output.note("no jobs")
    return 0


@client("show", group=jobs, examples=("graveler jobs show lake 7f3c9a",))
@address_argument("repository")
@click.argument("id")
def show(invocation: Invocation, repository: str, id: str) -> int:
    """Show one job, with its result."""
    name = _about(invocation, repository, id)
    invocation.output.pairs(client_jobs.get_job(invocation.session, name, id), _WHOLE)
    return 0


@client("cancel", group=jobs, examples=("graveler jobs cancel lake 7f3c9a --yes",))
@address_argument("repository")
@click.argument("id")
@yes
def cancel(invocation: Invocation, repository: str, id: str, yes: bool) -> int:
    """Cancel a job; what it has done so far is lost.

    A job that has ended, or is landing, cannot be cancelled: the command ends with 5.
    """
    name = _about(invocation, repository, id)
    if not yes:
        job = client_jobs.get_job(invocation.session, name, id)
        done = f", {_progress(job)}" if _progress(job) else ""
        invocation.confirm(f"Cancel {job['kind']} {id} ({job['state']}{done})?", yes=yes)
    client_jobs.cancel_job(invocation.session, name, id)
    invocation.output.done(f"cancelled {id}")
    return 0


def _about(invocation: Invocation, repository: str, id: str) -> str:
    """The name of the repository of a job."""
    name = invocation.repository(repository).repository
    invocation.about(id, f"graveler jobs list {name}")
    return name
