"""`.gravelerignore`: which files of a folder are left alone.  A subset of Git's rules.

    # a comment
    *.tmp          in every folder
    /cache         at the top alone, as every pattern with a slash in it
    logs/          folders alone, with all that is in them
    !keep.tmp      not ignored after all; the last pattern that fits decides

`*` and `?` match within a name, `**` any number of folders.  Only the file at the top of the linked
folder counts, and lakectl does not know it.  Pure.  For this folder.
"""

import re
from functools import cached_property
from typing import Final, NamedTuple

from graveler.errors import Invalid

FILE: Final = ".gravelerignore"
BYTES_MAX: Final = 64 << 10
_PATTERNS_MAX: Final = 1_000
_PIECES: Final = re.compile(r"/\*\*/|\*\*/|/\*\*|\*|\?|[^*?/]+|/")
_SPECIAL: Final = {
    "/**/": "/(?:.*/)?",
    "**/": "(?:.*/)?",
    "/**": "/.*",
    "*": "[^/]*",
    "?": "[^/]",
}
_STARS_MAX: Final = 8  # of one pattern; each can be tried at every place of a path


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    negates: bool
    folders_only: bool


class Ignore:
    """The patterns of a file."""

    def __init__(self, text: str = "") -> None:
        """Raises `Invalid` for too many patterns."""
        lines = [line.rstrip() for line in text.splitlines()]
        self._rules = [_rule(line) for line in lines if line and not line.startswith("#")]
        if len(self._rules) > _PATTERNS_MAX:
            raise Invalid(f"{FILE} must have at most {_PATTERNS_MAX} patterns")

    def __bool__(self) -> bool:
        return bool(self._rules)

    def fits(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether the path itself is ignored.  Whoever walks does not enter ignored folders."""
        for rule in self._latest_first:
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
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


def _rule(line: str) -> _Rule:
    negates = line.startswith("!")
    words = line.removeprefix("!").removeprefix("\\")
    folders_only = words.endswith("/")
    words = words.rstrip("/")
    if words.count("*") > _STARS_MAX:
        raise Invalid(f"{FILE}: a pattern has more than {_STARS_MAX} stars: {line!r:.80}")
    anchored = "/" in words
    pieces = _PIECES.findall(words.removeprefix("/"))
    text = "".join(_SPECIAL.get(piece) or re.escape(piece) for piece in pieces)
    return _Rule(
        re.compile(text if anchored else f"(?:.*/)?{text}", re.DOTALL), negates, folders_only
    )
