"""`graveler download`: objects to files.  transfer.py runs it."""

import os
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
from graveler.errors import AlreadyExists, Invalid


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
    In the current folder, which may be a home folder, a file that differs is replaced only with
    --yes or --delete.
    Ends with 3 if there is nothing to download.
    """
    options = TransferOptions(**more).checked()
    folder = _folder(target, address, options)
    is_folder = options.recursive or folder.is_dir() or (target or "").endswith("/")
    place = past.then(invocation, invocation.path(address, optional=options.recursive))
    session, tally = invocation.session, Tally()
    presign = options.pre_sign and objects.storage(session).presigns
    chosen: Iterable[tuple[Stats, str]] = wanted(invocation, place, options)
    surplus: list[str] = []
    if options.delete:
        chosen = list(chosen)
        keep = {relative for _, relative in chosen}
        surplus = surplus_files(folder, keep, options.choice)
        yes = options.yes or options.dry_run
        mirror.check(invocation, surplus, keep, folder.resolve(), yes=yes)

    chosen = some(chosen, options.choice)
    may_replace = not is_folder or _may_replace(folder, options)

    def receive(order: files.Download, tally: Tally) -> None:
        if _is_here(order):
            tally.ended(skipped=True, length=order.stats.get("size_bytes", 0))
            return
        if not may_replace:
            _check_absent(order)
        files.download(order, tally)
        tally.ended()

    def orders(tally: Tally) -> Iterator[files.Download]:
        destination = files.Destination(folder) if is_folder else None
        source = (session, place.repository, place.ref)
        for stats, file in _files(chosen, destination, folder, tally):
            yield files.Download(*source, stats, file, presign, create_only=options.no_clobber)

    if options.dry_run:
        rows = _download_rows(orders(tally), tally, may_replace=may_replace)
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


def _files(
    chosen: Iterable[tuple[Stats, str]],
    destination: files.Destination | None,
    file: Path,
    tally: Tally,
) -> Iterator[tuple[Stats, Path]]:
    """Each object with its file: in the destination, or `file`.  What no file can have is a failed
    item of the tally."""
    for stats, relative in chosen:
        try:
            target = file if destination is None else destination.file(relative)
        except Invalid as error:
            tally.expect(0)
            tally.failed(stats["path"], error)
            continue
        tally.expect(stats.get("size_bytes", 0))
        yield stats, target


def _is_here(order: files.Download) -> bool:
    """Whether the file is the object already."""
    length = order.stats.get("size_bytes", 0)
    return order.file.is_file() and (
        files.is_same(order.file, length, order.stats) or files.is_same_by_time(order)
    )


def _may_replace(folder: Path, options: TransferOptions) -> bool:
    """Whether files that differ are replaced unasked: not in the current folder, where names that
    the server chose may meet any file."""
    return options.yes or options.delete or folder.resolve() != Path.cwd().resolve()


def _check_absent(order: files.Download) -> None:
    """Raises `AlreadyExists` if the file exists."""
    if os.path.lexists(order.file) and not order.file.is_dir():
        raise AlreadyExists(f"file exists and differs: {order.file}: --yes replaces it")


def _download_rows(
    orders: Iterable[files.Download], tally: Tally, *, may_replace: bool
) -> Iterator[dict[str, Any]]:
    """What would be done with each object; what would fail is in the tally."""
    for order in orders:
        is_here = _is_here(order)
        try:
            if not (is_here or may_replace):
                _check_absent(order)
        except AlreadyExists as error:
            tally.failed(order.stats["path"], error)
            continue
        action = "leave" if is_here else "download"
        yield mirror.row(action, str(order.file), order.stats.get("size_bytes", 0))


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
