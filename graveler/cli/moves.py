"""`graveler mv`: objects of a branch get other paths.

    list ──► copy, by the server ──► compare each copy with its source ──► list again ──► delete

A source is deleted only if its copy has the same content, and only if nobody has written the source
since it was listed.  So a failure at any step leaves the source.  Nothing is atomic: readers of the
branch can see both paths until the end.  A commit shows the moves as a whole.  A move is refused
if one of its targets is also one of its sources.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from graveler.cli import mirror
from graveler.cli.support.address import Address, UsageMistake
from graveler.cli.support.command import client
from graveler.cli.support.failures import naming_folder, nothing_below
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import remote_argument
from graveler.cli.support.progress import Tally
from graveler.cli.transfer import Transfer
from graveler.cli.transfer_options import TransferOptions, ended, move_options, shows
from graveler.client import objects
from graveler.client.objects import DELETIONS_MAX, Stats
from graveler.errors import Conflict, Corrupt, Invalid, NotFound


class _Move(NamedTuple):
    source: Stats
    path: str


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
    recursive = options.recursive
    come, into = _sides(invocation, source, target, recursive=recursive)
    invocation.target = into
    moves = list(_moves(invocation, come, into, options))
    if not moves:
        raise nothing_below(options.choice)
    mirror.check_apart(map(_source_path, moves), (move.path for move in moves))
    if options.dry_run:
        rows = (mirror.row("move", move.path, move.source.get("size_bytes", 0)) for move in moves)
        mirror.show(invocation, rows)
        return 0
    if not options.yes and _is_taken(invocation, into, moves, recursive=recursive):
        invocation.confirm(f"Replace what is at {into}?", yes=options.yes)
    copied: list[_Move] = []
    session = invocation.session

    def work(move: _Move, tally: Tally) -> None:
        copy = objects.copy(
            *(session, into.repository, into.ref, move.path), come.ref, move.source["path"]
        )
        if _content(copy) != _content(move.source):
            raise Corrupt("the copy differs from its source; both stay")
        tally.moved(move.source.get("size_bytes", 0))
        with tally.lock:
            copied.append(move)
        tally.ended()

    def expected(tally: Tally) -> Iterator[_Move]:
        for move in moves:
            tally.expect(move.source.get("size_bytes", 0))
            yield move

    transfer = Transfer(work, _source_path, options.threads, shows(invocation, options))
    tally = transfer.run(
        expected, state=lambda tally: f"{tally.state('copied')}; nothing was deleted"
    )
    _delete(invocation, come, copied, tally, recursive=recursive)
    return ended(invocation, tally, "moved", options, into)


def _source_path(move: _Move) -> str:
    return move.source["path"]


def _sides(
    invocation: Invocation, source: str, target: str, *, recursive: bool
) -> tuple[Address, Address]:
    """Both addresses.  With `recursive`, both are prefixes."""
    come = invocation.path(source, optional=recursive)
    into = invocation.path(target, optional=True)
    if (come.repository, come.ref) != (into.repository, into.ref):
        raise UsageMistake(f"both sides must be on one branch: {come} and {into}: use cp, then rm")
    if recursive:
        come, into = come.at(come.folder), into.at(into.folder)
        if into.path.startswith(come.path):
            raise UsageMistake("DEST is SRC, or below it")
        return come, into
    if not into.path or into.path.endswith("/"):
        into = into.at(into.path + come.path.rpartition("/")[2])
    if into.path == come.path:
        raise UsageMistake("DEST is SRC")
    return come, into


def _listed(invocation: Invocation, come: Address, *, recursive: bool) -> Iterator[Stats]:
    place = (invocation.session, come.repository, come.ref, come.path)
    if recursive:
        yield from objects.list_objects(*place)
    else:
        with naming_folder(invocation, come):
            stats = objects.stat(*place)
        yield stats


def _moves(
    invocation: Invocation, come: Address, into: Address, options: TransferOptions
) -> Iterator[_Move]:
    for stats in _listed(invocation, come, recursive=options.recursive):
        rest = stats["path"].removeprefix(come.path) if options.recursive else ""
        if not options.recursive or options.choice.chooses(rest):
            yield _Move(stats, into.path + rest)


def _is_taken(
    invocation: Invocation, into: Address, moves: list[_Move], *, recursive: bool
) -> bool:
    """Whether an object would be replaced."""
    place = (invocation.session, into.repository, into.ref, into.path)
    paths = {move.path for move in moves}
    if recursive:
        return any(stats["path"] in paths for stats in objects.list_objects(*place))
    try:
        objects.stat(*place)
    except NotFound:
        return False
    return True


def _delete(
    invocation: Invocation, come: Address, copied: list[_Move], tally: Tally, *, recursive: bool
) -> None:
    """Delete the sources that are as they were when they were copied.  A source that stays is not
    moved: the tally counts it no more."""
    now = {stats["path"]: stats for stats in _listed(invocation, come, recursive=recursive)}
    ready = []
    for move in copied:
        path = _source_path(move)
        stats = now.get(path, move.source)  # somebody else has deleted it: nothing is lost
        if (_content(stats), stats.get("mtime")) == (
            _content(move.source),
            move.source.get("mtime"),
        ):
            ready.append(path)
        else:
            tally.files -= 1
            tally.failed(path, Conflict("written while it was moved; both stay"))
    for start in range(0, len(ready), DELETIONS_MAX):
        page = ready[start : start + DELETIONS_MAX]
        failures = objects.delete(invocation.session, come.repository, come.ref, page)
        for failure in failures:
            tally.failed(str(failure.get("path", "")), Invalid(str(failure["message"])))
        tally.files -= len(failures)


def _content(stats: Stats) -> tuple[object, object]:
    return stats.get("checksum"), stats.get("size_bytes")
