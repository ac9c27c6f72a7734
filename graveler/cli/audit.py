"""`graveler audit`: who changed what on a server, or was denied."""

from collections import deque
from typing import Any, Final

import click

from graveler.cli import moments
from graveler.cli.arguments import count
from graveler.cli.command import client
from graveler.cli.invocation import Invocation
from graveler.cli.output import Column, field
from graveler.client import admin
from graveler.client.admin import AuditFilter, AuditLine
from graveler.clock import SystemClock

_COLUMNS: Final = (
    field("time", "time"),
    field("user"),
    field("operation"),
    field("outcome"),
    field("status"),
    Column("RESOURCES", lambda line: " ".join(line.get("resources", ()))),
)
_COLORS: Final[dict[str, dict[str, Any]]] = {"denied": {"fg": "red"}, "failed": {"fg": "yellow"}}
_OUTCOMES: Final = ("done", "denied", "failed", "unknown")


@client(
    "audit",
    examples=(
        "graveler audit -n 20                          # of the last day",
        "graveler audit --since '2 weeks ago' --user ann",
        "graveler audit --action deleteBranch --outcome done --json",
    ),
)
@click.option("--since", default="", metavar="TIME", help="default: a day before --until")
@click.option("--until", default="", metavar="TIME", help="default: now")
@click.option("--user", default="", metavar="USER", help="only what this user did")
@click.option("--action", default="", metavar="OPERATION", help="of the API, such as deleteBranch")
@click.option("--outcome", type=click.Choice(_OUTCOMES), help="only lines with it")
@click.option("--resource", default="", metavar="ARN", help="only ARNs that begin with it")
@count
def audit(
    invocation: Invocation,
    since: str,
    until: str,
    user: str,
    action: str,
    outcome: str | None,
    resource: str,
    amount: int | None,
) -> int:
    """List the changes and denials of the last days, the newest first.

    The server sends the oldest first, so the command reads the whole span of time before it prints.
    """
    question = AuditFilter(_moment(since), _moment(until), user, action, outcome or "", resource)
    lines: deque[AuditLine] = deque(admin.audit_lines(invocation.session, question), maxlen=amount)
    style = lambda line: _COLORS.get(line["outcome"], {})  # noqa: E731
    if not invocation.output.items(_COLUMNS, reversed(lines), style):
        invocation.output.note("no lines: give --since TIME to look further back")
    return 0


def _moment(text: str) -> str:
    return moments.rfc3339(moments.parse(text, SystemClock().now_ns())) if text else ""
