"""Paths below a folder: which can be files, which links stay in it, which a command is about.

A path of a server is refused if it leads out of the folder, if no file can have it, if it differs
from another path only by what the file system ignores, if `graveler local` keeps its state there,
and if a version control system would take it for its own and run what its configuration says: Git
takes a folder with `HEAD`, `objects` and `refs` for a repository, too.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Final, NamedTuple

from graveler.core.errors import Invalid
from graveler.core.globs import Glob, glob
from graveler.lake.transfers.link import STATE_FILE

OWN_NAMES: Final = frozenset((STATE_FILE, ".DS_Store"))  # never compared, as in lakectl
SHELF_INSIDE: Final = ".graveler-shelf"  # if it cannot be beside the folder
_SHELF: Final = re.compile(r"\..*\.graveler-[0-9a-f]{8}(\.ref)?", re.DOTALL)
_PART: Final = re.compile(r"\..*\.[0-9a-z]{32}\.part", re.DOTALL)  # of an interrupted download
_SHOWN: Final = 20
_NAME_BYTES_MAX: Final = 255
# Systems that run commands of the configuration in a folder of this name.
_SYSTEMS: Final = {
    ".git": "Git",
    ".hg": "Mercurial",
    ".bzr": "Bazaar",
    ".svn": "Subversion",
    ".jj": "Jujutsu",
    ".pijul": "Pijul",
    "_darcs": "Darcs",
}
_SHORT: Final = re.compile(r"(.*)~[0-9]+")  # `git~1`: the short name that NTFS and FAT give to .git
# Names of others need no closer look.
_SUSPECT: Final = re.compile(r"\A[._]|[~\\]|[^\x00-\x7f]")
# HFS+ ignores these characters in names.
_IGNORED: Final = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
# Git takes a folder for a repository if it has the first name and all of one of these sets.
_HEAD: Final = "head"
_PARTS_OF_GIT: Final = (frozenset(("objects", "refs")), frozenset(("commondir",)))
_MARKS: Final = frozenset((_HEAD, *_PARTS_OF_GIT[0], *_PARTS_OF_GIT[1]))
_MARK: Final = re.compile("|".join(sorted(_MARKS)), re.IGNORECASE)


# ---- one path ------------------------------------------------------------------------------------


def is_state(name: str) -> bool:
    """Whether a linked folder keeps its state, or what it sets aside, under this name."""
    return name == STATE_FILE or name.startswith(SHELF_INSIDE) or bool(_SHELF.fullmatch(name))


def is_own(path: str) -> bool:
    """Whether a path of a folder is ours, or in a folder that is: the state of linked folders, and
    parts of downloads.  No transfer sends or deletes it."""
    return any(is_state(name) or _PART.fullmatch(name) for name in path.split("/"))


def is_utf8(path: str) -> bool:
    """Whether the bytes of a path are UTF-8.  Python has surrogates in place of others."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def reason(path: str) -> str:
    """Why a path can be no file of any folder; empty if it can."""
    parts = path.removesuffix("/").split("/")
    if any(part in (".", "..") for part in parts):
        return "leads to another folder"
    if path.startswith("/") or "" in parts:
        return "a part of it is empty"
    if "\0" in path:
        return "has a NUL"
    if not is_utf8(path):
        return "is not UTF-8"
    if any(len(part.encode("utf-8")) > _NAME_BYTES_MAX for part in parts):
        return "a part of it is too long for a file name"
    for part in parts:
        if _SUSPECT.search(part) and (owner := _owner(part)):
            return f"belongs to {owner}"
    return ""


def is_inside(path: str, link: str) -> bool:
    """Whether a symbolic link at `path` leads to a place in the folder, whatever other links of the
    folder are on its way: it goes up only in its beginning, where no link is."""
    if not link or link.startswith("/") or "\0" in link:
        return False
    folder = path.rpartition("/")[0]
    place = normpath(f"{folder}/{link}" if folder else link)
    if place == ".." or place.startswith("../"):
        return False
    steps = [step for step in link.split("/") if step not in ("", ".")]
    ups = next((number for number, step in enumerate(steps) if step != ".."), len(steps))
    return ".." not in steps[ups:]


def _canonical(name: str) -> str:
    """What the file systems of other platforms make of a name."""
    return name.translate(_IGNORED).partition(":")[0].rstrip(" .").casefold()


