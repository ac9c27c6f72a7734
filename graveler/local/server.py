"""The server of a linked folder (ports.Server), over the Python client.

    ::lakefs::client-mtime        metadata: when the file was changed, in seconds
    ::lakefs::symlink-target      metadata of an empty object: where a symbolic link leads
    ::lakefs::posix-permissions   metadata: {"UID": …, "GID": …, "Mode": …}

lakectl writes and reads the same.  For this folder, and for the command.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from graveler.client import commits, objects
from graveler.client.checksums import expected_md5
from graveler.client.commits import Message
from graveler.client.objects import Stats, Upload
from graveler.client.session import Session, below
from graveler.errors import Invalid, NotFound
from graveler.local.entries import Entry, Kind, Posix, Prefix, Settings, is_own
from graveler.local.ports import Content

_MTIME: Final = "::lakefs::client-mtime"
_LINK: Final = "::lakefs::symlink-target"
_POSIX: Final = "::lakefs::posix-permissions"
_SECONDS: Final = re.compile(r"-?[0-9]{1,11}")
_MODE_BITS: Final = 0o170777  # the kind of file and its permissions
_KINDS: Final[Mapping[str, Kind]] = {"added": "added", "removed": "removed"}


class PrefixServer:
    """A prefix of a branch on a server.  Each method raises the errors of `Session.ask`.
    `pre_sign`: contents go by signed URLs, if the server signs them."""

    def __init__(
        self, session: Session, source: Prefix, settings: Settings, *, pre_sign: bool = True
    ) -> None:
        self._session, self._settings, self._pre_sign = session, settings, pre_sign
        self._repository, self._ref, self._prefix = source

    # ---- ports.Source ----------------------------------------------------------------------------

    def head(self, ref: str = "") -> str:
        return commits.get(self._session, self._repository, ref or self._ref)["id"]

    def listing(self, ref: str) -> Iterator[tuple[str, Entry]]:
        for stats in objects.list_objects(self._session, self._repository, ref, self._prefix):
            path = stats["path"].removeprefix(self._prefix)
            if self._is_compared(path):
                yield path, self._entry(stats)

    def changes(self, old: str, new: str) -> Iterator[tuple[Kind, str]]:
        for change in commits.diff(
            *(self._session, self._repository, old, new), prefix=self._prefix, two_dot=True
        ):
            path = change["path"].removeprefix(self._prefix)
            if self._is_compared(path):
                yield _KINDS.get(change["type"], "changed"), path

    def entry(self, ref: str, path: str) -> Entry | None:
        try:
            stats = objects.stat(self._session, self._repository, ref, self._prefix + path)
        except NotFound:
            return None
        return self._entry(stats)

    @contextmanager
    def read(self, ref: str, path: str, checksum: str) -> Iterator[Content]:
        with objects.open_object(
            *(self._session, self._repository, ref, self._prefix + path), presign=self._presigns
        ) as answer:
            yield Content(iter(answer.read, b""), expected_md5(checksum, answer.headers))

    # ---- ports.Target ----------------------------------------------------------------------------

    def uncommitted(self) -> Iterator[str]:
        for change in commits.uncommitted(self._session, self._repository, self._ref):
            yield change["path"]

    def send(self, path: str, entry: Entry, pieces: Iterable[bytes]) -> Mapping[str, Any]:
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
        how = Upload(metadata=_metadata(entry))
        where = (self._session, self._repository, self._ref, self._prefix + path)
        if place:
            content = objects.Content(entry.checksum, entry.size)
            objects.link(*where, place, content, how)
        else:
            objects.upload(*where, pieces, how, length=entry.size)

    def delete(self, paths: Sequence[str]) -> None:
        whole = [self._prefix + path for path in paths]
        for start in range(0, len(whole), objects.DELETIONS_MAX):
            page = whole[start : start + objects.DELETIONS_MAX]
            failures = objects.delete(self._session, self._repository, self._ref, page)
            if failures:
                path = failures[0].get("path", "")
                raise Invalid(f"not deleted: {path}: {failures[0]['message']}")

    def unstage(self, path: str) -> None:
        where = below("repositories", self._repository, "branches", self._ref)
        self._session.call("PUT", where, {"type": "object", "path": self._prefix + path})

    def commit(self, message: str, metadata: Mapping[str, str]) -> tuple[str, str]:
        created = commits.commit(
            self._session, self._repository, self._ref, Message(message, metadata)
        )
        return created["id"], created["parents"][0] if created["parents"] else ""

    # ---- entries ---------------------------------------------------------------------------------

    @cached_property
    def _presigns(self) -> bool:
        return self._pre_sign and objects.storage(self._session).presigns

    def _is_compared(self, path: str) -> bool:
        """Whether a path can be a file here.  Markers of folders count only with their modes."""
        if not path or is_own(path):
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
