"""`graveler upload`, `download` and `cp`: objects and files, copied."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from graveler.cli import files, past
from graveler.cli.address import Address, UsageMistake, is_remote
from graveler.cli.command import address_argument, at, client
from graveler.cli.invocation import Invocation, metadata_pairs
from graveler.cli.options import FOLDER
from graveler.cli.output import plain
from graveler.cli.transfer import THREADS, Tally, Transfer
from graveler.client import objects
from graveler.client.objects import Stats, Upload
from graveler.errors import Invalid, NotFound

_PIECE_BYTES: Final = 1 << 18
_DIRECT_BYTES_MAX: Final = 256 << 10  # one request; by a signed URL it would be three


def transfer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of all transfers."""
    for option in (
        click.option("--progress", type=click.Choice(["auto", "never"]), default="auto"),
        click.option(
            "-j",
            "--parallel",
            "threads",
            type=click.IntRange(1, 128),
            default=THREADS,
            metavar="N",
            help=f"N at a time (default: {THREADS})",
        ),
        click.option("-r", "--recursive", is_flag=True, help="everything below the prefix"),
    ):
        function = option(function)
    return function


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
@click.option("--no-clobber", is_flag=True, help="fail where the path exists")
def upload(
    invocation: Invocation,
    source: str,
    address: str,
    recursive: bool,
    threads: int,
    progress: str,
    **how: Any,
) -> int:
    """Upload a file, a folder (-r), or the standard input (-) to a branch.

    With -r, files whose size and MD5 are those of the object are left out, so that a repeated call
    continues.  One failure stops no other file: the command ends with 8 and the list.
    """
    place = invocation.path(address, optional=True)
    description = Upload(how["content_type"], metadata_pairs(how["pairs"]), how["no_clobber"])
    if source == "-":
        return _upload_stdin(invocation, place, description)
    local = Path(source)
    if local.is_dir() != recursive:
        rule = "is a folder: give -r" if local.is_dir() else "is no folder: leave -r out"
        raise UsageMistake(f"{source} {rule}")
    if not local.exists():
        raise NotFound(f"file not found: {source}")
    task = _Uploads(invocation, place, description)
    transfer = Transfer(task.send, _source_name, threads, shows(invocation, progress))
    if recursive:
        prefix = place.folder
        task.know(prefix)
        tally = transfer.run(
            lambda tally: task.expected(files.sources(local, prefix, tally), tally)
        )
    else:
        keeps_name = not place.path or place.path.endswith("/")
        path = place.path + local.name if keeps_name else place.path
        one = files.Source(local, path, local.stat().st_size)
        tally = transfer.run(lambda tally: task.expected([one], tally))
    return ended(invocation, tally, "uploaded")


def _source_name(source: files.Source) -> str:
    return str(source.file)


class _Uploads:
    """The uploads of one call."""

    def __init__(self, invocation: Invocation, place: Address, how: Upload) -> None:
        self._session, self._place, self._how = invocation.session, place, how
        self._presign = objects.presigns(self._session)
        self._known: dict[str, Stats] = {}

    def know(self, prefix: str) -> None:
        """List what is below the prefix, to leave out what is the same."""
        place = self._place
        listed = objects.list_objects(self._session, place.repository, place.ref, prefix)
        self._known = {stats["path"]: stats for stats in listed}

    def expected(self, sources: Iterable[files.Source], tally: Tally) -> Iterator[files.Source]:
        for source in sources:
            tally.expect(source.size)
            yield source

    def send(self, source: files.Source, tally: Tally) -> None:
        """Upload one file, unless the branch has it."""
        if files.is_same(source.file, source.size, self._known.get(source.path)):
            tally.ended(skipped=True, length=source.size)
            return
        presign = self._presign and source.size > _DIRECT_BYTES_MAX
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


def _with_type(how: Upload, path: str) -> Upload:
    if how.content_type:
        return how
    import mimetypes

    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Upload(kind, how.metadata, how.create_only)


