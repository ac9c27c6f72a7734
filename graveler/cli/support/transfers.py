"""What `upload`, `download`, `cp`, `mv` and `rm` share: their options, and how a plan is done.

    SRC and DEST listed ──► steps, and what DEST has too many (--delete)
                               ├─ --dry-run: shown
                               └─ done by threads ──► surplus deleted ──► report

If a list fails, the command ends; if a file of SRC cannot be listed, or a transfer fails, nothing
is deleted.  What a filter leaves out stays.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import click

from graveler.cli.support.address import Address
from graveler.cli.support.failures import until_commit
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import AliasOption, Checked, yes
from graveler.cli.support.output import field, plural
from graveler.cli.support.progress import Progress, check, resumable, sentence, transfer
from graveler.core.errors import (
    AlreadyExists,
    Invalid,
    PreconditionFailed,
    UsageMistake,
)
from graveler.core.records import ABSENT, Absent
from graveler.lake.transfers.paths import Filter, Ignore, filter_of
from graveler.lake.transfers.workers import THREADS, Item, Split, Tally

if TYPE_CHECKING:
    from graveler.lake.branch import Branch

_LEFT_ALONE: Final = (AlreadyExists, PreconditionFailed)
_COLUMNS: Final = (field("action"), field("size_bytes", "size", "SIZE"), field("path"))
F = Callable[..., Any]


# ---- options -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransferOptions:
    """The options as they were given.  `checksum`: leave out what is the same also where the
    command would not compare."""

    recursive: bool
    threads: int
    progress: Progress
    no_progress: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    dry_run: bool
    yes: bool
    delete: bool = False
    checksum: bool = False
    no_clobber: bool = False
    pre_sign: bool = True

    def checked(self) -> "TransferOptions":
        """The same options.  Raises `UsageMistake` if they do not go together."""
        for name in () if self.recursive else ("include", "exclude", "delete"):
            if getattr(self, name):
                raise UsageMistake(f"--{name} needs -r")
        return self

    @property
    def choice(self) -> Filter:
        """Which paths below SRC and DEST the command is about."""
        return filter_of(self.include, self.exclude)


def _glob(text: str) -> str:
    # One line of a file of patterns: "#" begins a comment there.
    line = f"\\{text}" if text.startswith("#") else text
    if not Ignore(line) or len(line.splitlines()) != 1:
        raise click.BadParameter(f"no pattern: {text!r}")
    return line


def _added(function: F, *options: Callable[[F], F]) -> F:
    for option in options:
        function = option(function)
    return function


def globs(function: F) -> F:
    """Add `--include` and `--exclude`: an exclusion wins, whatever the order; among several options
    of one name that fit a path, the last one decides."""
    glob = partial(click.option, type=Checked("glob", _glob), multiple=True, metavar="GLOB")
    return _added(
        function,
        glob("--exclude", help="without these paths; wins over --include (repeatable)"),
        glob("--include", help="only these paths: '*.csv', logs/, '!a.csv' (repeatable)"),
    )


def progress_option(function: F) -> F:
    """Add `--progress`, and lakectl's `--no-progress`."""
    return _added(
        function,
        click.option("--no-progress", is_flag=True, hidden=True),
        click.option(
            "--progress",
            type=click.Choice(get_args(Progress)),
            default="auto",
            help="on stderr: a bar or lines, nothing, or a JSON object every second",
        ),
    )


def progress_of(invocation: Invocation, progress: Progress, *, no_progress: bool) -> Progress:
    """How to show progress."""
    return "never" if no_progress or invocation.output.quiet else progress


def threads_option(function: F) -> F:
    """Add `-j`."""
    return click.option(
        *("-j", "--parallel", "threads"),
        cls=AliasOption,
        lakectl=("-p", "--parallelism"),
        type=click.IntRange(1, 128),
        default=THREADS,
        metavar="N",
        help=f"N at a time (default: {THREADS})",
    )(function)


def pre_sign_option(function: F) -> F:
    """Add `--pre-sign`."""
    return click.option(
        *("--pre-sign/--no-pre-sign", "pre_sign"),
        default=True,
        help="contents by signed URLs of the object store, or through the server",
    )(function)


