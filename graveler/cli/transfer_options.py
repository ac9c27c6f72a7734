"""What `upload`, `download`, `cp` and `mv` share: their options, progress and report.  For this
folder."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import click

from graveler.cli.support.address import Address, UsageMistake
from graveler.cli.support.failures import until_commit
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import AliasOption, Filter, filter_of, globs, yes
from graveler.cli.support.progress import Tally
from graveler.cli.transfer import THREADS, Progress
from graveler.records import ABSENT, Absent


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
        if not self.recursive:
            for name, value in (
                ("--include", self.include),
                ("--exclude", self.exclude),
                ("--delete", self.delete),
            ):
                if value:
                    raise UsageMistake(f"{name} needs -r")
        return self

    @property
    def choice(self) -> Filter:
        """Which paths below SRC and DEST the command is about."""
        return filter_of(self.include, self.exclude)


def progress_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--progress`, and lakectl's `--no-progress`."""
    function = click.option("--no-progress", is_flag=True, hidden=True)(function)
    return click.option(
        "--progress",
        type=click.Choice(get_args(Progress)),
        default="auto",
        help="on stderr: a bar or lines, nothing, or a JSON object every second",
    )(function)


def progress_of(invocation: Invocation, progress: Progress, *, no_progress: bool) -> Progress:
    """How to show progress."""
    return "never" if no_progress or invocation.output.quiet else progress


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-j`."""
    return click.option(
        "-j",
        "--parallel",
        "threads",
        cls=AliasOption,
        lakectl=("-p", "--parallelism"),
        type=click.IntRange(1, 128),
        default=THREADS,
        metavar="N",
        help=f"N at a time (default: {THREADS})",
    )(function)


def transfer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options; the function is given them as fields of a `TransferOptions`."""
    for option in (
        click.option("--no-clobber", is_flag=True, help="fail where the path exists"),
        click.option(
            "--checksum",
            is_flag=True,
            help="leave out what has the same size and MD5 already; upload -r and download always "
            "do",
        ),
        click.option(
            "--pre-sign/--no-pre-sign",
            "pre_sign",
            default=True,
            help="contents by signed URLs of the object store, or through the server",
        ),
        click.option(
            "--delete", is_flag=True, help="with -r: then delete at DEST what SRC has not; asks"
        ),
    ):
        function = option(function)
    return move_options(function)


def move_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that a move has too: all but `--delete`, `--checksum` and `--no-clobber`."""
    function = yes(function)
    for option in (
        progress_option,
        threads_option,
        click.option("--dry-run", is_flag=True, help="show what would be done"),
    ):
        function = option(function)
    function = globs(function)
    return click.option("-r", "--recursive", is_flag=True, help="everything below the prefix")(
        function
    )


def shows(invocation: Invocation, options: TransferOptions) -> Progress:
    """How a transfer shows its progress."""
    return progress_of(invocation, options.progress, no_progress=options.no_progress)


def ended(
    invocation: Invocation,
    tally: Tally,
    verb: str,
    options: TransferOptions,
    into: Address | Absent = ABSENT,
) -> int:
    """Report a transfer.  `into`: the place on a branch that it changed.  Raises `PartlyDone`, or
    the error of the only object."""
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
    if into is not ABSENT and (tally.files or tally.deleted):
        note_uncommitted(invocation, options, into)
    tally.check(f"{verb} or deleted" if options.delete else verb)
    return 0


def note_uncommitted(invocation: Invocation, options: TransferOptions, place: Address) -> None:
    """Say on a terminal that a change of the branch of `place` is in no commit yet, and what
    commits it.  Nothing is said in a pipe, and beside progress in JSON, which is alone on stderr.
    """
    is_on_terminal = invocation.output.terminal and sys.stderr.isatty()
    if is_on_terminal and options.progress != "json":
        invocation.output.note(until_commit(invocation, place))
