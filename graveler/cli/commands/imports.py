"""`graveler import`: objects of a storage become objects of a branch, without a copy."""

import sys
from typing import Any, Final

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
from graveler.client import jobs, objects
from graveler.client.commits import Message
from graveler.client.jobs import ImportSource, ImportStatus
from graveler.core.errors import Conflict, GravelerError, OutcomeUnknown, Unavailable, UsageMistake

_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0
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
    id = ""
    try:
        with interrupt_later():
            id = jobs.begin_import(
                *(invocation.session, place.repository, place.ref),
                ImportSource(source, place.path, "object" if is_object else "common_prefix"),
                Message(text, metadata_pairs(pairs)),
            )
        if no_wait:
            invocation.output.record({"id": id}, [id])
            invocation.output.note(_goes_on(invocation, place, id))
            return 0
        done = _wait(invocation, place, id, progress_of(invocation, **how))
    except KeyboardInterrupt as interrupt:
        if not id:
            raise
        goes_on = invocation.may_ask() and not _wants_to_cancel()
        end = _goes_on(invocation, place, id) if goes_on else _cancelled(invocation, place, id)
        raise KeyboardInterrupt(end) from interrupt
    line = f"imported {plural(done.objects, 'object')}: {invocation.output.id(done.commit)}"
    invocation.output.record(done.answer, [line])
    if done.skipped:
        invocation.output.note("\n".join(_skipped_lines(done)))
    if not done.objects:
        _warn(invocation, source, place, done.commit)
    return 0


def _skipped_lines(done: ImportStatus) -> list[str]:
    lines = [f"warning: skipped {plural(done.skipped, 'name')} that cannot be imported:"]
    more = done.skipped - len(done.examples)
    return lines + done.examples + ([f"and {plural(more, 'other')}"] if more > 0 else [])


def _warn(invocation: Invocation, source: str, place: Address, commit: str) -> None:
    """Say what the commit of an import without objects did."""
    back = of_server(invocation, f"graveler revert {place.at('')} {commit[:12]}")
    invocation.output.note(
        f"warning: no object is at {source}: the commit adds nothing, and removes all that was "
        f"below {place}\nto take it back: {back}"
    )


def _check_replaced(invocation: Invocation, place: Address, *, yes: bool) -> None:
    """Ask if objects are below the destination."""
    listed = objects.list_objects(
        invocation.session, place.repository, place.ref, place.path, amount=1
    )
    if not yes and next(listed, None) is not None:
        invocation.confirm(f"Replace all that is below {place}?", yes=yes)


def _wait(invocation: Invocation, place: Address, id: str, progress: Progress) -> ImportStatus:
    session, pause = invocation.session, _PAUSE_SECONDS
    start = shown_at = session.clock.steady_seconds()
    shows = sys.stderr.isatty() and progress == "auto"
    while True:
        try:
            status = jobs.import_status(session, place.repository, place.ref, id)
        except Unavailable as error:  # it runs on
            remedy = f"graveler jobs show {place.repository} {id}"
            raise OutcomeUnknown(f"import={id} was begun: {error}", remedy=remedy) from error
        now = session.clock.steady_seconds()
        rate = status.objects / max(now - start, 0.001)
        text = f"{plural(status.objects, 'object')}, {rate:,.0f}/s"
        if progress == "json":
            sums = {"objects": status.objects, "objects_per_second": round(rate)}
            print(dumped({"progress": sums}), file=sys.stderr, flush=True)
        elif shows:
            end = "\r" + " " * len(text) + "\r" if status.completed else ""
            print(f"\r{text}{end}", end="", file=unguarded(sys.stderr), flush=True)
        elif progress == "auto" and now - shown_at >= _LINE_SECONDS:
            shown_at = now
            invocation.output.note(text)
        if status.completed:
            return status
        session.clock.sleep(pause)
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)


def _wants_to_cancel() -> bool:
    """Ask what becomes of an import whose wait was interrupted.  A further Ctrl-C leaves it."""
    click.echo(err=True)
    try:
        return click.confirm("The server goes on with the import.  Cancel it?", err=True)
    except click.Abort:
        return False


def _goes_on(invocation: Invocation, place: Address, id: str, verb: str = "goes on") -> str:
    job = f"{place.repository} {id}"
    text = f"the import {verb}: graveler jobs show {job}\nto cancel it: graveler jobs cancel {job}"
    return of_server(invocation, text)


def _cancelled(invocation: Invocation, place: Address, id: str) -> str:
    """Cancel an import; what became of it."""
    try:
        jobs.cancel_import(invocation.session, place.repository, place.ref, id)
    except Conflict:
        return "the import had completed already"
    except (GravelerError, KeyboardInterrupt):
        return _goes_on(invocation, place, id, "may go on")
    return "the import is cancelled; the branch did not change"
