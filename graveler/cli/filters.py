"""`--include GLOB` and `--exclude GLOB`: which paths below a prefix or a folder a command is about.

    a path is chosen if   no --include was given, or one fits the path or a folder that it is in
                    and   no --exclude fits the path or a folder that it is in

So an exclusion wins, whatever the order.  Among several options of one name that fit, the last
one decides, and `!GLOB` takes back what the ones before it chose.  The globs are those of
`.gravelerignore` (graveler/local/ignore.py), seen from the prefix or the folder.  For this folder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from graveler.cli.arguments import Checked
from graveler.local.ignore import Ignore


@dataclass(frozen=True)
class Filter:
    """The globs of a call."""

    include: Ignore = field(default_factory=Ignore)
    exclude: Ignore = field(default_factory=Ignore)

    def __bool__(self) -> bool:
        return bool(self.include) or bool(self.exclude)

    def chooses(self, path: str) -> bool:
        """Whether the command is about a path."""
        if self.include and not self.include.covers(path):
            return False
        return not self.exclude.covers(path)


EVERYTHING: Final = Filter()


def filter_of(include: Sequence[str], exclude: Sequence[str]) -> Filter:
    """The filter of the options.  Raises `Invalid` for too many of them."""
    return Filter(Ignore("\n".join(include)), Ignore("\n".join(exclude)))


def _glob(text: str) -> str:
    # One line of a file of patterns: "#" begins a comment there.
    line = f"\\{text}" if text.startswith("#") else text
    if not Ignore(line) or len(line.splitlines()) != 1:
        raise click.BadParameter(f"no pattern: {text!r}")
    return line


_GLOB: Final = Checked("glob", _glob)


def globs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--include` and `--exclude`."""
    for name, help in (
        ("--exclude", "without these paths; wins over --include (repeatable)"),
        ("--include", "only these paths: '*.csv', logs/, '!a.csv' (repeatable)"),
    ):
        function = click.option(name, type=_GLOB, multiple=True, metavar="GLOB", help=help)(
            function
        )
    return function
