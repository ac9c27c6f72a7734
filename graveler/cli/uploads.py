"""`graveler upload`: files to objects.  transfer.py runs it."""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli import files, mirror
from graveler.cli.mirror import (
    deletable,
    delete_objects,
    surplus_objects,
)
from graveler.cli.support import state
from graveler.cli.support.address import Address, UsageMistake
from graveler.cli.support.command import client
from graveler.cli.support.invocation import Invocation, metadata_pairs, whole
from graveler.cli.support.options import address_argument
from graveler.cli.support.output import plain, plural
from graveler.cli.support.progress import Tally
from graveler.cli.transfer import Transfer
from graveler.cli.transfer_options import (
    TransferOptions,
    ended,
    note_uncommitted,
    shows,
    transfer_options,
)
from graveler.cli.transfer_tasks import PendingItem, Split
from graveler.cli.upload_parts import LARGE_BYTES_MIN, LargeUploads
from graveler.client import objects
from graveler.client.objects import NOTHING_KNOWN, Stats, Upload
from graveler.errors import Invalid, NotFound
from graveler.local.names import reason
from graveler.variables import environment

_PIECE_BYTES: Final = 1 << 18
_DIRECT_BYTES_MAX: Final = 256 << 10  # one request; by a signed URL it would be three
_SMALL_BYTES_MAX: Final = 64 << 10
_SUFFIXES_KEPT: Final = 1_000
_GLOB_MARKS: Final = "*?["
_PLAIN_GLOB: Final = re.compile(r"[\w./*?\[\]-]+")  # a shell changes nothing else of it
_NAMES_SHOWN: Final = 3


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
    same command continues after the last whole part, unless the file changed.  Of files of at most
    64 KiB, up to twice -j are sent at a time, unless -j is 1 or the URL begins with https.
    """
    options = TransferOptions(**more).checked()
    _check_one(invocation, [source, address, *click.get_current_context().args])
    place = invocation.path(address, optional=True, fills=True)
    _warn_of_path(invocation, place)
    description = Upload(content_type, metadata_pairs(pairs), options.no_clobber)
    if source == "-":
        return _upload_stdin(invocation, place, description, options)
    local = _local(invocation, source, address, options)
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
    return ended(invocation, tally, "uploaded", options, place)


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


def _local(invocation: Invocation, source: str, address: str, options: TransferOptions) -> Path:
    """The file or the folder.  Raises `NotFound`, `UsageMistake`."""
    local = Path(source)
    if not local.exists():
        remedy = _for_several(invocation, [source], address) if _is_glob(source) else ""
        raise NotFound(f"file not found: {source}", remedy=remedy)
    if local.is_dir() != options.recursive:
        rule = "is a folder: give -r" if local.is_dir() else "is no folder: leave -r out"
        raise UsageMistake(f"{source} {rule}")
    return local


def _is_glob(name: str) -> bool:
    return any(mark in name for mark in _GLOB_MARKS) and not os.path.lexists(name)


def _for_several(invocation: Invocation, sources: list[str], address: str) -> str:
    """The command that uploads what these files or globs name, and nothing else; empty if it
    cannot be known."""
    names = [os.path.basename(source) for source in sources]
    is_known = "/" in address and not os.path.lexists(address) and "-" not in sources
    if not is_known or len(set(names)) < len(names) or not "".join(sources).isprintable():
        return ""
    into = whole(invocation, address)
    folders = {os.path.dirname(source) or "." for source in sources}
    folder = folders.pop()
    is_short = not folders and len(names) <= _NAMES_SHOWN
    if not is_short or _is_glob(folder) or not all(map(_is_pattern, sources)):
        return _loop(sources, into)
    included = (word for name in names for word in ("--include", f"/{name}"))
    return shlex.join(["graveler", "upload", "-r", folder, into, *included])


def _is_pattern(source: str) -> bool:
    """Whether `--include /NAME` means what the name, or the glob, means to a shell."""
    name = os.path.basename(source)
    differing = "[" if _is_glob(source) else "*?"
    is_plain = not any(mark in name for mark in differing) and "**" not in name
    return bool(name) and name == name.rstrip() and is_plain


def _loop(sources: list[str], address: str) -> str:
    """A command of a shell for files of several folders; empty if one is a folder."""
    globs = [source for source in sources if _is_glob(source)]
    if any(map(os.path.isdir, sources)) or not all(map(_PLAIN_GLOB.fullmatch, globs)):
        return ""
    words = [source if source in globs else shlex.quote(source) for source in sources]
    shown = " ".join([*words[:_NAMES_SHOWN], *(["…"] if words[_NAMES_SHOWN:] else [])])
    into = shlex.quote(address if address.endswith("/") else f"{address}/")
    return f'for f in {shown}; do graveler upload "$f" {into}; done'


def _warn_of_path(invocation: Invocation, place: Address) -> None:
    """Object stores take every path; downloads do not."""
    if place.path and (refusal := reason(place.path)):
        invocation.output.note(
            f"the path {place.path!r} is taken as it is, and download -r will leave it out: "
            f"{refusal}"
        )
    if place.path.startswith("_lakefs_actions/"):
        from graveler.cli.commands.actions import warn_if_off

        warn_if_off(invocation, place.repository)


def _run_uploads(
    invocation: Invocation,
    task: "_Uploads",
    sources: Iterable[files.Source],
    options: TransferOptions,
    tally: Tally,
) -> None:
    transfer = Transfer(
        *(task.send, _source_name, options.threads, shows(invocation, options)),
        is_small=task.is_small,
    )
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
        self._has_tls = not invocation.session.url.startswith("http://")
        self._storage = objects.storage(self._session) if pre_sign else NOTHING_KNOWN
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

    def is_small(self, source: files.Source) -> bool:
        """Whether one thread may have several such files under way.  Not over TLS: what can be read
        on a connection of TLS need not be an answer."""
        return source.size <= _SMALL_BYTES_MAX and not self._has_tls

    def expected(self, sources: Iterable[files.Source], tally: Tally) -> Iterator[files.Source]:
        for source in sources:
            tally.expect(source.size)
            yield source

    def send(self, source: files.Source, tally: Tally) -> Split | PendingItem | None:
        """Upload one file, unless the branch has it; a large one in parts.  A small one is sent."""
        if self.is_same(source):
            tally.ended(skipped=True, length=source.size)
            return None
        how = _with_type(self._how, source.path)
        if self._storage.presigns_parts and source.size >= LARGE_BYTES_MIN:
            return self.large.split(source, how, tally)
        pieces = tally.pieces(files.content(source.file, source.size))
        where = (self._session, self._place.repository, self._place.ref, source.path)
        if self._storage.presigns and source.size > _DIRECT_BYTES_MAX:
            stored = objects.upload_presigned(*where, pieces, how, length=source.size)
            _end(source, stored, tally)
            return None
        again = partial(files.checksum, source.file) if self._storage.tells_crc32c else None
        sent = objects.begin_upload(*where, pieces, how, length=source.size, again=again)
        finish = partial(_finish, sent, source, tally)
        if self.is_small(source):
            return PendingItem(sent.fileno(), sent.deadline, finish, sent.close)
        finish()
        return None


def _finish(sent: objects.PendingUpload, source: files.Source, tally: Tally) -> None:
    _end(source, sent.finish(), tally)


def _end(source: files.Source, stored: Stats, tally: Tally) -> None:
    if stored.get("size_bytes", source.size) != source.size:
        raise Invalid("the file changed while it was uploaded")
    tally.ended()


def _with_type(how: Upload, path: str) -> Upload:
    if how.content_type:
        return how
    suffixes = path.rpartition("/")[2].lstrip(".").partition(".")[2]
    return Upload(_type_of(suffixes), how.metadata, how.create_only)


@lru_cache(_SUFFIXES_KEPT)
def _type_of(suffixes: str) -> str:
    """The type of files with these suffixes: a folder has few of them."""
    import mimetypes

    return mimetypes.guess_type(f"file.{suffixes}")[0] or "application/octet-stream"


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
    note_uncommitted(invocation, options, place)
    return 0
