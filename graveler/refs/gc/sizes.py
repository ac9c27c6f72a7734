"""The size of a repository at its last garbage collection: one record.

The scheduler of collections reads it first.  It is only a hint: any run may overwrite it.
"""

from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.kv.store import Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import setting_key, space

_NAME: Final = "collection_size"


class Size(NamedTuple):
    """The number of listed files and of commits that were read, and when.  `given_up`: no worker
    had enough time or memory; then the numbers are those of the run before, or 0."""

    files: int
    commits: int
    at_ns: int
    given_up: bool = False


def find(kv: Store, repository: Repository) -> Size | Literal[Absent.ABSENT]:
    """The size that the last collection found; ABSENT if there was none.  One request."""
    row = kv.get(space(repository), setting_key(_NAME))
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    files, commits, at_ns = (int(pairs[name]) for name in ("files", "commits", "at_ns"))
    return Size(files, commits, at_ns, given_up="given_up" in pairs)


def put(kv: Store, repository: Repository, size: Size, stamp: bytes) -> None:
    """Store the size.  One request; may be repeated."""
    pairs = {"files": str(size.files), "commits": str(size.commits), "at_ns": str(size.at_ns)}
    raw = wire.encode_pairs(pairs | ({"given_up": "1"} if size.given_up else {}))
    kv.set(space(repository), setting_key(_NAME), raw, stamp)
