"""`graveler upload`, `download`, `cp` and `mv`: files to objects, and objects to files or objects.

Each lists SRC and, where it compares, DEST; support/transfers.py does the plan.  A move lists its
sources again before it deletes them.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from graveler.cli.support import progress, times
from graveler.cli.support.address import Address, is_remote
from graveler.cli.support.command import client, run_command
from graveler.cli.support.failures import naming_folder, nothing_below, some
from graveler.cli.support.invocation import Invocation, metadata_pairs, whole
from graveler.cli.support.options import address_argument, at, remote_argument, side_argument
from graveler.cli.support.output import plain, plural
from graveler.cli.support.transfers import (
    Plan,
    Step,
    TransferOptions,
    carry_out,
    check_apart,
    check_surplus,
    delete_files,
    delete_objects,
    move_options,
    note_uncommitted,
    surplus_objects,
    transfer_options,
)
from graveler.core.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound, UsageMistake
from graveler.core.settings import environment
from graveler.lake import state
from graveler.lake.objects import Upload
from graveler.lake.transfers import paths
from graveler.lake.transfers.receive import Destination, Object, is_same, is_same_by_time
from graveler.lake.transfers.receive import download as download_file
from graveler.lake.transfers.send import Sender, Source, sources, walk, with_type
from graveler.lake.transfers.workers import Split, Tally

if TYPE_CHECKING:
    from graveler.lake.records import Entry
    from graveler.lake.ref import Ref
    from graveler.lake.repository import Repository

_PIECE_BYTES: Final = 1 << 18
_NAMES_SHOWN: Final = 3


# ---- upload --------------------------------------------------------------------------------------


@client(
    "upload",
    context_settings={"allow_extra_args": True},  # `_check_one` says more of them
    examples=(
        "graveler upload sales.csv lake/main/sales/2026.csv",
        "graveler upload sales.csv lake/main/sales/            # keeps the name",
        "graveler upload -r data lake/main/data/",
        "graveler upload -r data lake/main/data/ --include '*.csv'",
        "pg_dump … | graveler upload - lake/main/dump.sql",
    ),
)
@click.argument("source", metavar="SRC", type=click.Path())
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
    _check_one(invocation, [source, address, *click.get_current_context().args])
    place = invocation.path(address, optional=True, fills=True)
    _warn_of_path(invocation, place)
    how = Upload(content_type, metadata_pairs(pairs), options.no_clobber)
    if source == "-":
        return _upload_stdin(invocation, place, how, options)
    local = _local(invocation, source, address, options)
    sender = Sender(
        *(invocation.session, place.repository, place.ref, how),
        state.folder(environment()) / "uploads",
        pre_sign=options.pre_sign,
    )
    tally = Tally()
    plan = _upload_plan(invocation, local, place, sender.send, options, tally)
    try:
        return carry_out(invocation, plan, options, tally)
    finally:
        if sender.waiting:
            large = plural(sender.waiting, "large file")
            invocation.output.note(
                f"{large} not finished: the same command continues within 24 hours"
            )


def _upload_plan(
    invocation: Invocation,
    local: Path,
    place: Address,
    send: Callable[[Source, Tally], Split | None],
    options: TransferOptions,
    tally: Tally,
) -> Plan:
    files, known, surplus = _uploads(invocation, local, place, options, tally)

    def is_there(source: Source) -> bool:
        entry = known.get(source.path)
        return (
            entry is not None
            and entry.size == source.size
            and is_same(source.file, entry.checksum, source.size)
        )

    steps = (
        Step(str(file.file), file.path, file.size, partial(send, file), partial(is_there, file))
        for file in files
    )
    delete = partial(delete_objects, invocation.branch(place))
    return Plan("upload", "uploaded", steps, place, surplus, delete)


def _uploads(
    invocation: Invocation, local: Path, place: Address, options: TransferOptions, tally: Tally
) -> "tuple[Iterable[Source], dict[str, Entry], list[str]]":
    """The files, the objects that they are compared with, and the objects to delete."""
    branch = invocation.at(place)
    known: dict[str, Entry] = {}
    if not options.recursive:
        keeps_name = not place.path or place.path.endswith("/")
        path = place.path + local.name if keeps_name else place.path
        if options.checksum:
            with suppress(NotFound):
                known[path] = branch.stat(path)
        return [Source(local, path, local.stat().st_size)], known, []
    files: Iterable[Source] = sources(local, place.folder, tally, options.choice)
    known = _by_path(branch, place.folder)
    if not options.delete:
        return files, known, []
    files = list(files)
    if tally.failures:
        invocation.output.note("nothing is deleted: not all of the source can be read")
        return files, known, []
    keep = {source.path for source in files}
    ours = [path for path in known if not paths.is_own(path)]
    surplus = surplus_objects(ours, place.folder, keep, options.choice)
    if not options.dry_run:
        check_surplus(invocation, surplus, keep, place, options)
    return files, known, surplus


def _by_path(ref: "Ref", prefix: str) -> "dict[str, Entry]":
    return {entry.path: entry for entry in ref.list(prefix)}


def _check_one(invocation: Invocation, words: list[str]) -> None:
    """Raises `UsageMistake` for several sources, as a shell makes them of `*.csv`, and for an
    address before the source."""
    source, address = words[0], words[-1]
    if len(words) > 2:
        raise UsageMistake(
            f"one SRC expected, not {len(words) - 1}: several files go by -r and --include",
            remedy=_for_several(invocation, words[:-1], address),
        )
    if "/" in source and not os.path.lexists(source) and os.path.isfile(address):
        raise UsageMistake(
            f"SRC comes first: {source} is no file here, and {address} is one",
            remedy=shlex.join(["graveler", "upload", address, whole(invocation, source)]),
        )


def _for_several(invocation: Invocation, sources: list[str], address: str) -> str:
    """The command that uploads what these files of one folder, or a glob, name; empty if that is
    not clear."""
    folders = {os.path.dirname(source) or "." for source in sources}
    words = [word for source in sources for word in ("--include", f"/{os.path.basename(source)}")]
    unclear = "[" if len(sources) == 1 else "[*?"
    is_clear = "/" in address and not os.path.lexists(address) and len(folders) == 1
    if not is_clear or len(sources) > _NAMES_SHOWN or set(unclear) & set("".join(words)):
        return ""
    return shlex.join(["graveler", "upload", "-r", *folders, whole(invocation, address), *words])


def _local(invocation: Invocation, source: str, address: str, options: TransferOptions) -> Path:
    """The file or the folder.  Raises `NotFound`, `UsageMistake`."""
    local = Path(source)
    if not local.exists():
        is_glob = not {"*", "?"}.isdisjoint(source)
        remedy = _for_several(invocation, [source], address) if is_glob else ""
        raise NotFound(f"file not found: {source}", remedy=remedy)
    if local.is_dir() != options.recursive:
        rule = "is a folder: give -r" if local.is_dir() else "is no folder: leave -r out"
        raise UsageMistake(f"{source} {rule}")
    return local


def _warn_of_path(invocation: Invocation, place: Address) -> None:
    """Object stores take every path; downloads do not."""
    if place.path and (refusal := paths.reason(place.path)):
        invocation.output.note(
            f"the path {place.path!r} is taken as it is, and download -r will leave it out: "
            f"{refusal}"
        )
    if place.path.startswith("_lakefs_actions/"):
        from graveler.cli.commands.actions import warn_if_off

        warn_if_off(invocation, place.repository)


def _upload_stdin(
    invocation: Invocation, place: Address, how: Upload, options: TransferOptions
) -> int:
    if options.dry_run or options.checksum or options.recursive:
        raise UsageMistake("the standard input is no file: leave -r, --dry-run, --checksum out")
    if not place.path or place.path.endswith("/"):
        raise UsageMistake(f"path missing: write {place}/PATH")
    source: Any = sys.stdin.buffer
    pieces = iter(lambda: source.read1(_PIECE_BYTES), b"")  # what is there, without waiting
    stored = invocation.branch(place).write_stream(
        *(place.path, pieces),
        content_type=with_type(how, place.path).content_type,
        metadata=how.metadata,
        overwrite=not how.create_only,
    )
    invocation.output.record(stored, [f"uploaded {plain(str(place))}"])
    note_uncommitted(invocation, options, place)
    return 0


# ---- download ------------------------------------------------------------------------------------


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
    place = times.then(invocation, invocation.path(address, optional=options.recursive))
    presign = options.pre_sign and invocation.lake.presigns
    chosen = _chosen(invocation, place, options)
    surplus: list[str] = []
    if options.delete:
        chosen = list(chosen)
        keep = {relative for _, relative in chosen}
        surplus = _surplus_files(folder, keep, options)
        check_surplus(invocation, surplus, keep, folder.resolve(), options)
    chosen, tally = some(chosen, options.choice), Tally()
    # Names that the server chose may meet any file of the current folder.
    is_asked = options.yes or options.delete or folder.resolve() != Path.cwd().resolve()
    source = Object(invocation.session, place.repository, place.ref, "", "", 0, presign)
    files = _files(chosen, folder, tally, is_folder=is_folder)
    steps = _download_steps(source, files, options, may_replace=is_asked or not is_folder)
    gone = [str(folder / path) for path in surplus]
    delete = partial(delete_files, folder)
    plan = Plan("download", "downloaded", steps, surplus=gone, finish=delete)
    return carry_out(invocation, plan, options, tally)


def _download_steps(
    place: Object,
    files: "Iterable[tuple[Entry, Path]]",
    options: TransferOptions,
    *,
    may_replace: bool,
) -> Iterator[Step]:
    for entry, file in files:
        path, mtime = entry.path, entry.answer["mtime"]
        source = place._replace(path=path, checksum=entry.checksum, size=entry.size)
        work = partial(_receive, source, file, mtime, options)
        is_here = partial(_is_here, source, file, mtime, may_replace=may_replace)
        yield Step(path, str(file), source.size, work, is_here)


def _folder(target: str | None, address: str, options: TransferOptions) -> Path:
    """Where files go.  Raises `UsageMistake`."""
    if target is None and options.delete:
        raise UsageMistake("--delete needs DEST: write . for the current folder")
    if target == "-":
        raise UsageMistake(f"- is no file (./- is): graveler cat {address} prints an object")
    return Path(target or "")


def _chosen(
    invocation: Invocation, place: Address, options: TransferOptions, *, markers: bool = False
) -> "Iterable[tuple[Entry, str]]":
    """The chosen objects at an address, each with its path below it.  `markers`: also those of
    folders, whose paths end with a slash."""
    ref, choice = invocation.at(place), options.choice
    if not options.recursive:
        with naming_folder(invocation, place):
            entry = ref.stat(place.path)
        return [(entry, entry.name)]
    below = ((entry, entry.path.removeprefix(place.folder)) for entry in ref.list(place.folder))
    return (
        (entry, relative)
        for entry, relative in below
        if (markers or (relative and not relative.endswith("/"))) and choice.chooses(relative)
    )


def _surplus_files(folder: Path, keep: set[str], options: TransferOptions) -> list[str]:
    """The files below a folder, from there, that are not in `keep`; none if there is no folder.
    Links to folders are files.  What no download writes stays: parts of downloads, the state of
    linked folders, the folder `.git`."""
    choice = options.choice
    return sorted(
        path
        for path in (walk(folder) if folder.exists() else ())
        if path not in keep and choice.chooses(path) and not paths.reason(path)
    )


def _files(
    chosen: "Iterable[tuple[Entry, str]]", folder: Path, tally: Tally, *, is_folder: bool
) -> "Iterator[tuple[Entry, Path]]":
    """Each object with its file.  What no file can have is a failed item of the tally."""
    destination = Destination(folder) if is_folder else None
    for entry, relative in chosen:
        try:
            file = folder if destination is None else destination.file(relative)
        except Invalid as error:
            tally.expect(0)
            tally.failed(entry.path, error)
            continue
        yield entry, file


def _is_here(source: Object, file: Path, mtime: int, *, may_replace: bool) -> bool:
    """Whether the file is the object already.  Raises `AlreadyExists` if it is another one, and may
    not be replaced."""
    if file.is_file() and (
        is_same(file, source.checksum, source.size) or is_same_by_time(source, file, mtime)
    ):
        return True
    if not may_replace and os.path.lexists(file) and not file.is_dir():
        raise AlreadyExists(f"file exists and differs: {file}: --yes replaces it")
    return False


def _receive(
    source: Object, file: Path, mtime: int, options: TransferOptions, tally: Tally
) -> None:
    download_file(source, file, mtime, tally.moved, create_only=options.no_clobber)
    tally.ended()


# ---- cp ------------------------------------------------------------------------------------------


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
        return run_command(upload, source=source, address=target, **more)
    if is_remote(source):
        return run_command(download, address=source, target=target, **more)
    raise UsageMistake("neither side is on the server: write lakefs:// before the remote one")


def _copy(invocation: Invocation, source: str, target: str, options: TransferOptions) -> int:
    come = invocation.path(source, optional=options.recursive, profiles=True)
    come = times.then(invocation, come)
    into = invocation.path(target, optional=True, profiles=True, fills=True)
    branch, surplus = invocation.branch(into), list[str]()
    known: dict[str, Entry] = {}
    chosen = _copied(invocation, come, into, options)
    if options.recursive and (options.delete or options.checksum):
        known = _by_path(branch, into.folder)
    if options.delete:
        chosen = list(chosen)
        keep = {path for _, path in chosen}
        surplus = surplus_objects(known, into.folder, keep, options.choice)
        check_surplus(invocation, surplus, keep, into, options)
    steps = _Copies(invocation, come, into, options, known).steps(some(chosen, options.choice))
    # Without --checksum, the same command copies all again.
    interrupted = progress.resumable if options.checksum else progress.state
    delete = partial(delete_objects, branch)
    plan = Plan("copy", "copied", steps, into, surplus, delete, interrupted)
    return carry_out(invocation, plan, options, Tally())


def _copied(
    invocation: Invocation, come: Address, into: Address, options: TransferOptions
) -> "Iterable[tuple[Entry, str]]":
    """What is copied to where.  Raises `UsageMistake` if copies could replace what is copied."""
    branch = (come.profile, come.repository, come.ref.removesuffix("$"))  # BRANCH$ is it, too
    is_one_branch = branch == (into.profile, into.repository, into.ref)
    is_above = options.recursive and is_one_branch and come.folder.startswith(into.folder)
    if options.recursive and is_one_branch and into.folder.startswith(come.folder):
        raise UsageMistake("DEST is below SRC on the same branch: the copies would be copied again")
    if is_above and options.delete:
        raise UsageMistake("SRC is below DEST on the same branch: --delete would delete SRC")
    keeps_name = options.recursive or not into.path or into.path.endswith("/")
    copied = (
        (entry, into.folder + relative if keeps_name else into.path)
        for entry, relative in _chosen(invocation, come, options)
    )
    if not is_above:
        return copied
    several = list(copied)
    check_apart((entry.path for entry, _ in several), (path for _, path in several))
    return several


class _Copies:
    """The copies of one call, from one place on the server to another."""

    def __init__(
        self,
        invocation: Invocation,
        come: Address,
        into: Address,
        options: TransferOptions,
        known: "dict[str, Entry]",
    ) -> None:
        self._options, self._known = options, known
        self._come, self._into = invocation.at(come), invocation.branch(into)

    def steps(self, chosen: "Iterable[tuple[Entry, str]]") -> Iterator[Step]:
        """The copies of objects, each with its path at DEST."""
        for entry, path in chosen:
            work, is_same = partial(self._copy, entry, path), partial(self._is_same, entry, path)
            yield Step(entry.path, path, entry.size, work, is_same)

    def _copy(self, entry: "Entry", path: str, tally: Tally) -> None:
        come, into, create_only = self._come, self._into, self._options.no_clobber
        if _is_one(come.repository, into.repository):
            if create_only and self._at(path) is not None:
                raise AlreadyExists(f"path already exists: {path}")
            into.copy(entry.path, path, ref=come)
            tally.moved(entry.size)
        else:
            # What a redirect leads to must not be uploaded; and both servers are asked alike.
            into.write_stream(
                *(path, tally.pieces(come.stream(entry.path, redirects=False))),
                length=entry.size,
                content_type=entry.content_type,
                metadata=entry.metadata,
                overwrite=not create_only,
                redirects=False,
            )
        tally.ended()

    def _is_same(self, entry: "Entry", path: str) -> bool:
        if not self._options.checksum:
            return False
        known = self._known.get(path) if self._options.recursive else self._at(path)
        return known is not None and _content(known) == _content(entry)

    def _at(self, path: str) -> "Entry | None":
        with suppress(NotFound):
            return self._into.stat(path)
        return None


def _is_one(a: "Repository", b: "Repository") -> bool:
    """Whether both are the same, with the same credentials."""
    return a == b and a.lake is b.lake


def _content(entry: "Entry") -> tuple[object, ...]:
    return entry.checksum, entry.size


# ---- mv ------------------------------------------------------------------------------------------


@client(
    "mv",
    examples=(
        "graveler mv lake/main/a.csv lake/main/b.csv",
        "graveler mv -r lake/dev/raw/ lake/dev/bronze/ --yes",
    ),
)
@remote_argument("source", metavar="SRC")
@remote_argument("target", metavar="DEST")
@move_options
def mv(invocation: Invocation, source: str, target: str, **more: Any) -> int:
    """Move an object, or everything below a prefix (-r), within a branch.

    Both sides are on the server, with or without lakefs:// before them.  The server copies; each
    source is deleted when its copy is found to be equal, and stays if anything fails.  Asks before
    objects at DEST are replaced.
    """
    options = TransferOptions(**more).checked()
    come, into = _sides(invocation, source, target, options)
    invocation.target = into
    moves = [
        (entry, into.path + relative if options.recursive else into.path)
        for entry, relative in _chosen(invocation, come, options, markers=True)
    ]
    if not moves:
        raise nothing_below(options.choice)
    check_apart((entry.path for entry, _ in moves), (path for _, path in moves))
    may_ask = not options.dry_run and not options.yes
    if may_ask and _is_taken(invocation, into, {path for _, path in moves}, options):
        invocation.confirm(f"Replace what is at {into}?", yes=options.yes)
    copied: list[Entry] = []
    plan = Plan(
        *("move", "moved", _move_steps(invocation, come, into, moves, copied), into),
        finish=lambda _, tally: _delete_sources(invocation, come, copied, options, tally),
        interrupted=lambda tally: f"{progress.state(tally, 'copied')}; nothing was deleted",
    )
    return carry_out(invocation, plan, options, Tally())


def _move_steps(
    invocation: Invocation,
    come: Address,
    into: Address,
    moves: "list[tuple[Entry, str]]",
    copied: "list[Entry]",
) -> Iterator[Step]:
    """The copies, each compared with its source, which is added to `copied` then."""

    branch = invocation.branch(into)

    def copy(entry: "Entry", path: str, tally: Tally) -> None:
        if _content(branch.copy(entry.path, path, ref=come.ref)) != _content(entry):
            raise Corrupt("the copy differs from its source; both stay")
        tally.moved(entry.size)
        copied.append(entry)
        tally.ended()

    for entry, path in moves:
        yield Step(entry.path, path, entry.size, partial(copy, entry, path))


def _sides(
    invocation: Invocation, source: str, target: str, options: TransferOptions
) -> tuple[Address, Address]:
    """Both addresses; with `-r`, both are prefixes."""
    come = invocation.path(source, optional=options.recursive)
    into = invocation.path(target, optional=True)
    if (come.repository, come.ref) != (into.repository, into.ref):
        raise UsageMistake(f"both sides must be on one branch: {come} and {into}: use cp, then rm")
    if options.recursive:
        come, into = come.at(come.folder), into.at(into.folder)
        if into.path.startswith(come.path):
            raise UsageMistake("DEST is SRC, or below it")
        return come, into
    if not into.path or into.path.endswith("/"):
        into = into.at(into.path + come.path.rpartition("/")[2])
    if into.path == come.path:
        raise UsageMistake("DEST is SRC")
    return come, into


def _is_taken(
    invocation: Invocation, into: Address, paths: set[str], options: TransferOptions
) -> bool:
    """Whether an object would be replaced."""
    branch = invocation.at(into)
    if options.recursive:
        return any(entry.path in paths for entry in branch.list(into.path))
    with suppress(NotFound):
        branch.stat(into.path)
        return True
    return False


def _delete_sources(
    invocation: Invocation,
    come: Address,
    copied: "list[Entry]",
    options: TransferOptions,
    tally: Tally,
) -> None:
    """Delete the sources that are as they were when they were copied.  A source that stays is not
    moved: the tally counts it no more."""
    listed = _chosen(invocation, come, options, markers=True)
    now = {entry.path: _version(entry) for entry, _ in listed}
    ready, stale = list[str](), Conflict("written while it was moved; both stay")
    for entry in copied:
        # What somebody else has deleted is not lost.
        if now.get(entry.path, _version(entry)) == _version(entry):
            ready.append(entry.path)
        else:
            tally.failed(entry.path, stale)
    tally.files = len(ready)
    deleted = Tally()
    delete_objects(invocation.branch(come), ready, deleted)
    tally.files -= len(deleted.failures)
    tally.failures += deleted.failures
    tally.errors += deleted.errors


def _version(entry: "Entry") -> tuple[object, ...]:
    return (*_content(entry), entry.modified)
