"""`graveler download`: objects to files.  transfer.py runs it."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from graveler.cli import files, mirror, past
from graveler.cli.absence import naming_folder, some
from graveler.cli.address import Address, UsageMistake
from graveler.cli.arguments import address_argument, at
from graveler.cli.command import client
from graveler.cli.invocation import Invocation, session_of
from graveler.cli.mirror import (
    deletable,
    delete_files,
    surplus_files,
)
from graveler.cli.tally import Tally
from graveler.cli.transfer import Transfer
from graveler.cli.transfer_options import TransferOptions, ended, shows, transfer_options
from graveler.client import objects
from graveler.client.objects import Stats
from graveler.errors import Invalid


@client(
    "download",
    examples=(
        "graveler download lake/main/sales/2026.csv",
        "graveler download lake/v1.2/sales/2026.csv old.csv",
        "graveler download -r lake/main/sales/ sales",
        "graveler download -r lake/main/sales/ old --at 2026-11-01",
    ),
)
@address_argument("address", metavar="REF/PATH")
@click.argument("target", metavar="[DEST]", type=click.Path(), required=False)
@transfer_options
@at
def download(invocation: Invocation, address: str, target: str | None, **more: Any) -> int:
    """Download an object, or everything below a prefix (-r).

    A file appears under its name only when its size and checksum are right.  The same command
    continues an interrupted download.  Files that are the same already are left out.  Without DEST,
    files go to the current folder; --delete needs DEST.  A DEST that ends with a slash is a folder,
    which is made if it is missing.
    A file that differs from its object is replaced without a question; --no-clobber fails instead.
    Ends with 3 if there is nothing to download.
    """
    options = TransferOptions(**more).checked()
    folder = _folder(target, address, options)
    is_folder = options.recursive or folder.is_dir() or (target or "").endswith("/")
    place = past.then(invocation, invocation.path(address, optional=options.recursive))
    session, tally = invocation.session, Tally()
    presign = options.pre_sign and objects.presigns(session)
    chosen: Iterable[tuple[Stats, str]] = wanted(invocation, place, options)
    surplus: list[str] = []
    if options.delete:
        chosen = list(chosen)
        keep = {relative for _, relative in chosen}
        surplus = surplus_files(folder, keep, options.choice)
        yes = options.yes or options.dry_run
        mirror.check(invocation, surplus, keep, folder.resolve(), yes=yes)

    chosen = some(chosen, options.choice)

    def receive(order: files.Download, tally: Tally) -> None:
        if _is_here(order):
            tally.ended(skipped=True, length=order.stats.get("size_bytes", 0))
            return
        files.download(order, tally)
        tally.ended()

    def orders(tally: Tally) -> Iterator[files.Download]:
        for stats, relative in chosen:
            try:
                file = files.target(folder, relative) if is_folder else folder
            except Invalid as error:
                tally.expect(0)
                tally.failed(stats["path"], error)
                continue
            tally.expect(stats.get("size_bytes", 0))
            yield files.Download(
                *(session, place.repository, place.ref, stats, file, presign),
                create_only=options.no_clobber,
            )

    if options.dry_run:
        rows = (_download_row(order) for order in orders(tally))
        gone = (str(folder / path) for path in surplus)
        mirror.show(invocation, chain(rows, mirror.deletions(gone, tally)))
        tally.check("ready to be downloaded")
        return 0
    transfer = Transfer(
        receive, lambda order: order.stats["path"], options.threads, shows(invocation, options)
    )
    transfer.run(orders, tally)
    delete_files(folder, deletable(invocation, surplus, tally, "downloaded"), tally)
    return ended(invocation, tally, "downloaded", options)


def _folder(target: str | None, address: str, options: TransferOptions) -> Path:
    """Where files go.  Raises `UsageMistake`."""
    if target is None and options.delete:
        raise UsageMistake("--delete needs DEST: write . for the current folder")
    if target == "-":
        raise UsageMistake(f"- is no file (./- is): graveler cat {address} prints an object")
    return Path(target or "")


def _is_here(order: files.Download) -> bool:
    """Whether the file is the object already."""
    length = order.stats.get("size_bytes", 0)
    return order.file.is_file() and (
        files.is_same(order.file, length, order.stats) or files.is_same_by_time(order)
    )


def _download_row(order: files.Download) -> dict[str, Any]:
    action = "leave" if _is_here(order) else "download"
    return mirror.row(action, str(order.file), order.stats.get("size_bytes", 0))


def wanted(
    invocation: Invocation, place: Address, options: TransferOptions
) -> Iterator[tuple[Stats, str]]:
    """The chosen objects at an address, each with its path below it."""
    session, choice = session_of(invocation, place), options.choice
    if not options.recursive:
        with naming_folder(invocation, place):
            stats = objects.stat(session, place.repository, place.ref, place.path)
        yield stats, place.path.rpartition("/")[2]
        return
    prefix = place.folder
    for stats in objects.list_objects(session, place.repository, place.ref, prefix):
        relative = stats["path"].removeprefix(prefix)
        # A path that ends with a slash is the marker of a folder.
        if not relative.endswith("/") and relative and choice.chooses(relative):
            yield stats, relative