def _upload_stdin(invocation: Invocation, place: Address, how: Upload) -> int:
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
@click.argument("target", metavar="[DEST]", type=FOLDER, default=".")
@transfer_options
@at
def download(
    invocation: Invocation,
    address: str,
    target: Path,
    recursive: bool,
    threads: int,
    progress: str,
) -> int:
    """Download an object, or everything below a prefix (-r).

    A file appears under its name only when its size and MD5 are right.  The same command continues
    an interrupted download.  Files that are the same already are left out.
    """
    place = past.then(invocation, invocation.path(address, optional=recursive))
    session = invocation.session
    presign = objects.presigns(session)

    def receive(order: files.Download, tally: Tally) -> None:
        length = order.stats.get("size_bytes", 0)
        if order.file.is_file() and files.is_same(order.file, length, order.stats):
            tally.ended(skipped=True, length=length)
            return
        files.download(order, tally)
        tally.ended()

    def orders(tally: Tally) -> Iterator[files.Download]:
        for stats, relative in _wanted(invocation, place, recursive=recursive):
            try:
                file = _file(target, relative, recursive=recursive)
            except Invalid as error:
                tally.expect(0)
                tally.failed(stats["path"], error)
                continue
            tally.expect(stats.get("size_bytes", 0))
            yield files.Download(session, place.repository, place.ref, stats, file, presign)

    transfer = Transfer(
        receive, lambda order: order.stats["path"], threads, shows(invocation, progress)
    )
    return ended(invocation, transfer.run(orders), "downloaded")


def _file(target: Path, relative: str, *, recursive: bool) -> Path:
    if recursive or target.is_dir():
        return files.target(target, relative)
    return target


def _wanted(
    invocation: Invocation, place: Address, *, recursive: bool
) -> Iterator[tuple[Stats, str]]:
    """The objects at an address, each with its path below it."""
    session = invocation.session
    if not recursive:
        stats = objects.stat(session, place.repository, place.ref, place.path)
        yield stats, place.path.rpartition("/")[2]
        return
    prefix = place.folder
    for stats in objects.list_objects(session, place.repository, place.ref, prefix):
        if not stats["path"].endswith("/"):  # the marker of a folder
            yield stats, stats["path"].removeprefix(prefix)


# ---- copies --------------------------------------------------------------------------------------


class _Copy(NamedTuple):
    stats: Stats
    path: str


@client(
    "cp",
    examples=(
        "graveler cp lakefs://lake/main/a.csv lakefs://lake/dev/b.csv",
        "graveler cp -r lakefs://lake/v1/data/ lakefs://lake/dev/data/",
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

    The remote side needs lakefs:// before it.  Within a repository the server copies.
    """
    if past.is_past(invocation) and not is_remote(source):
        raise UsageMistake("--at reads a ref, and SRC is not on the server")
    if is_remote(source) and is_remote(target):
        return _copy(invocation, source, target, **more)
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


def _copy(
    invocation: Invocation, source: str, target: str, recursive: bool, threads: int, progress: str
) -> int:
    come = past.then(invocation, invocation.path(source, optional=recursive))
    session = invocation.session
    into = invocation.path(target, optional=True)
    keeps_name = recursive or not into.path or into.path.endswith("/")
    prefix = into.folder
    same_ref = (come.repository, come.ref) == (into.repository, into.ref)
    if recursive and same_ref and prefix.startswith(come.folder):
        raise UsageMistake("DEST is below SRC on the same branch: the copies would be copied again")

    def orders(tally: Tally) -> Iterator[_Copy]:
        for stats, relative in _wanted(invocation, come, recursive=recursive):
            tally.expect(stats.get("size_bytes", 0))
            yield _Copy(stats, prefix + relative if keeps_name else into.path)

    def work(order: _Copy, tally: Tally) -> None:
        stats, length = order.stats, order.stats.get("size_bytes", 0)
        place = (session, into.repository, into.ref, order.path)
        if come.repository == into.repository:
            objects.copy(*place, come.ref, stats["path"])
            tally.moved(length)
        else:
            how = Upload(stats.get("content_type", ""), stats.get("metadata", {}))
            # What a redirect leads to must not be uploaded.
            with objects.open_object(
                *(session, come.repository, come.ref, stats["path"]), redirects=False
            ) as answer:
                pieces = tally.pieces(iter(answer.read, b""))
                objects.upload(*place, pieces, how, length=length)
        tally.ended()

    transfer = Transfer(
        work, lambda order: order.stats["path"], threads, shows(invocation, progress)
    )
    return ended(invocation, transfer.run(orders), "copied")


# ---- what transfers share ------------------------------------------------------------------------


def shows(invocation: Invocation, progress: str) -> bool:
    """Whether a transfer shows its progress."""
    return progress != "never" and not invocation.output.quiet


def ended(invocation: Invocation, tally: Tally, verb: str) -> int:
    """Report a transfer.  Raises `PartlyDone`, or the error of the only object."""
    record = {
        "objects": tally.files,
        "size_bytes": tally.bytes_moved,
        "same": tally.skipped,
        "failed": [{"path": path, "message": message} for path, message in tally.failures],
    }
    if tally.files_expected == 1 and tally.failures:
        raise tally.errors[0]
    invocation.output.record({"graveler": record}, [tally.sentence(verb)])
    tally.check(verb)
    return 0
