"""`graveler usage`: how many requests a deployment has answered."""

from graveler.cli.command import client
from graveler.cli.invocation import Invocation
from graveler.cli.output import Column, field
from graveler.client import admin

_COLUMNS = (
    Column("MONTH", lambda month: f"{month['year']}-{month['month']:02}"),
    field("count", "count", "REQUESTS"),
)


@client("usage", examples=("graveler usage", "graveler usage --json"))
def usage(invocation: Invocation) -> int:
    """Show how many requests the server has answered, by month."""
    report = admin.usage(invocation.session)
    if invocation.output.form == "json":
        invocation.output.record(report, ())
    elif not invocation.output.items(_COLUMNS, report["reports"]):
        invocation.output.note("no requests yet")
    return 0
