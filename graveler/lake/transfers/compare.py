"""What changed in a linked folder and on its branch since both were in step.

    base     the listing at the commit with which the folder was in step
    local    the folder against the base
    remote   the head of the branch against the base

One side changed: take it.  Both, with the same result: nothing to do.  Else: a conflict.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from graveler.core.errors import Invalid, NotFound
from graveler.lake.transfers.folder import Folder, Shelf
from graveler.lake.transfers.link import Link
from graveler.lake.transfers.paths import Ignore
from graveler.lake.transfers.records import (
    Change,
    Digest,
    Entry,
    File,
    Kind,
    Records,
    Settings,
    is_md5,
)
from graveler.lake.transfers.remote import Remote
from graveler.lake.transfers.workers import Item

_STATS_MAX: Final = 64  # more entries are taken from a listing
_IGNORED: Final = "ignored"  # the note
_IS_KNOWN: Final = "="  # before its text, which may be empty


@dataclass(frozen=True, slots=True)
class Work:
    """What a command works with.  `run`: does items, and raises if one failed."""

    folder: Folder
    shelf: Shelf
    server: Remote
    records: Records
    run: Callable[[str, Sequence[Item]], None]
    settings: Settings


# ---- the link ------------------------------------------------------------------------------------


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


def known_link(folder: Folder, records: Records) -> Link | None:
    """The link of the folder, if it has one.  A state file that cannot be read is written anew as
    it was last.  Raises `Invalid` if that is not known."""
    try:
        return folder.link()
    except Invalid:
        last = records.last_link()
        if last is None:
            raise
        folder.write_link(last)
        return last


# ---- the base ------------------------------------------------------------------------------------


class Listing(NamedTuple):
    """The listing at a commit, without what is ignored.  `entries`: with these the folder was in
    step.  `unseen`: these were ignored then, so the folder may have others, or none."""

    entries: dict[str, Entry]
    unseen: dict[str, Entry]

    @property
    def whole(self) -> dict[str, Entry]:
        """Both."""
        return {**self.entries, **self.unseen}


def base(work: Work, link: Link) -> Listing:
    """The listing at the commit of the link.  No request if it was read before and the patterns of
    `.gravelerignore` are the same, else one for each 1,000 entries."""
    ignore, note = work.folder.ignore, ignored(work)
    if not note:  # nothing is known of it: take it that the patterns are as they were
        note = work.records.note(_IGNORED, _IS_KNOWN + ignore.text)
    before = Ignore(note.removeprefix(_IS_KNOWN))
    is_same = before.text == ignore.text or not before
    entries = work.records.base(link) if is_same else None
    if entries is None:
        entries = dict(work.server.listing(link.head))
        work.records.keep_base(link, entries)
    known = {path: entry for path, entry in entries.items() if not ignore.covers(path)}
    if is_same:
        return Listing(known, {})
    unseen = {path: entry for path, entry in known.items() if before.covers(path)}
    return Listing({path: known[path] for path in known if path not in unseen}, unseen)


def ignored(work: Work) -> str:
    """A note of what was ignored when the folder was last in step; empty if that is not known."""
    return work.records.note(_IGNORED)


def ignored_now(work: Work) -> str:
    """The same of what is ignored by this command."""
    return _IS_KNOWN + work.folder.ignore.text


def keep_ignored(work: Work, note: str) -> None:
    """Keep such a note.  A listing that was kept may lack what was ignored, so it is dropped."""
    if note != ignored(work):
        work.records.drop_base()
        work.records.note(_IGNORED, note)


# ---- changes -------------------------------------------------------------------------------------


def local_changes(work: Work, entries: Mapping[str, Entry]) -> dict[str, Change]:
    """What differs in the folder from these entries.  No request.  Files whose fingerprint is not
    known are read."""
    known, fresh = work.records.known(), dict[str, Digest]()
    changes: dict[str, Change] = {}
    missing = set(entries)
    for file in work.folder.files():
        missing.discard(file.path)
        change = _local_change(work, file, entries.get(file.path), known.get(file.path), fresh)
        if change is not None:
            changes[file.path] = change
    if fresh:
        work.records.learn(fresh)
    return changes | {path: Change("removed", path) for path in missing}


def _local_change(
    work: Work, file: File, entry: Entry | None, known: Digest | None, fresh: dict[str, Digest]
) -> Change | None:
    """How a file differs from its entry.  Its checksum is added to `fresh` if it was not known."""
    fingerprint = file.fingerprint
    checksum = known.checksum if known is not None and known.fingerprint == fingerprint else ""
    if entry is not None and (entry.size, entry.link) == (fingerprint.size, file.link):
        if not checksum:
            checksum = _checksum(work, file, entry)
            fresh[file.path] = Digest(fingerprint, checksum)
        is_same = bool(file.link) or checksum == entry.checksum
        if is_same and work.settings.same_posix(file.posix, entry.posix):
            return None
    kind: Kind = "added" if entry is None else "changed"
    now = Entry(fingerprint.size, file.mtime, checksum, file.link, file.posix)
    return Change(kind, file.path, now, file)


def _checksum(work: Work, file: File, entry: Entry) -> str:
    """The checksum of a file of equal size.  One of several parts cannot be computed: then the time
    decides, as in lakectl."""
    if file.link or file.path.endswith("/"):
        return entry.checksum
    if is_md5(entry.checksum):
        return work.folder.checksum(file.path)
    return entry.checksum if file.mtime == entry.mtime else ""


def remote_changes(
    work: Work, link: Link, head: str, unseen: Mapping[str, Entry]
) -> dict[str, Change]:
    """What differs at `head` from the commit of the link; what the folder has not seen is added.
    No request if the commit is the same, else one for each 1,000 changes, and one for each changed
    path or, of many, each 1,000 entries."""
    added = {path: Change("added", path, entry) for path, entry in unseen.items()}
    if head == link.head:
        return added
    covers = work.folder.ignore.covers
    kinds = {path: kind for kind, path in work.server.changes(link.head, head) if not covers(path)}
    entries = entries_at(work, head, [path for path in kinds if kinds[path] != "removed"])
    changes = {path: Change(kind, path, entries.get(path)) for path, kind in kinds.items()}
    return {**added, **changes}


def entries_at(work: Work, ref: str, paths: Iterable[str]) -> dict[str, Entry]:
    """The entries at some paths."""
    wanted_paths = set(paths)
    if len(wanted_paths) > _STATS_MAX:
        listing = work.server.listing(ref)
        return {path: entry for path, entry in listing if path in wanted_paths}
    entries = ((path, work.server.entry(ref, path)) for path in sorted(wanted_paths))
    return {path: entry for path, entry in entries if entry is not None}


class Split(NamedTuple):
    """Three-way comparison: what to take from the remote side, and where both sides differ."""

    remote: dict[str, Change]
    conflicts: list[str]


def three_way(work: Work, local: Mapping[str, Change], remote: Mapping[str, Change]) -> Split:
    """Which remote changes to take, and the conflicts, sorted."""
    take = {path: change for path, change in remote.items() if path not in local}
    both = (path for path in remote if path in local)
    return Split(take, sorted(path for path in both if not _same(work, local[path], remote[path])))


def _same(work: Work, local: Change, remote: Change) -> bool:
    """Whether two changes of a path have the same result."""
    if local.entry is None or remote.entry is None:
        return local.entry is remote.entry
    entry = local.entry
    if not entry.checksum and not entry.link and entry.size == remote.entry.size:
        entry = entry._replace(checksum=work.folder.checksum(local.path))
    return work.settings.same(entry, remote.entry)
