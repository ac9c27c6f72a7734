"""`graveler import`: objects of a storage become objects of a branch, without a copy."""

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.support.address import Address
from graveler.cli.support.command import client
from graveler.cli.support.failures import of_server
from graveler.cli.support.interrupts import interrupt_later
from graveler.cli.support.invocation import Invocation, metadata_pairs
from graveler.cli.support.options import address_argument, ignored, yes
from graveler.cli.support.output import dumped, plural, unguarded
from graveler.cli.support.progress import Progress
from graveler.cli.support.transfers import progress_of, progress_option
from graveler.core.errors import Conflict, GravelerError, OutcomeUnknown, Unavailable, UsageMistake

if TYPE_CHECKING:
    from graveler.lake.job import Import, ImportProgress

_LINE_SECONDS: Final = 10.0


@client(
    "import",
    examples=(
        "graveler import s3://bucket/sales/ lake/main/sales/",
        "graveler import s3://bucket/a.csv lake/main/a.csv --object -m 'Import a.csv'",
        "graveler import s3://bucket/sales/ lake/main/sales/ --no-wait --yes",
    ),
)
@click.argument("source", metavar="FROM", required=False)
@address_argument("address", metavar="BRANCH[/PATH]", required=False)
@click.option("--from", "lakectl_from", hidden=True)
@click.option("--to", "lakectl_to", hidden=True)
@ignored("--allow-empty-message")
@progress_option
@click.option("-m", "--message", default="", metavar="TEXT", help="of the commit")
@click.option("--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)")
@click.option("--object", "is_object", is_flag=True, help="FROM is one object, not a prefix")
@click.option("--no-wait", is_flag=True, help="print the id of the import, and end")
@yes
def import_command(
    invocation: Invocation,
    source: str | None,
    address: str | None,
    lakectl_from: str | None,
    lakectl_to: str | None,
    message: str,
    pairs: tuple[str, ...],
    is_object: bool,
    no_wait: bool,
    yes: bool,
    **how: Any,
) -> int:
    """Commit the objects of a storage to a branch, without copying them.

    FROM is a URL of the storage of the server, for example s3://bucket/prefix/.  The objects
    replace all that is below PATH on the branch.  If FROM does not exist, nothing changes.  If FROM
    is an empty folder, the commit removes what was below PATH and adds nothing: a warning says
    that, and the command ends with 0.  Names that no path can have, and files that are none
    (a pipe, a link that leads nowhere), are skipped: a warning counts them.

    Ctrl-C asks whether to cancel the import, or to let the server go on; where nobody can be asked
    it cancels.  `graveler jobs show` shows an import that goes on, also one of --no-wait, and
    `graveler jobs cancel` cancels it.
    """
    source, address = source or lakectl_from, address or lakectl_to
    if source is None or address is None:
        raise UsageMistake("FROM and BRANCH[/PATH] expected")
    place = invocation.path(address, optional=not is_object, fills=True)
    if not is_object:
        _check_replaced(invocation, place, yes=yes)
    text = message or f"Import {source}"
    branch = invocation.branch(place)
    metadata = metadata_pairs(pairs)
    begun: Import | None = None
    try:
        with interrupt_later():
            begun = branch.import_objects(
                source, place.path, text, metadata=metadata, is_object=is_object
            )
        if no_wait:
            invocation.output.record({"id": begun.id}, [begun.id])
            invocation.output.note(_goes_on(invocation, begun))
            return 0
        done = _wait(invocation, begun, progress_of(invocation, **how))
    except KeyboardInterrupt as interrupt:
        if begun is None:
            raise
        goes_on = invocation.may_ask() and not _wants_to_cancel()
        end = _goes_on(invocation, begun) if goes_on else _cancelled(invocation, begun)
        raise KeyboardInterrupt(end) from interrupt
    line = f"imported {plural(done.objects, 'object')}: {invocation.output.id(done.commit)}"
    invocation.output.record(done, [line])
    if done.skipped:
        invocation.output.note("\n".join(_skipped_lines(done)))
    if not done.objects:
        _warn(invocation, source, place, done.commit)
    return 0


def _skipped_lines(done: "ImportProgress") -> list[str]:
    lines = [f"warning: skipped {plural(done.skipped, 'name')} that cannot be imported:"]
    more = done.skipped - len(done.examples)
    return [*lines, *done.examples] + ([f"and {plural(more, 'other')}"] if more > 0 else [])


def _warn(invocation: Invocation, source: str, place: Address, commit: str) -> None:
    """Say what the commit of an import without objects did."""
    back = of_server(invocation, f"graveler revert {place.at('')} {commit[:12]}")
    invocation.output.note(
        f"warning: no object is at {source}: the commit adds nothing, and removes all that was "
        f"below {place}\nto take it back: {back}"
    )


def _check_replaced(invocation: Invocation, place: Address, *, yes: bool) -> None:
    """Ask if objects are below the destination."""
    if not yes and invocation.at(place).list(place.path, limit=1):
        invocation.confirm(f"Replace all that is below {place}?", yes=yes)


def _wait(invocation: Invocation, begun: "Import", progress: Progress) -> "ImportProgress":
    clock = invocation.session.clock
    start = shown_at = clock.steady_seconds()
    shows = sys.stderr.isatty() and progress == "auto"
    last: ImportProgress | None = None

    def show(status: "ImportProgress") -> None:
        nonlocal last, shown_at
        last, now = status, clock.steady_seconds()
        rate = status.objects / max(now - start, 0.001)
        text = f"{plural(status.objects, 'object')}, {rate:,.0f}/s"
        if progress == "json":
            sums = {"objects": status.objects, "objects_per_second": round(rate)}
            print(dumped({"progress": sums}), file=sys.stderr, flush=True)
        elif shows:
            end = "\r" + " " * len(text) + "\r" if status.done else ""
            print(f"\r{text}{end}", end="", file=unguarded(sys.stderr), flush=True)
        elif progress == "auto" and now - shown_at >= _LINE_SECONDS:
            shown_at = now
            invocation.output.note(text)

    try:
        begun.wait(progress=show)
    except Unavailable as error:  # it runs on
        remedy = f"graveler jobs show {begun.branch.repository} {begun.id}"
        raise OutcomeUnknown(f"import={begun.id} was begun: {error}", remedy=remedy) from error
    assert last is not None  # it was asked at least once
    return last


def _wants_to_cancel() -> bool:
    """Ask what becomes of an import whose wait was interrupted.  A further Ctrl-C leaves it."""
    click.echo(err=True)
    try:
        return click.confirm("The server goes on with the import.  Cancel it?", err=True)
    except click.Abort:
        return False


def _goes_on(invocation: Invocation, begun: "Import", verb: str = "goes on") -> str:
    job = f"{begun.branch.repository} {begun.id}"
    text = f"the import {verb}: graveler jobs show {job}\nto cancel it: graveler jobs cancel {job}"
    return of_server(invocation, text)


def _cancelled(invocation: Invocation, begun: "Import") -> str:
    """Cancel an import; what became of it."""
    try:
        begun.cancel()
    except Conflict:
        return "the import had completed already"
    except (GravelerError, KeyboardInterrupt):
        return _goes_on(invocation, begun, "may go on")
    return "the import is cancelled; the branch did not change"
