"""`graveler local`: a folder in step with a prefix of a branch."""

import fcntl
import gc
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli import profiles, state
from graveler.cli.address import Address, UsageMistake
from graveler.cli.command import address_argument, client, group, yes
from graveler.cli.invocation import Invocation, choose_profile, metadata_pairs
from graveler.cli.options import FOLDER
from graveler.cli.output import field, plain, plural
from graveler.cli.transfer import THREADS, Interrupted, Tally, Transfer
from graveler.clock import SystemClock
from graveler.errors import Contended, Invalid, NotFound, Unavailable
from graveler.local import commit as commit_verb
from graveler.local import git, sync
from graveler.local.disk import DiskFolder, DiskShelf, identity
from graveler.local.entries import STATE_FILE, Link, Prefix, Settings
from graveler.local.ports import Job
from graveler.local.records import Records
from graveler.local.server import PrefixServer
from graveler.local.work import Work
from graveler.variables import environment

_PATIENCE_SECONDS: Final = 60.0  # of an interrupt, for requests that have begun
_DEPTH_MAX: Final = 64
_TRUE: Final = ("1", "t", "true")
_COLORS: Final = {"added": "green", "removed": "red", "changed": "yellow"}
_STATUS: Final = (field("location"), field("type", title="CHANGE"), field("path"))
_LIST: Final = (
    field("directory"),
    field("src", title="SOURCE"),
    field("at_head", "id", "COMMIT"),
    field("active_operation", title="INTERRUPTED"),
)


@group("local")
def local() -> None:
    """Work with a folder that is in step with a prefix of a branch.

    lakectl may be used in the same folder.
    """


def _transfers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands that transfer contents; lakectl's are hidden."""
    for option in (
        click.option("--progress", type=click.Choice(["auto", "never"]), default="auto"),
        click.option("--no-progress", is_flag=True, hidden=True),
        click.option("--pre-sign", is_flag=True, hidden=True),
        click.option(
            "-j",
            "-p",
            "--parallel",
            "--parallelism",
            "threads",
            type=click.IntRange(1, 128),
            default=THREADS,
            metavar="N",
            help=f"N at a time (default: {THREADS})",
        ),
    ):
        function = option(function)
    return function


# ---- commands ------------------------------------------------------------------------------------


@client(
    "clone",
    group=local,
    examples=(
        "graveler local clone lake/main/sales/          # to the folder sales",
        "graveler local clone lake/main/sales/ data",
    ),
)
@address_argument("address", metavar="BRANCH[/PREFIX]")
@click.argument("directory", metavar="[DIR]", type=FOLDER, required=False)
@click.option("--gitignore/--no-gitignore", default=True, help="have Git ignore the folder")
@_transfers
def clone(
    invocation: Invocation, address: str, directory: Path | None, gitignore: bool, **how: Any
) -> int:
    """Download a prefix to an empty folder, and link the folder with it.

    The same command continues a clone that was interrupted; `graveler local checkout` undoes it.
    """
    source = _prefix(invocation.path(address, optional=True))
    name = source.path.rstrip("/").rpartition("/")[2] or source.repository
    root = _new_root(directory or Path(name))
    with _opened(invocation, root, source, **how) as work:
        outcome = sync.clone(work, source)
    if gitignore:
        git.ignore(root)
    sentence = f"cloned {plural(outcome.written, 'object')} of {source} to {root}"
    return _report(invocation, outcome, Link(source, outcome.head), sentence)


@client(
    "init",
    group=local,
    examples=("graveler local init lake/main/sales/ data      # link the files that are there",),
)
@address_argument("address", metavar="BRANCH[/PREFIX]")
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("--force", is_flag=True, help="also if the folder is linked already")
@click.option("--gitignore/--no-gitignore", default=True, help="have Git ignore the folder")
def init(
    invocation: Invocation, address: str, directory: Path, force: bool, gitignore: bool
) -> int:
    """Link a folder with a prefix, and change no file.

    What differs from the branch is a local change then: `graveler local commit` commits it,
    `graveler local checkout` discards it.
    """
    source = _prefix(invocation.path(address, optional=True))
    root = _new_root(directory)
    with _opened(invocation, root, source) as work:
        outcome = sync.init(work, source, force=force)
    if gitignore:
        git.ignore(root)
    link = Link(source, outcome.head)
    return _report(invocation, outcome, link, f"linked {root} with {source}")