def transfer_options(function: F) -> F:
    """Add all options; the function is given them as fields of a `TransferOptions`."""
    same = "leave out what has the same size and MD5 already; upload -r and download always do"
    surplus = "with -r: then delete at DEST what SRC has not; asks"
    function = _added(
        function,
        click.option("--no-clobber", is_flag=True, help="fail where the path exists"),
        click.option("--checksum", is_flag=True, help=same),
        pre_sign_option,
        click.option("--delete", is_flag=True, help=surplus),
    )
    return move_options(function)


def move_options(function: F) -> F:
    """Add the options that a move has too."""
    return _added(
        function,
        yes,
        progress_option,
        threads_option,
        click.option("--dry-run", is_flag=True, help="show what would be done"),
        globs,
        click.option("-r", "--recursive", is_flag=True, help="everything below the prefix"),
    )


# ---- plans ---------------------------------------------------------------------------------------


def _differs() -> bool:
    return False


class Step(NamedTuple):
    """A transfer of one object.  `name`: in messages.  `path`: where it goes.  `is_same`: whether
    DEST has it; raises what keeps it from being done."""

    name: str
    path: str
    size: int
    work: Callable[[Tally], Split | None]
    is_same: Callable[[], bool] = _differs

    def item(self) -> Item:
        """The step for threads."""
        return Item(self.name, self.size, self._do)

    def _do(self, tally: Tally) -> Split | None:
        if self.is_same():
            tally.ended(skipped=True, length=self.size)
            return None
        return self.work(tally)


@dataclass(frozen=True)
class Plan:
    """What a command does.  `action`, `done`: in words, as `copy` and `copied`.  `into`: the place
    on a branch that it changes.  `surplus`: what `finish` deletes.  `interrupted`: says what an
    interrupt leaves."""

    action: str
    done: str
    steps: Iterable[Step]
    into: Address | Absent = ABSENT
    surplus: Collection[str] = ()
    finish: Callable[[Iterable[str], Tally], None] = lambda surplus, tally: None
    interrupted: Callable[[Tally], str] = resumable


def carry_out(invocation: Invocation, plan: Plan, options: TransferOptions, tally: Tally) -> int:
    """Do a plan, or show it.  `tally` may have what could not be planned.  Raises `PartlyDone`, or
    the error of the only object."""
    if options.dry_run:
        gone = (row("delete", path) for path in plan.surplus if not tally.failures)
        show(invocation, chain(_rows(plan, tally), gone))
        check(tally, f"ready to be {plan.done}")
        return 0
    progress = progress_of(invocation, options.progress, no_progress=options.no_progress)
    items = (step.item() for step in plan.steps)
    transfer(items, tally, options.threads, progress, plan.interrupted)
    plan.finish(_deletable(invocation, plan, tally), tally)
    _report(invocation, plan, options, tally)
    return 0


def _rows(plan: Plan, tally: Tally) -> Iterator[dict[str, Any]]:
    for step in plan.steps:
        tally.expect(step.size)
        try:
            action = "leave" if step.is_same() else plan.action
        except AlreadyExists as error:
            tally.failed(step.name, error)
            continue
        yield row(action, step.path, step.size)


def _deletable(invocation: Invocation, plan: Plan, tally: Tally) -> Collection[str]:
    """The surplus, or nothing if a transfer failed: what DEST has may be the only copy then, as
    after a renaming.  What was to be left alone (`--no-clobber`) has not failed."""
    count = sum(not isinstance(error, _LEFT_ALONE) for error in tally.errors)
    if not (plan.surplus and count):
        return plan.surplus
    were = "was" if count == 1 else "were"
    invocation.output.note(f"nothing is deleted: {plural(count, 'object')} {were} not {plan.done}")
    return ()


