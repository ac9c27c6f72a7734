"""A tree of folders as one sorted sequence of keys, entered where a page begins.

The order is that of whole keys, not of folders: `a!b` < `a.csv` < `a/x`, because `/` counts as a
character like any other.  A folder is read only if keys of the page may lie below it.  Pure but for
the reader passed in; for the local driver only.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


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


Reader = Callable[[tuple[str, ...], Sequence[str]], list[Child]]


def keys(read: Reader, start: Start, prefix: str, after: str) -> Iterator[Found]:
    """Keys below `start` that begin with `prefix` and are greater than `after`, in order.

    `read` gives the children of a folder (its path, its key's segments), in any order; of a folder
    that is gone it gives none.
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
