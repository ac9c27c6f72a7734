"""Patterns of paths: `.gravelerignore`, `--include` and `--exclude`.  A subset of Git's rules.

    # a comment
    *.tmp          in every folder
    /cache         at the top alone, as every pattern with a slash in it
    logs/          folders alone, with all that is in them
    !keep.tmp      not ignored after all; the last pattern that fits decides

`*` and `?` match within a name, `**/` any number of folders.  Only the `.gravelerignore` at the top
of the linked folder counts, and lakectl does not know it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from graveler.errors import Invalid

FILE: Final = ".gravelerignore"
BYTES_MAX: Final = 64 << 10
_PATTERNS_MAX: Final = 1_000
_STARS: Final = re.compile(r"\*+")
_STARS_MAX: Final = 8  # of one pattern
_NOTHING: Final = re.compile(r"(?!)")


class _Rule(NamedTuple):
    names: tuple[re.Pattern[str] | None, ...]  # none: any number of folders
    negates: bool
    folders_only: bool


class Ignore:
    """The patterns of a file."""

    def __init__(self, text: str = "") -> None:
        """Raises `Invalid` for too many patterns."""
        self.text = text
        lines = [line.rstrip() for line in text.splitlines()]
        self._rules = [_rule(line) for line in lines if line and not line.startswith("#")]
        if len(self._rules) > _PATTERNS_MAX:
            raise Invalid(f"{FILE} must have at most {_PATTERNS_MAX} patterns")

    def __bool__(self) -> bool:
        return bool(self._rules)

    def fits(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether the path itself is ignored.  Whoever walks does not enter ignored folders."""
        parts = path.split("/")
        for rule in self._latest_first:
            if (is_folder or not rule.folders_only) and _fits(rule.names, parts):
                return not rule.negates
        return False

    def covers(self, path: str) -> bool:
        """Whether the path, or a folder that it is in, is ignored."""
        if not self._rules:
            return False
        parts = path.rstrip("/").split("/")
        folders = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return any(self.fits(folder, is_folder=True) for folder in folders) or self.fits(
            path.rstrip("/"), is_folder=path.endswith("/")
        )

    @cached_property
    def _latest_first(self) -> list[_Rule]:
        return self._rules[::-1]


@dataclass(frozen=True)
class Filter:
    """Which paths below a prefix or a folder a command is about: those that `include`, if it has
    patterns, and not `exclude` covers."""

    include: Ignore = field(default_factory=Ignore)
    exclude: Ignore = field(default_factory=Ignore)

    def __bool__(self) -> bool:
        return bool(self.include) or bool(self.exclude)

    def chooses(self, path: str) -> bool:
        """Whether the command is about a path."""
        if self.include and not self.include.covers(path):
            return False
        return not self.exclude.covers(path)


def filter_of(include: Sequence[str], exclude: Sequence[str]) -> Filter:
    """The filter of some patterns.  Raises `Invalid` for too many of them."""
    return Filter(Ignore("\n".join(include)), Ignore("\n".join(exclude)))


def _rule(line: str) -> _Rule:
    negates = line.startswith("!")
    words = line.removeprefix("!").removeprefix("\\")
    folders_only = words.endswith("/")
    words = words.rstrip("/")
    if words.count("*") > _STARS_MAX:
        raise Invalid(f"{FILE}: a pattern has more than {_STARS_MAX} stars: {line!r:.80}")
    parts = words.removeprefix("/").split("/")
    if "/" not in words:
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")  # what is in a folder, not the folder
    names = tuple(None if part == "**" else _name(part) for part in parts)
    return _Rule(names, negates, folders_only)


def _name(part: str) -> re.Pattern[str]:
    """The pattern of one name.  Text between two stars is taken where it is first, for good: so the
    work is the length of the name times that of the pattern."""
    head, *texts = [re.escape(text).replace(r"\?", ".") for text in _STARS.split(part)]
    between = "".join(f"(?>.*?{text})" for text in texts[:-1])
    return re.compile(head + between + (f".*{texts[-1]}" if texts else ""), re.DOTALL)


def _fits(names: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Whether the names fit all parts.  Only the latest `**` is tried at other places."""
    name = part = 0
    after = -1  # the name after the latest `**`, and the part that it was tried at
    tried = 0
    while part < len(parts):
        pattern = names[name] if name < len(names) else _NOTHING
        if pattern is None:
            after, tried = name + 1, part
            name += 1
        elif pattern.fullmatch(parts[part]):
            name, part = name + 1, part + 1
        elif after >= 0:
            tried += 1
            name, part = after, tried
        else:
            return False
    return all(pattern is None for pattern in names[name:])
