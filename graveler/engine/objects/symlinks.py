"""Symlink files: for each folder of a branch, the addresses of its objects, for Hive and the like.

    <namespace>/symlinks/<repository>/<branch>/<folder>/symlink.txt     one address a line

Readers of `SymlinkTextInputFormat` read the objects of a branch by these files, without the
service, with their own rights.  So no file names an address that the repository itself may not read
(reachable.py), and no address ends its line and begins another one.  A file shows the folder as it
was at the export; a later export overwrites it.  Used by the API.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.engine.objects import reachable
from graveler.engine.objects.read import ListQuery, list_objects
from graveler.engine.ports import OpenRepository, operation_deadline
from graveler.errors import Unsupported
from graveler.ids import parse_branch_id, parse_prefix
from graveler.records import ABSENT, Entry

_FOLDER: Final = "symlinks"
_LINE_BREAK: Final = re.compile(r"[\r\n]")
_PUTS_COUNT: Final = 100  # files that are stored together


class _Folder(NamedTuple):
    """A folder, and the addresses of the objects directly in it."""

    path: str
    addresses: list[str]

    def contains(self, path: str) -> bool:
        """Whether a folder is this one or inside it."""
        return not self.path or path == self.path or path.startswith(f"{self.path}/")


def export(
    repo: OpenRepository, branch: str, location: str, objects_max: int = limits.symlink_objects_max
) -> str:
    """Write the symlink files of all folders with objects whose paths begin with `location`; the
    address of the folder with all symlink files.

    Uncommitted changes are included.  The call may be repeated.

    Errors: `NotFound` (branch), `Invalid`, `Unsupported` beyond `objects_max` objects; `Refused`
    for an address that the repository may not read, and `Unsupported` for one with a line break;
    `Unavailable` after the deadline.  Some files may be new then.
    Cost: that of the listing, a put for each folder, and that of `reachable.address_of`.
    """
    name = parse_branch_id(branch)
    parse_prefix(location, "location")
    deadline = operation_deadline(repo)
    top = address.join(repo.namespace, _FOLDER)

    def write(folder: _Folder) -> None:
        deadline.check("export")
        inside = f"{folder.path}/" if folder.path else ""
        place = f"{top}/{repo.id}/{name}/{inside}symlink.txt"
        repo.blocks.put(place, ["\n".join(folder.addresses).encode()])

    waiting: list[_Folder] = []
    for folder in _folders(_objects(repo, name, location, objects_max)):
        waiting.append(folder)
        if len(waiting) == _PUTS_COUNT:
            repo.fanout.map(write, waiting)
            waiting = []
    repo.fanout.map(write, waiting)
    return top


def _objects(
    repo: OpenRepository, branch: str, location: str, objects_max: int
) -> Iterator[tuple[str, str]]:
    """Paths and addresses, in order of the paths.  Raises `Unsupported`."""
    count, after, more = 0, "", True
    while more:
        lines, more = list_objects(
            repo, branch, ListQuery(location, "", after, limits.page_count_max)
        )
        count += len(lines)
        if count > objects_max:
            raise Unsupported(f"too many objects to export: at most {objects_max}: {location=}")
        for path, entry in lines:
            assert entry is not ABSENT, "without a delimiter each line is an object"
            yield path, _line(repo, path, entry)
            after = path


def _line(repo: OpenRepository, path: str, entry: Entry) -> str:
    place = reachable.address_of(repo, entry)
    if _LINE_BREAK.search(place):
        raise Unsupported(f"the address of an object has a line break: {path=}")
    return place


def _folders(objects: Iterator[tuple[str, str]]) -> Iterator[_Folder]:
    """Each folder with objects, once.

    In the order of paths, a folder is complete when a path outside of it follows.  So only the
    folders around the current path are held.
    """
    around: list[_Folder] = []
    for path, place in objects:
        parent = path.rpartition("/")[0]
        while around and not around[-1].contains(parent):
            yield around.pop()
        if not around or around[-1].path != parent:
            around.append(_Folder(parent, []))
        around[-1].addresses.append(place)
    while around:
        yield around.pop()
