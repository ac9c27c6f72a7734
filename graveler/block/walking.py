"""A tree of folders as one sorted sequence of keys, entered where a page begins.

The order is that of whole keys, not of folders: `a!b` < `a.csv` < `a/x`, because `/` counts as a
character like any other.  A folder is read only if keys of the page may lie below it.  For the
local driver only.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from graveler.block.adapter import ListedObject, ObjectHead, ObjectPage
from graveler.block.address import Parts
from graveler.block.folders import translated


class Child(NamedTuple):
    """One name in a folder; `segment` is what it adds to the key."""

    segment: str
    name: str
    is_folder: bool

    @property
    def fragment(self) -> str:
        return self.segment + "/" if self.is_folder else self.segment


class Found(NamedTuple):
    """A key, and where its file lies."""

    key: str
    folders: tuple[str, ...]
    name: str


class Start(NamedTuple):
    """The folder to begin in: its key with a slash behind (empty for the top), and its path."""

    key: str
    folders: tuple[str, ...]


class FoundHead(NamedTuple):
    """A key of a list and what is known of its file."""

    key: str
    head: ObjectHead


class Tree(Protocol):
    """Folders that can be listed."""

    def start(self, parts: Parts) -> Start:
        """Where a list of a prefix begins."""
        ...

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> list[Child]:
        """What lies in a folder (its path, its key's segments), in any order; nothing if it is not
        there."""
        ...

    def heads(self, found: Sequence[Found]) -> Iterator[FoundHead]:
        """What is known of files; those that have gone meanwhile are left out."""
        ...


def page(tree: Tree, parts: Parts, after: str, limit: int) -> ObjectPage:
    """One page of the objects below a prefix.  Reads the folders that may hold keys of it."""
    stem = Parts(parts.scheme, parts.bucket, "").address
    inside = after.startswith(stem)
    if after > stem and not inside:
        return ObjectPage((), False)
    with translated(parts.address):
        begin = after[len(stem) :] if inside else ""
        behind = keys(tree.children, tree.start(parts), parts.key, begin)
        found = list(islice(behind, limit + 1))
        heads = list(tree.heads(found[:limit]))
    lines = tuple(ListedObject(stem + key, head) for key, head in heads)
    return ObjectPage(lines, len(found) > limit)


Reader = Callable[[tuple[str, ...], Sequence[str]], list[Child]]


def keys(read: Reader, start: Start, prefix: str, after: str) -> Iterator[Found]:
    """Keys below `start` that begin with `prefix` and are greater than `after`, in order.

    `read` is a tree's `children`.
    """
    pending: list[Found | Start] = [start]
    while pending:
        top = pending.pop()
        if isinstance(top, Found):
            yield top
            continue
        above = top.key.split("/")[:-1]
        wanted = [
            child
            for child in read(top.folders, above)
            if _may_hold(top.key + child.fragment, child.is_folder, prefix, after)
        ]
        wanted.sort(key=lambda child: child.fragment, reverse=True)
        pending.extend(
            Start(top.key + child.fragment, (*top.folders, child.name))
            if child.is_folder
            else Found(top.key + child.segment, top.folders, child.name)
            for child in wanted
        )


def _may_hold(key: str, is_folder: bool, prefix: str, after: str) -> bool:
    if not is_folder:
        return key.startswith(prefix) and key > after
    if not key.startswith(prefix) and not prefix.startswith(key):
        return False
    return key > after or after.startswith(key)