@client("list", group=local, examples=("graveler local list", "graveler local list projects"))
@click.argument("directory", metavar="[DIR]", type=FOLDER, required=False)
def list_(invocation: Invocation, directory: Path | None) -> int:
    """List the linked folders below a folder; in a working copy of Git, below its top."""
    top = directory or git.top(Path.cwd()) or Path()
    if not top.is_dir():
        raise NotFound(f"folder not found: {top}")
    rows = (
        {"directory": str(root), **_link_fields(link)}
        for root in _linked_below(top)
        if (link := DiskFolder(root, Settings()).link()) is not None
    )
    if not invocation.output.items(_LIST, rows):
        invocation.output.note(f"no linked folders below {top}")
    return 0


@client(
    "status",
    group=local,
    examples=("graveler local status", "graveler local status data --local"),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("-l", "--local", "local_only", is_flag=True, help="not what the branch changed")
def status(invocation: Invocation, directory: Path, local_only: bool) -> int:
    """Show what changed in the folder, and on the branch, since they were in step."""
    with _opened(invocation, _root(directory), lock=False) as work:
        link, operation = work.folder.link(), work.records.operation()
        in_folder, on_branch, conflicts = sync.changes_of(work, local_only=local_only)
    output = invocation.output
    sides = (("local", in_folder), ("remote", on_branch))
    names = set(conflicts)
    rows = (
        {
            "location": location,
            "type": change.kind,
            "path": change.path,
            **({"size_bytes": change.entry.size} if change.entry is not None else {}),
            "conflict": change.path in names,
        }
        for location, changes in sides
        for change in changes
    )
    if operation is not None or (link is not None and link.operation):
        name = operation.name if operation is not None else link.operation if link else ""
        output.note(f"{name} was interrupted: repeat it, or run `graveler local checkout`")
    output.items(_STATUS, rows, lambda row: {"fg": _COLORS[row["type"]]})
    if output.terminal and not in_folder and not on_branch:
        output.note("no changes" if local_only else "no changes, here and on the branch")
    if conflicts:
        output.note(f"{plural(len(conflicts), 'path')} in conflict: changed on both sides")
    return 0


@client(
    "pull",
    group=local,
    examples=(
        "graveler local pull",
        "graveler local pull data --theirs             # the branch decides conflicts",
        "graveler local pull --force                   # discards local changes",
    ),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("--ours", "for_ours", is_flag=True, help="in conflicts, keep the files of the folder")
@click.option(
    "--theirs", "for_theirs", is_flag=True, help="in conflicts, take the objects of the branch"
)
@click.option("--force", is_flag=True, help="discard all local changes")
@yes
@_transfers
def pull(
    invocation: Invocation,
    directory: Path,
    for_ours: bool,
    for_theirs: bool,
    force: bool,
    yes: bool,
    **how: Any,
) -> int:
    """Take what the branch changed.

    A path that both sides changed is a conflict: the command lists them, changes nothing, and ends
    with 5.  The same command continues a pull that was interrupted.
    """
    if for_ours + for_theirs + force > 1:
        raise UsageMistake("give one of --ours, --theirs and --force")
    choice: sync.Choice = "ours" if for_ours else "theirs" if for_theirs else ""
    root = _root(directory)
    with _opened(invocation, root, **how) as work:
        confirm = _confirm(invocation, root, yes=yes)
        outcome = sync.pull(work, choice, force=force, confirm=confirm)
        link = work.folder.link()
    return _report(invocation, outcome, link, _counts("pulled", outcome))


@client(
    "commit",
    group=local,
    examples=(
        "graveler local commit -m 'Correct March'",
        "graveler local commit data -m 'Load' --meta job=42",
    ),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("-m", "--message", default="", metavar="TEXT", help="what changed, and why")
@click.option("--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)")
@click.option("--allow-empty-message", is_flag=True, help="commit without a message")
@click.option("--force", is_flag=True, help="also commit what is uncommitted on the branch")
@_transfers
def commit(
    invocation: Invocation,
    directory: Path,
    message: str,
    pairs: tuple[str, ...],
    allow_empty_message: bool,
    force: bool,
    **how: Any,
) -> int:
    """Upload the changes of the folder, and commit them.

    If the branch has changed other paths, they are pulled afterwards.  A conflict ends with 5, and
    nothing was uploaded.  Ends with 1 if there is nothing to commit.
    """
    root = _root(directory)
    if not message and not allow_empty_message:
        raise UsageMistake("no message: give -m TEXT")
    metadata = {**git.metadata(root), **metadata_pairs(pairs)}
    with _opened(invocation, root, **how) as work:
        text = commit_verb.Message(message, metadata)
        outcome = commit_verb.commit(work, text, force=force)
        link = work.folder.link()
    return _report(invocation, outcome, link, _counts("committed", outcome))


@client(
    "checkout",
    group=local,
    examples=(
        "graveler local checkout                       # discard local changes",
        "graveler local checkout --ref v1.2",
        "graveler local checkout --all --yes",
    ),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("-r", "--ref", default="", metavar="REF", help="make the folder equal to this ref")
@click.option("--all", "is_all", is_flag=True, help="all linked folders below DIR")
@yes
@_transfers
def checkout(
    invocation: Invocation, directory: Path, ref: str, is_all: bool, yes: bool, **how: Any
) -> int:
    """Discard the changes of the folder, or make it equal to another ref.

    If a command was interrupted in the folder, undo that instead.
    """
    roots = [*_linked_below(_real(directory))] if is_all else [_root(directory)]
    if not roots:
        raise NotFound(f"no linked folders below {directory}")
    for root in roots:
        with _opened(invocation, root, **how) as work:
            outcome = sync.checkout(work, ref, _confirm(invocation, root, yes=yes))
            link = work.folder.link()
        if outcome.landed:
            sentence = "the commit was made before it was interrupted: run graveler local pull"
        elif outcome.undone:
            sentence = f"undone: {outcome.undone}"
        else:
            sentence = _counts("checked out", outcome)
        _report(invocation, outcome, link, sentence)
    return 0


# ---- what they share -----------------------------------------------------------------------------


def linked_address(root: Path) -> Address | None:
    """The prefix with which a folder is linked."""
    link = DiskFolder(root, Settings()).link()
    return Address(*link.source) if link is not None else None


def _prefix(address: Address) -> Prefix:
    path = address.path
    return Prefix(
        address.repository, address.ref, path if not path or path.endswith("/") else path + "/"
    )


def _root(directory: Path) -> Path:
    """The linked folder that `directory` is, or is in."""
    start = _real(directory)
    for folder in (start, *start.parents):
        if (folder / STATE_FILE).exists():
            return folder
    raise NotFound(f"no linked folder: {start}: link one with graveler local clone, or init")


def _new_root(directory: Path) -> Path:
    """The folder that will be linked, made if it is not there."""
    root = _real(directory)
    for folder in root.parents:
        if (folder / STATE_FILE).exists():
            raise UsageMistake(f"{root} is in the linked folder {folder}: choose another place")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"folder cannot be made: {root}: {error.strerror}") from error
    return root


def _real(directory: Path) -> Path:
    """The one path of a folder: its state is kept by it, and its parents are the folders that it is
    in, as those of `sales/../raw` are not."""
    return Path(os.path.realpath(directory))


def _linked_below(top: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(top):
        folders.sort()
        if STATE_FILE in names:
            yield Path(place)
            folders.clear()
        elif len(Path(place).parts) - len(top.parts) >= _DEPTH_MAX:
            folders.clear()


@contextmanager
def _opened(
    invocation: Invocation,
    root: Path,
    source: Prefix | None = None,
    *,
    lock: bool = True,
    threads: int = THREADS,
    progress: str = "auto",
    no_progress: bool = False,
    pre_sign: bool = False,
) -> Iterator[Work]:
    """The ports of a linked folder, or of one that will be linked with `source`."""
    settings, shows = _settings(invocation), progress != "never" and not no_progress
    collects = gc.isenabled()
    gc.disable()  # a listing is many small records without cycles
    folder = DiskFolder(root, settings)
    file = _state_folder() / f"{identity(root)}.db"
    with _locked(file.with_suffix(".lock"), root, lock=lock):
        records = Records(file, SystemClock())
        try:
            link = folder.link() if source is None else None
            source = source or (link.source if link is not None else Prefix("", ""))
            _use_server(invocation, records, is_linked=os.path.lexists(root / STATE_FILE))
            yield Work(
                folder=folder,
                shelf=DiskShelf(root, settings),
                server=PrefixServer(invocation.session, source, settings),
                records=records,
                run=_Runner(threads, shows=shows and not invocation.output.quiet),
                settings=settings,
                ignores=folder.ignore.covers,
            )
        finally:
            records.close()
            if collects:
                gc.enable()


def _use_server(invocation: Invocation, records: Records, *, is_linked: bool) -> None:
    """Talk to the server that the folder was linked on, unless an option names another one.  The
    records of a folder that is not linked are those of one that was removed."""
    linked = records.note("server") if is_linked else ""
    flags, server = invocation.flags, invocation.profile.server
    is_chosen = any(flags.get(name) for name in ("server", "profile"))
    if linked and not is_chosen and not profiles.same_origin(linked, server):
        known = profiles.read(environment()).by_name
        names = [name for name in known if profiles.same_origin(known[name].server, linked)]
        if len(names) != 1:
            raise UsageMistake(
                f"the folder is linked on {linked}, not on {server}: give --profile or --server"
            )
        choose_profile(invocation, names[0])
    if not linked or is_chosen:
        records.note("server", invocation.profile.server)


class _Runner:
    """Runs transfers in threads (ports.Runner).  After an interrupt it waits for the requests that
    have begun, so that what follows sees all that was done."""

    def __init__(self, threads: int, *, shows: bool) -> None:
        self._threads, self._shows = threads, shows
        self._active = 0
        self._changed = threading.Condition()

    def __call__(self, verb: str, jobs: Sequence[Job]) -> None:
        if not jobs:
            return

        def items(tally: Tally) -> Iterator[Job]:
            for job in jobs:
                tally.expect(job.size)
                yield job

        transfer = Transfer(
            self._work, lambda job: job.path, min(self._threads, len(jobs)), self._shows
        )
        try:
            tally = transfer.run(items)
        except BaseException:
            with self._changed:
                self._changed.wait_for(lambda: not self._active, _PATIENCE_SECONDS)
            raise
        if len(jobs) == 1 and tally.errors:
            raise tally.errors[0]
        tally.check(verb)

    def _work(self, job: Job, tally: Tally) -> None:
        with self._changed:
            if tally.stop.is_set():
                raise Interrupted
            self._active += 1
        try:
            job.work(tally.moved)
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()
        tally.ended()


@contextmanager
def _locked(file: Path, root: Path, *, lock: bool) -> Iterator[None]:
    """One command at a time changes a folder."""
    if not lock:
        yield
        return
    try:
        state.make(file.parent)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Unavailable(f"state cannot be kept: {file}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Contended(f"another command works in {root}") from error
        yield
    finally:
        os.close(handle)


def _state_folder() -> Path:
    variables = environment()
    known = variables.get("XDG_STATE_HOME", "")
    home = Path(variables.get("HOME") or Path.home())
    return (Path(known) if known.startswith("/") else home / ".local/state") / "graveler/local"


def _settings(invocation: Invocation) -> Settings:
    """The settings of lakectl: variables over its file."""
    variables = environment()
    file = profiles.lakectl_file(str(invocation.flags.get("config", "")), variables)
    document = profiles.lakectl_document(file) if file is not None else {}

    def is_set(name: str) -> bool:
        variable = variables.get(f"LAKECTL_{name.upper().replace('.', '_')}")
        if variable is not None:
            return variable.lower() in _TRUE
        value: Any = document
        for key in name.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value is True

    return Settings(
        skip_special=is_set("local.skip_non_regular_files"),
        symlinks=is_set("local.symlink_support"),
        posix=is_set("experimental.local.posix_permissions.enabled"),
        owners=os.geteuid() == 0,
    )


def _confirm(invocation: Invocation, root: Path, *, yes: bool) -> sync.Confirm:
    def confirm(count: int) -> None:
        question = f"Discard {plural(count, 'local change')} in {root}?"
        invocation.confirm(question, yes=yes)

    return confirm


def _counts(verb: str, outcome: sync.Outcome) -> str:
    if not outcome.written and not outcome.removed:
        return "nothing to do: the folder is in step"
    return f"{verb}: {outcome.written:,} written, {outcome.removed:,} removed"


def _link_fields(link: Link) -> dict[str, Any]:
    return {
        "src": str(link.source),
        "at_head": link.head,
        "active_operation": link.operation,
    }


def _report(invocation: Invocation, outcome: sync.Outcome, link: Link | None, sentence: str) -> int:
    output = invocation.output
    counts = {"written": outcome.written, "removed": outcome.removed, "aside": [*outcome.aside]}
    record = {**(_link_fields(link) if link is not None else {}), "graveler": counts}
    where = f" at {output.id(outcome.head)}" if outcome.head else ""
    output.record(record, [plain(sentence) + where])
    for name in outcome.aside:
        output.note(f"kept, because it changed meanwhile: {plain(name)}")
    return 0