def _report(invocation: Invocation, plan: Plan, options: TransferOptions, tally: Tally) -> None:
    record = {
        "objects": tally.files,
        "size_bytes": tally.bytes_moved,
        "same": tally.skipped,
        "deleted": tally.deleted,
        "failed": [{"path": path, "message": message} for path, message in tally.failures],
    }
    if tally.files_expected == 1 and tally.failures:
        raise tally.errors[0]
    invocation.output.record({"graveler": record}, [sentence(tally, plan.done)])
    if plan.into is not ABSENT and (tally.files or tally.deleted):
        note_uncommitted(invocation, options, plan.into)
    check(tally, f"{plan.done} or deleted" if options.delete else plan.done)


def note_uncommitted(invocation: Invocation, options: TransferOptions, place: Address) -> None:
    """Say on a terminal that a change of the branch of `place` is in no commit yet, and what
    commits it.  Nothing is said in a pipe, and beside progress in JSON, which is alone on stderr.
    """
    is_on_terminal = invocation.output.terminal and sys.stderr.isatty()
    if is_on_terminal and options.progress != "json":
        invocation.output.note(until_commit(invocation, place))


def check_surplus(
    invocation: Invocation,
    surplus: Collection[str],
    keep: Collection[str],
    place: object,
    options: TransferOptions,
) -> None:
    """Ask before a surplus is deleted.  Raises `Invalid` if nothing would be left."""
    if surplus and not keep:
        raise Invalid(f"the source has nothing: --delete would delete all that is at {place}")
    if surplus and not options.dry_run:
        question = f"Delete {plural(len(surplus), 'file')} at {place} that the source has not?"
        invocation.confirm(question, yes=options.yes)


def check_apart(sources: Iterable[str], targets: Iterable[str]) -> None:
    """Raises `UsageMistake` if a path that would be written is also one that is read: several
    threads copy, so the source could be replaced before it is copied."""
    clashes = sorted(set(sources).intersection(targets))
    if clashes:
        raise UsageMistake(
            f"DEST would overwrite {plural(len(clashes), 'path')} of SRC, the first is "
            f"{clashes[0]}: go by another prefix"
        )


# ---- deletions -----------------------------------------------------------------------------------


def surplus_objects(
    known: Iterable[str], prefix: str, keep: Collection[str], choice: Filter
) -> list[str]:
    """The paths below a prefix that are not in `keep`.  Markers of folders stay."""
    return [
        path
        for path in known
        if path not in keep and not path.endswith("/") and choice.chooses(path[len(prefix) :])
    ]


def delete_objects(branch: "Branch", paths: Iterable[str], tally: Tally) -> None:
    """Delete objects of a branch; what fails is in the tally, and stops no other.  Raises
    `Unauthenticated`.  One request for each 1,000."""
    before = tally.files_expected

    def counted() -> Iterator[str]:
        for path in paths:
            tally.files_expected += 1
            yield path

    failed = branch.delete_objects(counted())
    for path, error in failed.items():
        tally.failed(path, error)
    tally.deleted += tally.files_expected - before - len(failed)


def delete_files(folder: Path, paths: Iterable[str], tally: Tally) -> None:
    """Delete files, and folders that are empty then; what fails is in the tally, and stops no
    other."""
    for path in paths:
        file = Path(path)
        tally.files_expected += 1
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            tally.failed(path, error)
            continue
        tally.deleted += 1
        _remove_empty(file.parent, folder)


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top:
        try:
            folder.rmdir()
        except OSError:  # not empty
            return
        folder = folder.parent


# ---- --dry-run -----------------------------------------------------------------------------------


def row(action: str, path: str, size: int | None = None) -> dict[str, Any]:
    """What would be done with a path."""
    return {"action": action, "path": path} | ({} if size is None else {"size_bytes": size})


def show(invocation: Invocation, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print what would be done, and how much it is."""
    counts: dict[str, int] = {}

    def counted() -> Iterator[Mapping[str, Any]]:
        for planned in rows:
            counts[planned["action"]] = counts.get(planned["action"], 0) + 1
            yield planned

    invocation.output.items(_COLUMNS, counted())
    words = ", ".join(f"{action} {count:,}" for action, count in sorted(counts.items()))
    invocation.output.note(f"nothing was done; it would {words or 'do nothing'}")
