"""`graveler upload`, `download` and `cp`: objects and files, copied."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from graveler.cli import files, mirror, past, state
from graveler.cli.address import Address, UsageMistake, is_remote
from graveler.cli.command import address_argument, at, client
from graveler.cli.invocation import Invocation, metadata_pairs, session_of
from graveler.cli.mirror import (
    deletable,
    delete_files,
    delete_objects,
    surplus_files,
    surplus_objects,
)
from graveler.cli.options import FOLDER
from graveler.cli.output import plain, plural
from graveler.cli.transfer import Progress, Split, Tally, Transfer
from graveler.cli.transfer_options import TransferOptions, progress_of, transfer_options
from graveler.cli.upload_parts import LARGE_BYTES_MIN, LargeUploads
from graveler.client import objects
from graveler.client.objects import NO_SIGNED_URLS, Stats, Upload
from graveler.errors import AlreadyExists, Invalid, NotFound
from graveler.variables import environment

_PIECE_BYTES: Final = 1 << 18
_DIRECT_BYTES_MAX: Final = 256 << 10  # one request; by a signed URL it would be three


# ---- uploads -------------------------------------------------------------------------------------


@client(
    "upload",
    examples=(
        "graveler upload sales.csv lake/main/sales/2026.csv",
        "graveler upload sales.csv lake/main/sales/            # keeps the name",
        "graveler upload -r data lake/main/data/",
        "pg_dump … | graveler upload - lake/main/dump.sql",
    ),
)
@click.argument("source", metavar="SRC")
@address_argument("address", metavar="BRANCH[/PATH]")
@transfer_options
@click.option("--content-type", default="", metavar="TYPE", help="instead of a guess by name")
@click.option("--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)")
def upload(
    invocation: Invocation,
    source: str,
    address: str,
    content_type: str,
    pairs: tuple[str, ...],
    **more: Any,
) -> int:
    """Upload a file, a folder (-r), or the standard input (-) to a branch.

    With -r, files whose size and MD5 are those of the object are left out, so that a repeated call
    continues.  One failure stops no other file: the command ends with 8 and lists the failures.
    A file of 64 MiB or more goes in parts, if the server signs URLs of parts.  For 24 hours, the
    same command continues after the last whole part, unless the file changed.
    """
    options = TransferOptions(**more).checked()
    place = invocation.target = invocation.path(address, optional=True)
    description = Upload(content_type, metadata_pairs(pairs), options.no_clobber)
    if source == "-":
        return _upload_stdin(invocation, place, description, options)
    local = Path(source)
    if not local.exists():
        raise NotFound(f"file not found: {source}", remedy="")
    if local.is_dir() != options.recursive:
        rule = "is a folder: give -r" if local.is_dir() else "is no folder: leave -r out"
        raise UsageMistake(f"{source} {rule}")
    task, tally = _Uploads(invocation, place, description, pre_sign=options.pre_sign), Tally()
    surplus: list[str] = []
    if options.recursive:
        sources: Iterable[files.Source]
        sources = files.sources(local, place.folder, tally, options.choice)
        task.know(place.folder)
        if options.delete:
            sources = list(sources)
            keep = {source.path for source in sources}
            if not tally.failures:
                known = [path for path in task.known if not files.is_own(path)]
                surplus = surplus_objects(known, place.folder, keep, options.choice)
            else:
                invocation.output.note("nothing is deleted: not all of the source can be read")
            if not options.dry_run:
                mirror.check(invocation, surplus, keep, place, yes=options.yes)
    else:
        keeps_name = not place.path or place.path.endswith("/")
        path = place.path + local.name if keeps_name else place.path
        sources = [files.Source(local, path, local.stat().st_size)]
        if options.checksum:
            task.know_one(path)
    if options.dry_run:
        rows = (
            mirror.row("leave" if task.is_same(each) else "upload", each.path, each.size)
            for each in sources
        )
        mirror.show(invocation, chain(rows, (mirror.row("delete", path) for path in surplus)))
        tally.check("ready to be uploaded")
        return 0
    _run_uploads(invocation, task, sources, options, tally)
    surplus = deletable(invocation, surplus, tally, "uploaded")
    delete_objects(invocation.session, place, surplus, tally)
    return ended(invocation, tally, "uploaded", options)


def _run_uploads(
    invocation: Invocation,
    task: "_Uploads",
    sources: Iterable[files.Source],
    options: TransferOptions,
    tally: Tally,
) -> None:
    transfer = Transfer(task.send, _source_name, options.threads, shows(invocation, options))
    try:
        transfer.run(lambda tally: task.expected(sources, tally), tally)
    finally:
        if task.large.waiting:
            large = plural(task.large.waiting, "large file")
            invocation.output.note(
                f"{large} not finished: the same command continues within 24 hours"
            )


def _source_name(source: files.Source) -> str:
    return str(source.file)


class _Uploads:
    """The uploads of one call."""

    def __init__(
        self, invocation: Invocation, place: Address, how: Upload, *, pre_sign: bool
    ) -> None:
        self._session, self._place, self._how = invocation.session, place, how
        self._storage = objects.storage(self._session) if pre_sign else NO_SIGNED_URLS
        self.known: dict[str, Stats] = {}
        self.large = LargeUploads(self._session, place, state.folder(environment()))

    def know(self, prefix: str) -> None:
        """List what is below the prefix, to leave out what is the same."""
        place = self._place
        listed = objects.list_objects(self._session, place.repository, place.ref, prefix)
        self.known = {stats["path"]: stats for stats in listed}

    def know_one(self, path: str) -> None:
        """Look at the object at a path, to leave out what is the same."""
        with suppress(NotFound):
            stats = objects.stat(self._session, self._place.repository, self._place.ref, path)
            self.known[path] = stats

    def is_same(self, source: files.Source) -> bool:
        """Whether the branch has the file."""
        return files.is_same(source.file, source.size, self.known.get(source.path))

    def expected(self, sources: Iterable[files.Source], tally: Tally) -> Iterator[files.Source]:
        for source in sources:
            tally.expect(source.size)
            yield source

    def send(self, source: files.Source, tally: Tally) -> Split | None:
        """Upload one file, unless the branch has it; a large one in parts."""
        if self.is_same(source):
            tally.ended(skipped=True, length=source.size)
            return None
        if self._storage.presigns_parts and source.size >= LARGE_BYTES_MIN:
            return self.large.split(source, _with_type(self._how, source.path), tally)
        presign = self._storage.presigns and source.size > _DIRECT_BYTES_MAX
        write = objects.upload_presigned if presign else objects.upload
        stored = write(
            *(self._session, self._place.repository, self._place.ref, source.path),
            tally.pieces(files.content(source.file)),
            _with_type(self._how, source.path),
            length=source.size,
        )
        if stored.get("size_bytes", source.size) != source.size:
            raise Invalid("the file changed while it was uploaded")
        tally.ended()
        return None


def _with_type(how: Upload, path: str) -> Upload:
    if how.content_type:
        return how
    import mimetypes

    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Upload(kind, how.metadata, how.create_only)


def _upload_stdin(
    invocation: Invocation, place: Address, how: Upload, options: TransferOptions
) -> int:
    if options.dry_run or options.checksum or options.recursive:
        raise UsageMistake("the standard input is no file: leave -r, --dry-run, --checksum out")
    if not place.path or place.path.endswith("/"):
        raise UsageMistake(f"path missing: write {place}/PATH")
    tally = Tally()
    source: Any = sys.stdin.buffer
    pieces = iter(lambda: source.read1(_PIECE_BYTES), b"")  # what is there, without waiting
    stored = objects.upload(
        *(invocation.session, place.repository, place.ref, place.path),
        tally.pieces(pieces),
        _with_type(how, place.path),
    )
    invocation.output.record(stored, [f"uploaded {plain(str(place))}"])
    return 0


# ---- downloads -----------------------------------------------------------------------------------


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
@click.argument("target", metavar="[DEST]", type=FOLDER, required=False)
@transfer_options
@at
def download(invocation: Invocation, address: str, target: Path | None, **more: Any) -> int:
    """Download an object, or everything below a prefix (-r).

    A file appears under its name only when its size and MD5 are right.  The same command continues
    an interrupted download.  Files that are the same already are left out.  Without DEST, files go
    to the current folder; --delete needs DEST.
    """
    options = TransferOptions(**more).checked()
    if target is None and options.delete:
        raise UsageMistake("--delete needs DEST: write . for the current folder")
    folder = target or Path()
    recursive = options.recursive
    place = past.then(invocation, invocation.path(address, optional=recursive))
    session, tally = invocation.session, Tally()
    presign = options.pre_sign and objects.presigns(session)
    chosen: Iterable[tuple[Stats, str]] = _wanted(invocation, place, options)
    surplus: list[str] = []
    if options.delete:
        chosen = list(chosen)
        keep = {relative for _, relative in chosen}
        surplus = surplus_files(folder, keep, options.choice)
        if not options.dry_run:
            mirror.check(invocation, surplus, keep, folder.resolve(), yes=options.yes)

    def receive(order: files.Download, tally: Tally) -> None:
        if _is_here(order):
            tally.ended(skipped=True, length=order.stats.get("size_bytes", 0))
            return
        files.download(order, tally)
        tally.ended()

    def orders(tally: Tally) -> Iterator[files.Download]:
        for stats, relative in chosen:
            try:
                file = _file(folder, relative, recursive=recursive)
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


def _is_here(order: files.Download) -> bool:
    """Whether the file is the object already."""
    length = order.stats.get("size_bytes", 0)
    return order.file.is_file() and files.is_same(order.file, length, order.stats)


def _download_row(order: files.Download) -> dict[str, Any]:
    action = "leave" if _is_here(order) else "download"
    return mirror.row(action, str(order.file), order.stats.get("size_bytes", 0))


def _file(target: Path, relative: str, *, recursive: bool) -> Path:
    if recursive or target.is_dir():
        return files.target(target, relative)
    return target


def _wanted(
    invocation: Invocation, place: Address, options: TransferOptions
) -> Iterator[tuple[Stats, str]]:
    """The chosen objects at an address, each with its path below it."""
    session, choice = session_of(invocation, place), options.choice
    if not options.recursive:
        stats = objects.stat(session, place.repository, place.ref, place.path)
        yield stats, place.path.rpartition("/")[2]
        return
    prefix = place.folder
    for stats in objects.list_objects(session, place.repository, place.ref, prefix):
        relative = stats["path"].removeprefix(prefix)
        # A path that ends with a slash is the marker of a folder.
        if not relative.endswith("/") and relative and choice.chooses(relative):
            yield stats, relative


# ---- copies --------------------------------------------------------------------------------------


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
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DEST")
@transfer_options
@at
def cp(invocation: Invocation, source: str, target: str, **more: Any) -> int:
    """Copy objects, or files to and from the server.

    The remote side needs lakefs:// before it.  Within a repository the server copies.  PROFILE@
    before a repository names the profile of its server.
    """
    if past.is_past(invocation) and not is_remote(source):
        raise UsageMistake("--at reads a ref, and SRC is not on the server")
    if is_remote(source) and is_remote(target):
        return _copy(invocation, source, target, TransferOptions(**more).checked())
    if is_remote(target):
        return int(
            click.get_current_context().invoke(upload, source=source, address=target, **more)
        )
    if is_remote(source):
        return int(
            click.get_current_context().invoke(
                download, address=source, target=Path(target), **more
            )
        )
    raise UsageMistake("neither side is on the server: write lakefs:// before the remote one")


def _copy(invocation: Invocation, source: str, target: str, options: TransferOptions) -> int:
    recursive = options.recursive
    come = past.then(invocation, invocation.path(source, optional=recursive, profiles=True))
    into = invocation.target = invocation.path(target, optional=True, profiles=True)
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
        if not options.dry_run:
            mirror.check(invocation, surplus, keep, into, yes=options.yes)
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
    transfer.run(expected, tally)
    surplus = deletable(invocation, surplus, tally, "copied")
    delete_objects(session_of(invocation, into), into, surplus, tally)
    return ended(invocation, tally, "copied", options)


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
        for stats, relative in _wanted(self._invocation, self._come, self._options):
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


# ---- what transfers share ------------------------------------------------------------------------


def shows(invocation: Invocation, options: TransferOptions) -> Progress:
    """How a transfer shows its progress."""
    return progress_of(invocation, options.progress, no_progress=options.no_progress)


def ended(invocation: Invocation, tally: Tally, verb: str, options: TransferOptions) -> int:
    """Report a transfer.  Raises `PartlyDone`, or the error of the only object."""
    record = {
        "objects": tally.files,
        "size_bytes": tally.bytes_moved,
        "same": tally.skipped,
        "deleted": tally.deleted,
        "failed": [{"path": path, "message": message} for path, message in tally.failures],
    }
    if tally.files_expected == 1 and tally.failures:
        raise tally.errors[0]
    invocation.output.record({"graveler": record}, [tally.sentence(verb)])
    tally.check(f"{verb} or deleted" if options.delete else verb)
    return 0
