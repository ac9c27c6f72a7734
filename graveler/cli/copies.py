"""`graveler cp`: objects to objects, and to and from files.  transfer.py runs it."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import click

from graveler.cli import mirror
from graveler.cli.downloads import download, wanted
from graveler.cli.mirror import (
    deletable,
    delete_objects,
    surplus_objects,
)
from graveler.cli.support import times
from graveler.cli.support.address import Address, UsageMistake, is_remote
from graveler.cli.support.command import client
from graveler.cli.support.failures import some
from graveler.cli.support.invocation import Invocation, session_of
from graveler.cli.support.options import at, side_argument
from graveler.cli.support.progress import Tally
from graveler.cli.transfer import Transfer
from graveler.cli.transfer_options import TransferOptions, ended, shows, transfer_options
from graveler.cli.uploads import upload
from graveler.client import objects
from graveler.client.objects import Stats, Upload
from graveler.errors import AlreadyExists, NotFound


class _Copy(NamedTuple):
    stats: Stats
    path: str


@client(
    "cp",
    examples=(
        "graveler cp lakefs://lake/main/a.csv lakefs://lake/dev/b.csv",
        "graveler cp -r lakefs://lake/v1/data/ lakefs://lake/dev/data/",
        "graveler cp -r lakefs://prod@lake/main/ lakefs://test@lake/main/   # between two profiles",
        "graveler cp a.csv lakefs://lake/main/              # as upload",
        "graveler cp lakefs://lake/main/a.csv .             # as download",
    ),
)
@side_argument("source", metavar="SRC")
@side_argument("target", metavar="DEST")
@transfer_options
@at
def cp(invocation: Invocation, source: str, target: str, **more: Any) -> int:
    """Copy objects, or files to and from the server.

    The remote side needs lakefs:// before it.  Within a repository the server copies.  PROFILE@
    before a repository names the profile of its server.
    """
    if times.is_past(invocation) and not is_remote(source):
        raise UsageMistake("--at reads a ref, and SRC is not on the server")
    if is_remote(source) and is_remote(target):
        return _copy(invocation, source, target, TransferOptions(**more).checked())
    if is_remote(target):
        return int(
            click.get_current_context().invoke(upload, source=source, address=target, **more)
        )
    if is_remote(source):
        return int(
            click.get_current_context().invoke(download, address=source, target=target, **more)
        )
    raise UsageMistake("neither side is on the server: write lakefs:// before the remote one")


def _copy(invocation: Invocation, source: str, target: str, options: TransferOptions) -> int:
    recursive = options.recursive
    come = times.then(invocation, invocation.path(source, optional=recursive, profiles=True))
    into = invocation.path(target, optional=True, profiles=True, fills=True)
    _check_apart(come, into, options)
    task, tally = _Copies(invocation, come, into, options), Tally()
    orders: Iterable[_Copy] = task.orders()
    surplus: list[str] = []
    if recursive and _is_one_branch(come, into) and come.folder.startswith(into.folder):
        orders = list(orders)
        mirror.check_apart(
            (order.stats["path"] for order in orders), (order.path for order in orders)
        )
    if recursive and (options.delete or options.checksum):
        task.know()
    if options.delete:
        orders = list(orders)
        keep = {order.path for order in orders}
        surplus = surplus_objects(task.known, into.folder, keep, options.choice)
        mirror.check(invocation, surplus, keep, into, yes=options.yes or options.dry_run)
    orders = some(orders, options.choice)
    if options.dry_run:
        rows = (task.row(order) for order in orders)
        mirror.show(invocation, chain(rows, (mirror.row("delete", path) for path in surplus)))
        return 0

    def expected(tally: Tally) -> Iterator[_Copy]:
        for order in orders:
            tally.expect(order.stats.get("size_bytes", 0))
            yield order

    transfer = Transfer(
        task.work, lambda order: order.stats["path"], options.threads, shows(invocation, options)
    )
    # Without --checksum, the same command copies all again.
    state = Tally.resumable if options.checksum else Tally.state
    transfer.run(expected, tally, state=state)
    surplus = deletable(invocation, surplus, tally, "copied")
    delete_objects(session_of(invocation, into), into, surplus, tally)
    return ended(invocation, tally, "copied", options, into)


def _check_apart(come: Address, into: Address, options: TransferOptions) -> None:
    if not options.recursive or not _is_one_branch(come, into):
        return
    if into.folder.startswith(come.folder):
        raise UsageMistake("DEST is below SRC on the same branch: the copies would be copied again")
    if options.delete and come.folder.startswith(into.folder):
        raise UsageMistake("SRC is below DEST on the same branch: --delete would delete SRC")


def _is_one_branch(come: Address, into: Address) -> bool:
    """Whether both addresses are on one branch.  `BRANCH$` is the branch, too."""
    branch = (come.profile, come.repository, come.ref.removesuffix("$"))
    return branch == (into.profile, into.repository, into.ref)


class _Copies:
    """The copies of one call, from one place on the server to another."""

    def __init__(
        self, invocation: Invocation, come: Address, into: Address, options: TransferOptions
    ) -> None:
        self._invocation, self._options = invocation, options
        self._come, self._into = come, into
        self._read, self._write = session_of(invocation, come), session_of(invocation, into)
        self.known: dict[str, Stats] = {}

    def know(self) -> None:
        """List what is at DEST."""
        into = self._into
        place = (self._write, into.repository, into.ref, into.folder)
        self.known = {stats["path"]: stats for stats in objects.list_objects(*place)}

    def orders(self) -> Iterator[_Copy]:
        """What is copied to where."""
        into = self._into
        keeps_name = self._options.recursive or not into.path or into.path.endswith("/")
        for stats, relative in wanted(self._invocation, self._come, self._options):
            yield _Copy(stats, into.folder + relative if keeps_name else into.path)

    def row(self, order: _Copy) -> dict[str, Any]:
        """What would be done with an object."""
        action = "leave" if self._is_same(order) else "copy"
        return mirror.row(action, order.path, order.stats.get("size_bytes", 0))

    def work(self, order: _Copy, tally: Tally) -> None:
        """Copy one object, unless DEST has it."""
        come, into, stats = self._come, self._into, order.stats
        length = stats.get("size_bytes", 0)
        if self._is_same(order):
            tally.ended(skipped=True, length=length)
            return
        place = (self._write, into.repository, into.ref, order.path)
        if (come.profile, come.repository) == (into.profile, into.repository):
            if self._options.no_clobber and self._at(order.path) is not None:
                raise AlreadyExists(f"path already exists: {order.path}")
            objects.copy(*place, come.ref, stats["path"])
            tally.moved(length)
        else:
            metadata = stats.get("metadata", {})
            how = Upload(stats.get("content_type", ""), metadata, self._options.no_clobber)
            # What a redirect leads to must not be uploaded.
            with objects.open_object(
                *(self._read, come.repository, come.ref, stats["path"]), redirects=False
            ) as answer:
                pieces = tally.pieces(iter(answer.read, b""))
                objects.upload(*place, pieces, how, length=length)
        tally.ended()

    def _is_same(self, order: _Copy) -> bool:
        if not self._options.checksum:
            return False
        recursive = self._options.recursive
        stats = self.known.get(order.path) if recursive else self._at(order.path)
        return stats is not None and _content(stats) == _content(order.stats)

    def _at(self, path: str) -> Stats | None:
        with suppress(NotFound):
            return objects.stat(self._write, self._into.repository, self._into.ref, path)
        return None


def _content(stats: Stats) -> tuple[int | None, str]:
    return stats.get("size_bytes"), stats["checksum"]
