"""The prefix of a branch that a folder is linked with, over the Python client.

    ::lakefs::client-mtime        metadata: when the file was changed, in seconds
    ::lakefs::symlink-target      metadata of an empty object: where a symbolic link leads
    ::lakefs::posix-permissions   metadata: {"UID": …, "GID": …, "Mode": …}

lakectl writes and reads the same.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from graveler.core.errors import NotFound
from graveler.lake import objects
from graveler.lake.lake import Lake
from graveler.lake.objects import Stats, Upload
from graveler.lake.repository import Repository
from graveler.lake.session import Session
from graveler.lake.transfers.link import Prefix
from graveler.lake.transfers.paths import OWN_NAMES
from graveler.lake.transfers.receive import Moved, Object, receive
from graveler.lake.transfers.records import Entry, Kind, Posix, Settings

_MTIME: Final = "::lakefs::client-mtime"
_LINK: Final = "::lakefs::symlink-target"
_POSIX: Final = "::lakefs::posix-permissions"
_SECONDS: Final = re.compile(r"-?[0-9]{1,11}")
_MODE_BITS: Final = 0o170777  # the kind of file and its permissions
_KINDS: Final[Mapping[str, Kind]] = {"added": "added", "removed": "removed"}


class Remote:
    """A prefix of a branch on a server.  Paths are below it.  Each method raises the errors of
    the library.  `pre_sign`: contents go by signed URLs, if the server signs them.  `if_no_hooks`:
    called if a commit brings an action file, and the server runs no hooks."""

    def __init__(
        self,
        session: Session,
        source: Prefix,
        settings: Settings,
        *,
        pre_sign: bool = True,
        if_no_hooks: Callable[[], object] | None = None,
    ) -> None:
        self._session, self._settings, self._pre_sign = session, settings, pre_sign
        self._if_no_hooks = if_no_hooks
        self._repository, self._ref, self._prefix = source
        self._known = Repository(Lake(session), self._repository)
        self._branch = self._known.branch(self._ref)

    def head(self, ref: str = "") -> str:
        """The commit that the ref means; of the linked one without a name.  One request."""
        return self._known.ref(ref or self._ref).pin().id

    def listing(self, ref: str) -> Iterator[tuple[str, Entry]]:
        """All entries at a ref.  A request for each 1,000."""
        for stats in self._known.ref(ref)._place.list(self._prefix):
            path = stats["path"].removeprefix(self._prefix)
            if self._is_compared(path):
                yield path, self._entry(stats)

    def changes(self, old: str, new: str) -> Iterator[tuple[Kind, str]]:
        """The paths that differ between two commits.  A request for each 1,000."""
        for change in self._known.ref(old).diff(new, self._prefix, two_dot=True):
            path = change.path.removeprefix(self._prefix)
            if self._is_compared(path):
                yield _KINDS.get(change.type, "changed"), path

    def entry(self, ref: str, path: str) -> Entry | None:
        """One entry.  One request."""
        try:
            stats = self._known.ref(ref)._place.stat(self._prefix + path)
        except NotFound:
            return None
        return self._entry(stats)

    def receive(
        self,
        ref: str,
        path: str,
        entry: Entry,
        part: Path,
        then: Callable[[Path], object],
        moved: Moved,
    ) -> None:
        """The content of an object, as `receive`."""
        where = (self._session, self._repository, ref, self._prefix + path)
        source = Object(*where, entry.checksum, entry.size, self._presigns)
        receive(source, part, moved, then)

    def uncommitted(self) -> Iterator[str]:
        """The paths with uncommitted changes, of the whole branch and from its top."""
        return (change.path for change in self._branch.status())

    def send(self, path: str, entry: Entry, pieces: Iterable[bytes]) -> Mapping[str, Any]:
        """Store content without staging it, and return where.  Empty if the server cannot; then
        nothing was read."""
        if not self._presigns:
            return {}
        return objects.store_presigned(
            *(self._session, self._repository, self._ref, self._prefix + path, pieces),
            Upload(),
            length=entry.size,
        )

    def stage(
        self, path: str, entry: Entry, place: Mapping[str, Any], pieces: Iterable[bytes]
    ) -> None:
        """Stage what was stored, or without a place the content itself."""
        how = Upload(metadata=_metadata(entry))
        where = (self._session, self._repository, self._ref, self._prefix + path)
        if place:
            content = objects.Content(entry.checksum, entry.size)
            objects.link(*where, place, content, how)
        else:
            objects.upload(*where, pieces, how, length=entry.size)

    def delete(self, paths: Sequence[str]) -> None:
        """Stage deletions, any number."""
        self._branch._place.delete(self._prefix + path for path in paths)

    def unstage(self, path: str) -> None:
        """Discard the uncommitted change of a path."""
        body = {"type": "object", "path": self._prefix + path}
        self._known._call("PUT", "branches", self._ref, body=body)

    def commit(self, message: str, metadata: Mapping[str, str]) -> tuple[str, str]:
        """Commit the branch.  Returns the commit and its first parent."""
        created = self._branch.commit(message, metadata)
        if created.hooks_are_off and self._if_no_hooks is not None:
            self._if_no_hooks()
        return created.id, created.parents[0].name if created.parents else ""

    @cached_property
    def _presigns(self) -> bool:
        return self._pre_sign and objects.storage(self._session).presigns

    def _is_compared(self, path: str) -> bool:
        """Whether a path can be a file here.  Markers of folders count only with their modes."""
        if not path or path.rpartition("/")[2] in OWN_NAMES:
            return False
        return self._settings.posix or not path.endswith("/")

    def _entry(self, stats: Stats) -> Entry:
        metadata = stats.get("metadata") or {}
        seconds = metadata.get(_MTIME, "")
        return Entry(
            stats.get("size_bytes", 0),
            int(seconds) if _SECONDS.fullmatch(seconds) else stats["mtime"],
            stats["checksum"],
            metadata.get(_LINK, "") if self._settings.symlinks else "",
            _posix(metadata.get(_POSIX, "")) if self._settings.posix else None,
        )


def _metadata(entry: Entry) -> dict[str, str]:
    metadata = {_MTIME: str(entry.mtime)}
    if entry.link:
        metadata[_LINK] = entry.link
    if entry.posix is not None:
        mode, uid, gid = entry.posix
        metadata[_POSIX] = json.dumps({"UID": uid, "GID": gid, "Mode": mode}, separators=(",", ":"))
    return metadata


def _posix(text: str) -> Posix | None:
    try:
        values = json.loads(text)
        numbers = [int(values[name]) for name in ("Mode", "UID", "GID")]
    except (ValueError, KeyError, TypeError):
        return None
    if not all(0 <= number < 1 << 32 for number in numbers):
        return None
    return Posix(numbers[0] & _MODE_BITS, *numbers[1:])
