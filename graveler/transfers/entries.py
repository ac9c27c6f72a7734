"""What is compared: entries of listings, files of a folder, changes, steps of a plan.

Paths are relative to the prefix and the folder, and separated by slashes.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Kind = Literal["added", "changed", "removed"]
EMPTY_MD5: Final = "d41d8cd98f00b204e9800998ecf8427e"  # of no bytes
_MD5: Final = re.compile(r"[0-9a-f]{32}")


class Posix(NamedTuple):
    """Mode and owner of a file, as `stat` has them."""

    mode: int
    uid: int
    gid: int


class Entry(NamedTuple):
    """A path of a branch.  `mtime`: in seconds, that of the file it came from.  `link`: where a
    symbolic link leads.  `posix`: if it was tracked."""

    size: int
    mtime: int
    checksum: str
    link: str = ""
    posix: Posix | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """How to treat what is no regular file, and whether modes and owners are tracked.  The same
    settings as those of lakectl.  `owners`: of tracked files; only root can give files away."""

    skip_special: bool = False
    symlinks: bool = False
    posix: bool = False
    owners: bool = False

    def same_posix(self, one: Posix | None, other: Posix | None) -> bool:
        """Whether two files have the same mode and owner, as far as they are tracked."""
        if not self.posix or one == other:
            return True
        if one is None or other is None:
            return False
        return one.mode == other.mode and not self.owners

    def same(self, one: Entry, other: Entry) -> bool:
        """Whether two entries are the same file, whenever it was written."""
        if (one.size, one.link) != (other.size, other.link):
            return False
        if not one.link and one.checksum != other.checksum:
            return False
        return self.same_posix(one.posix, other.posix)


class Fingerprint(NamedTuple):
    """What a file system says about the content of a file without reading it."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    def moved(self, other: "Fingerprint") -> bool:
        """Whether the other is the same file, perhaps by another name."""
        return self[:3] == other[:3]


class Digest(NamedTuple):
    """The MD5 of a file that had this fingerprint."""

    fingerprint: Fingerprint
    checksum: str


class File(NamedTuple):
    """A file, symbolic link or folder (`path/`) on the disk."""

    path: str
    fingerprint: Fingerprint
    link: str = ""
    posix: Posix | None = None

    @property
    def mtime(self) -> int:
        """In seconds."""
        return self.fingerprint.mtime_ns // 10**9


class Change(NamedTuple):
    """A path that differs.  `entry`: as it is now, none if it was removed.  `file`: on the disk."""

    kind: Kind
    path: str
    entry: Entry | None = None
    file: File | None = None


class PlanStep(NamedTuple):
    """One step of the plan of an operation: write `entry`, or remove the path.  `before`: the file
    there when the plan was made."""

    slot: int
    path: str
    entry: Entry | None
    before: Fingerprint | None


def is_md5(checksum: str) -> bool:
    """Whether a checksum is that of the whole content."""
    return bool(_MD5.fullmatch(checksum))
