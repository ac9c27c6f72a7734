"""The options that `upload`, `download`, `cp` and `mv` share.  For this folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from graveler.cli.address import UsageMistake
from graveler.cli.command import yes
from graveler.cli.filters import Filter, filter_of, globs
from graveler.cli.transfer import THREADS


@dataclass(frozen=True)
class TransferOptions:
    """The options as they were given.  `checksum`: leave out what is the same also where the
    command would not compare."""

    recursive: bool
    threads: int
    progress: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    dry_run: bool
    yes: bool
    delete: bool = False
    checksum: bool = False
    no_clobber: bool = False

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
            "--delete", is_flag=True, help="with -r: then delete at DEST what SRC has not; asks"
        ),
    ):
        function = option(function)
    return move_options(function)


def move_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that a move has too: all but `--delete`, `--checksum` and `--no-clobber`."""
    function = yes(function)
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
        click.option("--dry-run", is_flag=True, help="show what would be done"),
    ):
        function = option(function)
    function = globs(function)
    return click.option("-r", "--recursive", is_flag=True, help="everything below the prefix")(
        function
    )
