"""The size of all files of a store, asked again and again at a small cost.

A look at every file takes longer the more there are, and takes time away from the load that is
being measured: latency would rise with the history, and only because of the watcher.  Objects do
not change once they have a name.  So a look asks for the sizes of new objects only, and does not
list the folder of objects that nothing was added to.  For tests only.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_SETTLED_NS: Final = 10**9  # far more than the resolution of times of change
_CHANGING: Final = "%"  # the first letter of the folders with unfinished files


class _Folder(NamedTuple):
    """A folder when it was listed: its time of change, sizes by name and their sum, subfolders."""

    changed_ns: int
    sizes: dict[str, int]
    total: int
    folders: list[str]


_NOTHING: Final = _Folder(-1, {}, 0, [])


class StoredBytes:
    """The size of all files below a folder.  In `objects`, files have one size for ever."""

    def __init__(self, folder: Path, objects: str = "objects") -> None:
        self._folder = str(folder)
        self._objects = os.path.join(folder, objects)
        self._listed: dict[str, _Folder] = {}

    def now(self) -> int:
        """The size now; files that vanish meanwhile are not counted.  The first call looks at every
        file."""
        total, todo = 0, [self._folder]
        while todo:
            at = todo.pop()
            below = self._objects_in(at) if self._has_objects(at) else _listed(at, {})
            total += below.total
            todo += below.folders
        return total

    def _has_objects(self, at: str) -> bool:
        relative = os.path.relpath(at, self._objects)
        return not relative.startswith(("..", _CHANGING))

    def _objects_in(self, at: str) -> _Folder:
        known = self._listed.get(at, _NOTHING)
        try:
            changed_ns = os.stat(at).st_mtime_ns
        except FileNotFoundError:
            return _NOTHING
        if changed_ns != known.changed_ns or time.time_ns() - changed_ns < _SETTLED_NS:
            known = self._listed[at] = _listed(at, known.sizes)._replace(changed_ns=changed_ns)
        return known


def _listed(at: str, known: dict[str, int]) -> _Folder:
    """The folder `at`; sizes that are `known` are taken as they are."""
    sizes: dict[str, int] = {}
    folders: list[str] = []
    try:
        with os.scandir(at) as entries:
            for entry in entries:
                name = entry.name
                if name in known:
                    sizes[name] = known[name]
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        sizes[name] = entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return _NOTHING
    return _Folder(-1, sizes, sum(sizes.values()), folders)
