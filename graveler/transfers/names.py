"""Which paths of a server can be files below a folder, and which links stay in it.

A path is refused in these cases:

- It leads out of the folder, or no file can have it.
- A version control system would take it for its own and run what its configuration says.  Git takes
  a folder with `HEAD`, `objects` and `refs` for a repository, too.
- `graveler local` keeps its state there.
- It differs from another path only by what the file system ignores.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from posixpath import normpath
from typing import Final, NamedTuple

from graveler.errors import Invalid
from graveler.transfers.link import STATE_FILE

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


def is_state(name: str) -> bool:
    """Whether a linked folder keeps its state, or what it sets aside, under this name: the state
    file, the shelf in the folder or beside it, and the new state file beside it."""
    return name == STATE_FILE or name.startswith(SHELF_INSIDE) or bool(_SHELF.fullmatch(name))


def is_own(path: str) -> bool:
    """Whether a path of a folder is ours, or in a folder that is: the state of linked folders, and
    parts of downloads.  No transfer sends or deletes it."""
    return any(is_state(name) or _PART.fullmatch(name) for name in path.split("/"))


def _nowhere(_path: str) -> bool:
    return False


def check(
    paths: Collection[str],
    new: Iterable[str],
    folding: Callable[[], Folding],
    exists: Callable[[str], bool] = _nowhere,
) -> None:
    """Check the new paths, of all `paths` that the folder will have.  Raises `Invalid`, whose text
    has the first of those that are refused.  `folding`: asks the file system; called only if names
    differ by case or form alone.  `exists`: whether a path is in the folder, also one that is not
    among `paths`, because it is ignored."""
    new = list(new)
    refusals = [f"{_shown(path)}: {refusal}" for path in new if (refusal := reason(path))]
    if not refusals and new:
        refusals = _clashes(paths, set(new), EVERYTHING)
        if refusals:
            refusals = _clashes(paths, set(new), folding())
        refusals += _repositories(paths, set(new), exists)
    if refusals:
        more = [f"and {len(refusals) - _SHOWN:,} more"] if len(refusals) > _SHOWN else []
        lines = "\n  ".join([*refusals[:_SHOWN], *more])
        raise Invalid(f"paths cannot be files of one folder; nothing was changed:\n  {lines}")


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


def clash(path: str, other: str) -> str:
    """How two paths differ that are one file."""
    one, two = (unicodedata.normalize("NFC", each) for each in (path, other))
    if one == two:
        kind = "Unicode normalization"
    elif path.casefold() == other.casefold():
        kind = "case"
    else:
        kind = "case and Unicode normalization"
    return f"differs by {kind} alone from {other}, and here both are one file"


class Repositories:
    """Tells which path would make a folder a repository of Git, of paths that come one after the
    other.  `exists`: whether a path is in the destination already."""

    def __init__(self, exists: Callable[[str], bool] = _nowhere) -> None:
        self._exists = exists
        self._marks: dict[str, set[str]] = {}

    def reason(self, path: str) -> str:
        """Why a path is refused; empty if it is not, and then it counts for those after it."""
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


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


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


def _repositories(
    paths: Collection[str], new: set[str], exists: Callable[[str], bool]
) -> list[str]:
    """New paths that would make a folder a repository of Git."""
    known = Repositories(exists)
    ordered = sorted(paths, key=lambda path: (path in new, path))
    reasons = ((path, known.reason(path)) for path in ordered)
    return [f"{path}: {refusal}" for path, refusal in reasons if refusal and path in new]


def _clashes(paths: Collection[str], new: set[str], folding: Folding) -> list[str]:
    """New paths that are, or whose folders are, one file with another path; and those below a path
    that is a file."""
    spelling: dict[str, str] = {}
    folders: set[str] = set()
    clashes: dict[str, str] = {}
    files = {path for path in paths if not path.endswith("/")}
    for path in sorted(paths, key=lambda path: path in new):  # the new ones last
        place, is_file = path.rstrip("/"), not path.endswith("/")
        while place and (is_file or place not in folders):
            first = spelling.setdefault(folding.key(place), place)
            if first != place and path in new:
                clashes.setdefault(path, clash(place, first))
            if not is_file:
                folders.add(place)
                if place in files and (path in new or place in new):
                    clashes.setdefault(path, f"{place} is a file too")
            place, is_file = place.rpartition("/")[0], False
    return [f"{path}: {refusal}" for path, refusal in sorted(clashes.items())]