def _owner(part: str) -> str:
    """Whose a name is; empty if it is nobody's."""
    for name in map(_canonical, part.split("\\")):
        short = _SHORT.fullmatch(name)
        owner = _SYSTEMS.get(f".{short[1]}" if short else name, "")
        if owner:
            return owner
        if is_state(name):
            return "graveler local, which keeps its state there"
    return ""


# ---- several paths -------------------------------------------------------------------------------


class Folding(NamedTuple):
    """What a file system ignores in names: case, and the Unicode normalization form."""

    case: bool
    form: bool

    def key(self, path: str) -> str:
        """Two paths with the same key are one file."""
        if self.form and not path.isascii():
            path = unicodedata.normalize("NFC", path)
        return path.casefold() if self.case else path


EVERYTHING: Final = Folding(case=True, form=True)


def _nowhere(_path: str) -> bool:
    return False


class Neighbours:
    """Refuses paths for those before them: one that is the same file, or that makes its folder a
    repository of Git.  `exists`: whether a path is in the folder already."""

    def __init__(self, folding: Folding, exists: Callable[[str], bool] = _nowhere) -> None:
        self._folding, self._exists = folding, exists
        self._spelling: dict[str, str] = {}
        self._marks: dict[str, set[str]] = {}

    def reason(self, path: str) -> str:
        """Why a path is refused; empty if it is not, and then it counts for those after it."""
        return self._clash(path) or self._repository(path)

    def _clash(self, path: str) -> str:
        # Nothing is kept where names are as they are written.
        for place in _and_folders(path) if any(self._folding) else ():
            first = self._spelling.setdefault(self._folding.key(place), place)
            if first != place:
                return _difference(place, first)
        return ""

    def _repository(self, path: str) -> str:
        if not _MARK.search(path if path.isascii() else path.translate(_IGNORED)):
            return ""
        parts = path.rstrip("/").split("/")
        marks = [
            ("/".join(parts[:place]), name)
            for place, part in enumerate(parts)
            if (name := _canonical(part)) in _MARKS
        ]
        for folder, mark in marks:
            names = self._known(folder) | {mark}
            if _HEAD in names and any(names >= others for others in _PARTS_OF_GIT):
                return f"would make {folder or 'the folder'} a repository of Git"
        for folder, mark in marks:
            self._known(folder).add(mark)
        return ""

    def _known(self, folder: str) -> set[str]:
        if folder not in self._marks:
            above = f"{folder}/" if folder else ""
            names = ("HEAD", *(_MARKS - {_HEAD}))
            self._marks[folder] = {name.casefold() for name in names if self._exists(above + name)}
        return self._marks[folder]


