"""A linked folder at work: its ports, its base, its changes, and what the branch changed.

For this folder, and for the command.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import Final, NamedTuple

from graveler.errors import Invalid, NotFound
from graveler.local import compare
from graveler.local.entries import Change, Entry, Link, Prefix, Settings
from graveler.local.ignore import Ignore
from graveler.local.ports import Folder, Runner, Server, Shelf
from graveler.local.records import Records

_STATS_MAX: Final = 64  # more entries are taken from a listing
_NOWHERE: Final = Link(Prefix("", ""), "")
_IGNORED: Final = "ignored"  # the note
_IS_KNOWN: Final = "="  # before its text, which may be empty


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
    text, note = work.folder.ignore.text, ignored(work)
    if not note:  # nothing is known of it: take it that the patterns are as they were
        note = work.records.note(_IGNORED, _IS_KNOWN + text)
    before = Ignore(note.removeprefix(_IS_KNOWN))
    is_same = before.text == text or not before
    entries = work.records.cache.base(link) if is_same else None
    if entries is None:
        entries = dict(work.server.listing(link.head))
        work.records.cache.keep_base(link, entries)
    known = {path: entry for path, entry in entries.items() if not work.ignores(path)}
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
        work.records.cache.keep_base(_NOWHERE, {})
        work.records.note(_IGNORED, note)


def local_changes(work: Work, entries: Mapping[str, Entry]) -> dict[str, Change]:
    """What differs in the folder from these entries.  No request.  Files whose fingerprint is not
    known are read."""
    comparison = compare.local_changes(
        work.folder.files(), entries, work.records.cache.known(), work.checksum, work.settings
    )
    if comparison.known:
        work.records.cache.learn(comparison.known)
    return comparison.changes


def remote_changes(
    work: Work, link: Link, head: str, unseen: Mapping[str, Entry]
) -> dict[str, Change]:
    """What differs at `head` from the commit of the link; what the folder has not seen is added.
    No request if the commit is the same, else one for each 1,000 changes, and one for each changed
    path or, of many, each 1,000 entries."""
    added = {path: Change("added", path, entry) for path, entry in unseen.items()}
    if head == link.head:
        return added
    kinds = {
        path: kind for kind, path in work.server.changes(link.head, head) if not work.ignores(path)
    }
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
