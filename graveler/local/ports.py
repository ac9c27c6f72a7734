"""The interfaces of a linked folder: the folder, the shelf, the server, and who runs transfers.

The folder is what its user sees.  The shelf is a folder beside it, where files wait to be placed
and displaced files are kept until the operation has ended.  For this folder, and for the command.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from graveler.local.entries import Entry, File, Kind, Link
from graveler.local.ignore import Ignore
from graveler.local.names import Folding

Move = Callable[[int], None]  # counts bytes of a transfer


class Job(NamedTuple):
    """A transfer of one file."""

    path: str
    size: int
    work: Callable[[Move], None]


class Runner(Protocol):
    """Runs transfers, several at once."""

    def __call__(self, verb: str, jobs: Sequence[Job]) -> None:
        """Run all.  Raises an error after all have ended, if one has failed."""
        ...


class Folder(Protocol):
    """The folder.  No method follows a symbolic link, or leaves the folder.  `ignore`: what is left
    alone, as it was when the command began."""

    ignore: Ignore

    def link(self) -> Link | None:
        """What the state file says; none without one.  Raises `Invalid` if it cannot be read."""
        ...

    def write_link(self, link: Link | None) -> None:
        """Write the state file, atomically and durably; none removes it."""
        ...

    def files(self) -> Iterator[File]:
        """All files, in no order, without those of the tools."""
        ...

    def look(self, path: str) -> File | None:
        """The file at a path, or none."""
        ...

    def read(self, path: str) -> Iterator[bytes]:
        """The content of a file."""
        ...

    def folding(self) -> Folding:
        """What the file system of the folder ignores in names."""
        ...

    def exists(self, path: str) -> bool:
        """Whether anything is at a path, also if it is ignored."""
        ...

    def set_aside(self, path: str) -> str:
        """Give a file another name in the same place, and return it: `NAME.mine`."""
        ...


class Content(NamedTuple):
    """The bytes of an object, and the MD5 that they must have; empty if none is known."""

    pieces: Iterable[bytes] = ()
    md5: str = ""


class Shelf(Protocol):
    """Files in motion, each in a slot.  Every move is a rename, so it happens or does not."""

    def receive(self, slot: int, entry: Entry, content: Content) -> None:
        """Store new content in a slot, with the time and mode of the entry.  Raises `Corrupt`
        unless the bytes have the size of the entry and the MD5 of the content."""
        ...

    def slots(self) -> tuple[set[int], set[int]]:
        """The slots with new content, and those with displaced files."""
        ...

    def settle(self) -> None:
        """Make what was received durable."""
        ...

    def displace(self, path: str, slot: int) -> None:
        """Move a file of the folder to the shelf, and remove folders that are empty then."""
        ...

    def place(self, slot: int, path: str) -> None:
        """Move new content to its path, which must be free."""
        ...

    def take_back(self, path: str, slot: int) -> None:
        """Undo `place`."""
        ...

    def restore(self, slot: int, path: str) -> None:
        """Undo `displace`."""
        ...

    def discard(self) -> None:
        """Remove the shelf and all that is on it."""
        ...


class Source(Protocol):
    """The prefix at commits, for reading.  Paths are below it."""

    def head(self, ref: str = "") -> str:
        """The commit that the ref means; of the linked one without a name.  One request."""
        ...

    def listing(self, ref: str) -> Iterator[tuple[str, Entry]]:
        """All entries at a ref.  A request for each 1,000."""
        ...

    def changes(self, old: str, new: str) -> Iterator[tuple[Kind, str]]:
        """The paths that differ between two commits.  A request for each 1,000."""
        ...

    def entry(self, ref: str, path: str) -> Entry | None:
        """One entry.  One request."""
        ...

    def read(self, ref: str, path: str, checksum: str) -> AbstractContextManager[Content]:
        """The content of an object that has this checksum; read it in the `with` block."""
        ...


class Target(Protocol):
    """The branch, for writing.  Paths are below the prefix."""

    def uncommitted(self) -> Iterator[str]:
        """The paths with uncommitted changes, of the whole branch and from its top."""
        ...

    def send(self, path: str, entry: Entry, pieces: Iterable[bytes]) -> Mapping[str, Any]:
        """Store content without staging it, and return where.  Empty if the server cannot; then
        nothing was read."""
        ...

    def stage(
        self, path: str, entry: Entry, place: Mapping[str, Any], pieces: Iterable[bytes]
    ) -> None:
        """Stage what was stored, or without a place the content itself."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Stage deletions, any number."""
        ...

    def unstage(self, path: str) -> None:
        """Discard the uncommitted change of a path."""
        ...

    def commit(self, message: str, metadata: Mapping[str, str]) -> tuple[str, str]:
        """Commit the branch.  Returns the commit and its first parent."""
        ...


class Server(Source, Target, Protocol):
    """Both."""