def check(
    paths: Collection[str],
    new: Iterable[str],
    folding: Folding,
    exists: Callable[[str], bool] = _nowhere,
) -> None:
    """Check the new paths, of all `paths` that the folder will have.  Raises `Invalid`, whose text
    has the first of those that are refused.  `exists`: whether a path is in the folder, also one
    that is not among `paths`, because it is ignored."""
    new = set(new)
    refusals = {path: refusal for path in sorted(new) if (refusal := reason(path))}
    if new and not refusals:
        refusals = _below_files(paths, new)
        neighbours = Neighbours(folding, exists)
        for path in sorted(paths, key=lambda path: (path in new, path)):
            refusal = neighbours.reason(path)
            if refusal and path in new:
                refusals.setdefault(path, refusal)
    if refusals:
        lines = [_printable(f"{path}: {refusal}") for path, refusal in refusals.items()]
        more = [f"and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
        shown = "\n  ".join([*lines[:_SHOWN], *more])
        raise Invalid(f"paths cannot be files of one folder; nothing was changed:\n  {shown}")


def _below_files(paths: Collection[str], new: set[str]) -> dict[str, str]:
    """The paths whose folder is a file; one of both is new."""
    files = {path for path in paths if not path.endswith("/")}
    refusals: dict[str, str] = {}
    for path in sorted(paths):
        for place in _and_folders(path):
            is_other = place != path and place in files
            if is_other and (path in new or place in new):
                refusals.setdefault(path, f"{place} is a file too")
    return refusals


def _and_folders(path: str) -> Iterator[str]:
    """A path, and the folders that it is in."""
    place = path.rstrip("/")
    while place:
        yield place
        place = place.rpartition("/")[0]


def _difference(path: str, other: str) -> str:
    """How two paths differ that are one file."""
    one, two = (unicodedata.normalize("NFC", text) for text in (path, other))
    if one == two:
        kind = "Unicode normalization"
    elif path.casefold() == other.casefold():
        kind = "case"
    else:
        kind = "case and Unicode normalization"
    return f"differs by {kind} alone from {other}, and here both are one file"


def _printable(line: str) -> str:
    return line.encode("utf-8", "backslashreplace").decode("utf-8").replace("\n", "\\n")


# ---- patterns ------------------------------------------------------------------------------------

IGNORE_FILE: Final = ".gravelerignore"
IGNORE_BYTES_MAX: Final = 64 << 10
_PATTERNS_MAX: Final = 1_000


class _Rule(NamedTuple):
    names: tuple[Glob | None, ...]  # none: any number of folders
    negates: bool
    folders_only: bool


class Ignore:
    """Patterns of paths, a subset of Git's: `.gravelerignore`, `--include` and `--exclude`.

        # a comment
        *.tmp          in every folder
        /cache         at the top alone, as every pattern with a slash in it
        logs/          folders alone, with all that is in them
        !keep.tmp      not ignored after all; the last pattern that fits decides

    `*` and `?` match within a name, `**/` any number of folders."""

    def __init__(self, text: str = "") -> None:
        """Raises `Invalid` for too many patterns."""
        self.text = text
        lines = [line.rstrip() for line in text.splitlines()]
        rules = [_rule(line) for line in lines if line and not line.startswith("#")]
        if len(rules) > _PATTERNS_MAX:
            raise Invalid(f"{IGNORE_FILE} must have at most {_PATTERNS_MAX} patterns")
        self._latest_first = rules[::-1]

    def __bool__(self) -> bool:
        return bool(self._latest_first)

    def fits(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether the path itself is ignored.  Whoever walks does not enter ignored folders."""
        parts = path.split("/")
        for rule in self._latest_first:
            if (is_folder or not rule.folders_only) and _fits(rule.names, parts):
                return not rule.negates
        return False

    def covers(self, path: str) -> bool:
        """Whether the path, or a folder that it is in, is ignored."""
        if not self._latest_first:
            return False
        place = path.rstrip("/")
        return any(
            self.fits(each, is_folder=each != place or path.endswith("/"))
            for each in _and_folders(path)
        )


def _rule(line: str) -> _Rule:
    negates = line.startswith("!")
    words = line.removeprefix("!").removeprefix("\\")
    folders_only = words.endswith("/")
    words = words.rstrip("/")
    parts = words.removeprefix("/").split("/")
    if "/" not in words:
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")  # what is in a folder, not the folder
    names = tuple(None if part == "**" else glob(part) for part in parts)
    return _Rule(names, negates, folders_only)


def _fits(names: Sequence[Glob | None], parts: Sequence[str]) -> bool:
    """Whether the names fit all parts.  Only the latest `**` is tried at other places."""
    name = part = 0
    after = -1  # the name after the latest `**`, and the part that it was tried at
    tried = 0
    while part < len(parts):
        pattern = names[name] if name < len(names) else None
        if pattern is None and name < len(names):
            after, tried = name + 1, part
            name += 1
        elif pattern is not None and pattern.matches(parts[part]):
            name, part = name + 1, part + 1
        elif after >= 0:
            tried += 1
            name, part = after, tried
        else:
            return False
    return all(pattern is None for pattern in names[name:])


@dataclass(frozen=True)
class Filter:
    """Which paths below a prefix or a folder a command is about: those that `include` covers, if it
    has patterns, and `exclude` does not."""

    include: Ignore = field(default_factory=Ignore)
    exclude: Ignore = field(default_factory=Ignore)

    def __bool__(self) -> bool:
        return bool(self.include) or bool(self.exclude)

    def chooses(self, path: str) -> bool:
        """Whether the command is about a path."""
        is_included = not self.include or self.include.covers(path)
        return is_included and not self.exclude.covers(path)


def filter_of(include: Sequence[str], exclude: Sequence[str]) -> Filter:
    """The filter of some patterns.  Raises `Invalid` for too many of them."""
    return Filter(Ignore("\n".join(include)), Ignore("\n".join(exclude)))
