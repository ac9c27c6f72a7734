"""What has changed in a folder, and what two sides changed.  Pure, but for reading contents.

    base     the listing at the commit with which the folder was in step
    local    the folder against the base
    remote   the head of the branch against the base

One side changed: take it.  Both, with the same result: nothing to do.  Else: a conflict.  For this
folder.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from graveler.local.entries import Change, Entry, File, Fingerprint, Kind, Settings, is_md5


class Digest(NamedTuple):
    """The checksum of a file that had this fingerprint."""

    fingerprint: Fingerprint
    checksum: str


class Comparison(NamedTuple):
    """Changes by path, and checksums that were computed or confirmed on the way."""

    changes: dict[str, Change]
    known: dict[str, Digest]


def local_changes(
    files: Iterable[File],
    base: Mapping[str, Entry],
    known: Mapping[str, Digest],
    checksum: Callable[[str], str],
    settings: Settings,
) -> Comparison:
    """The changes of a folder.  `known`: checksums to trust.  `checksum` reads a file."""
    changes: dict[str, Change] = {}
    fresh: dict[str, Digest] = {}
    missing = set(base)
    for file in files:
        path, fingerprint = file.path, file.fingerprint
        missing.discard(path)
        entry = base.get(path)
        cached = known.get(path)
        is_cached = cached is not None and cached.fingerprint == fingerprint
        if entry is not None and entry.size == fingerprint.size and entry.link == file.link:
            if cached is not None and is_cached:
                content = cached.checksum
            else:
                content = _checksum(file, entry, checksum)
                fresh[path] = Digest(fingerprint, content)
            is_same = bool(file.link) or content == entry.checksum
            if is_same and settings.same_posix(file.posix, entry.posix):
                continue
        else:
            content = cached.checksum if cached is not None and is_cached else ""
        kind: Kind = "added" if entry is None else "changed"
        now = Entry(fingerprint.size, file.mtime, content, file.link, file.posix)
        changes[path] = Change(kind, path, now, file)
    for path in missing:
        changes[path] = Change("removed", path)
    return Comparison(changes, fresh)


def _checksum(file: File, entry: Entry, checksum: Callable[[str], str]) -> str:
    """The checksum of a file of equal size.  One of several parts cannot be computed: then the time
    decides, as in lakectl."""
    if file.link or file.path.endswith("/"):
        return entry.checksum
    if is_md5(entry.checksum):
        return checksum(file.path)
    return entry.checksum if file.mtime == entry.mtime else ""


class Split(NamedTuple):
    """Three-way comparison: what to take from the remote side, and where both sides differ."""

    remote: dict[str, Change]
    conflicts: list[str]


def three_way(
    local: Mapping[str, Change],
    remote: Mapping[str, Change],
    checksum: Callable[[str], str],
    settings: Settings,
) -> Split:
    """Which remote changes to take, and the conflicts, sorted.  `checksum` reads a file."""
    take: dict[str, Change] = {}
    conflicts = []
    for path, change in remote.items():
        own = local.get(path)
        if own is None:
            take[path] = change
        elif not _same(own, change, checksum, settings):
            conflicts.append(path)
    return Split(take, sorted(conflicts))


def _same(
    local: Change, remote: Change, checksum: Callable[[str], str], settings: Settings
) -> bool:
    """Whether two changes of a path have the same result."""
    if local.entry is None or remote.entry is None:
        return local.entry is remote.entry
    entry = local.entry
    if not entry.checksum and not entry.link and entry.size == remote.entry.size:
        entry = entry._replace(checksum=checksum(local.path))
    return settings.same(entry, remote.entry)
