"""A linked folder at work: its ports, its base, its changes, and what the branch changed.

For this folder, and for the command.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from graveler.errors import NotFound
from graveler.local import compare
from graveler.local.entries import Change, Entry, Link, Settings
from graveler.local.ports import Folder, Runner, Server, Shelf
from graveler.local.records import Records

_STATS_MAX: Final = 64  # more entries are taken from a listing


@dataclass(frozen=True, slots=True)
class Work:
    """The ports of one command.  `ignores`: whether a path is left alone."""

    folder: Folder
    shelf: Shelf
    server: Server
    records: Records
    run: Runner
    settings: Settings
    ignores: Callable[[str], bool]

    def checksum(self, path: str) -> str:
        """The MD5 of a file."""
        digest = md5(usedforsecurity=False)
        for piece in self.folder.read(path):
            digest.update(piece)
        return digest.hexdigest()


def linked(work: Work) -> Link:
    """The link of the folder.  Raises `NotFound`."""
    link = work.folder.link()
    if link is None:
        raise NotFound("this folder is not linked with a branch")
    return link


def write_link(work: Work, link: Link | None) -> None:
    """Write the state file, and keep a copy."""
    if link is not None:
        work.records.keep_link(link)
    work.folder.write_link(link)


def base(work: Work, link: Link) -> dict[str, Entry]:
    """The listing at the commit of the link.  No request if it was read before, else one for each
    1,000 entries."""
    entries = work.records.cache.base(link)
    if entries is None:
        entries = dict(work.server.listing(link.head))
        work.records.cache.keep_base(link, entries)
    return {path: entry for path, entry in entries.items() if not work.ignores(path)}


def local_changes(work: Work, entries: Mapping[str, Entry]) -> dict[str, Change]:
    """What differs in the folder from these entries.  No request.  Files whose fingerprint is not
    known are read."""
    comparison = compare.local_changes(
        work.folder.files(), entries, work.records.cache.known(), work.checksum, work.settings
    )
    if comparison.known:
        work.records.cache.learn(comparison.known)
    return comparison.changes


def remote_changes(work: Work, link: Link, head: str) -> dict[str, Change]:
    """What differs at `head` from the commit of the link.  No request if it is the same, else one
    for each 1,000 changes, and one for each changed path or, of many, each 1,000 entries."""
    if head == link.head:
        return {}
    kinds = {
        path: kind for kind, path in work.server.changes(link.head, head) if not work.ignores(path)
    }
    entries = entries_at(work, head, [path for path in kinds if kinds[path] != "removed"])
    return {path: Change(kind, path, entries.get(path)) for path, kind in kinds.items()}


def entries_at(work: Work, ref: str, paths: Iterable[str]) -> dict[str, Entry]:
    """The entries at some paths."""
    wanted_paths = set(paths)
    if len(wanted_paths) > _STATS_MAX:
        listing = work.server.listing(ref)
        return {path: entry for path, entry in listing if path in wanted_paths}
    entries = ((path, work.server.entry(ref, path)) for path in sorted(wanted_paths))
    return {path: entry for path, entry in entries if entry is not None}
