"""Which paths of a branch can be files below a folder, and which links stay in it.

A path is refused if it leads out of the folder, if no file can have it, if Git would take it for
its repository and run what its configuration says, or if it differs from another path by case
alone, because many file systems would make one file of both.  Pure.  For this folder.
"""

import unicodedata
from collections.abc import Collection, Iterable
from posixpath import normpath
from typing import Final

from graveler.errors import Invalid

_SHOWN: Final = 20
_NAME_BYTES_MAX: Final = 255
_GIT: Final = ".git"


def check(paths: Collection[str], new: Iterable[str]) -> None:
    """Check the new paths, of all `paths` that the folder will have.  Raises `Invalid`, whose text
    has the first of those that are refused."""
    new = list(new)
    refusals = [f"{_shown(path)}: {reason}" for path in new if (reason := _reason(path))]
    if not refusals and new:
        refusals = _clashes(paths, set(new))
    if refusals:
        more = [f"and {len(refusals) - _SHOWN:,} more"] if len(refusals) > _SHOWN else []
        lines = "\n  ".join([*refusals[:_SHOWN], *more])
        raise Invalid(f"paths cannot be files of one folder; nothing was changed:\n  {lines}")


def is_inside(path: str, link: str) -> bool:
    """Whether a symbolic link at `path` leads to a place in the folder."""
    if not link or link.startswith("/") or "\0" in link:
        return False
    folder = path.rpartition("/")[0]
    place = normpath(f"{folder}/{link}" if folder else link)
    return place != ".." and not place.startswith("../")


def is_utf8(path: str) -> bool:
    """Whether the bytes of a path are UTF-8.  Python has surrogates in place of others."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _reason(path: str) -> str:
    parts = path.removesuffix("/").split("/")
    if any(part in (".", "..") for part in parts):
        return "leads to another folder"
    if path.startswith("/") or "" in parts:
        return "a part of it is empty"
    if "\0" in path:
        return "has a NUL"
    if not is_utf8(path):
        return "is not UTF-8"
    if any(part.casefold() == _GIT for part in parts):
        return "belongs to Git"
    if any(len(part.encode("utf-8")) > _NAME_BYTES_MAX for part in parts):
        return "a part of it is too long for a file name"
    return ""


def _clashes(paths: Collection[str], new: set[str]) -> list[str]:
    """New paths that differ from another path, or whose folders do, by case alone; and those below
    a path that is a file."""
    spelling: dict[str, str] = {}
    folders: set[str] = set()
    clashes: dict[str, str] = {}
    files = {path for path in paths if not path.endswith("/")}
    for path in sorted(paths, key=lambda path: path in new):  # the new ones last
        place, is_file = path.rstrip("/"), not path.endswith("/")
        while place and (is_file or place not in folders):
            first = spelling.setdefault(_folded(place), place)
            if first != place and path in new:
                clashes.setdefault(path, f"differs by case alone from {first}")
            if not is_file:
                folders.add(place)
                if place in files and (path in new or place in new):
                    clashes.setdefault(path, f"{place} is a file too")
            place, is_file = place.rpartition("/")[0], False
    return [f"{path}: {reason}" for path, reason in sorted(clashes.items())]


def _folded(path: str) -> str:
    return path.casefold() if path.isascii() else unicodedata.normalize("NFC", path).casefold()
