"""The journal: bodies of small files, durable before the files themselves are.

    %journal/<number>    a segment: 5 bytes `GRVJ` and its format, then records
    record               length of the payload (4) ‖ CRC32C of the payload (4) ‖ payload
    payload              time in ns (8) ‖ length of the path (2) ‖ path ‖ bytes of the file

    takes files ──full, or an append failed──► retired ──a checkpoint──► removed
                                                  └──the checkpoint failed──► lost

- A put is answered only after its record is durable in a segment, or its file is synced.
- A checkpoint syncs all files of one segment, and then removes the segment.
- A file that may be in a segment is never removed or replaced: a checkpoint comes first.  So a
  segment needs no order and no deletions, and its replay may be repeated.
- A sync that fails is never repeated: the system reports a loss once for each open descriptor.  So
  each segment has descriptors of its own, open since before its first file was written.
- `recover` replays what an ended process left.  A torn end is no damage; any other broken record
  is, and then nothing is replayed.  An operator accepts a damaged segment by the name
  `<number>.damaged`: its whole records are replayed, and it is kept as `<number>.kept`.

The process that opens a journal must be the only one that replaces or deletes files of the folder.
"""

import contextlib
import errno
import logging
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from graveler.block.disk import sync_files
from graveler.block.folders import Folders, SharedSync, closing
from graveler.block.layout import JOURNAL, FilePath
from graveler.core.errors import Corrupt
from graveler.core.identity import extended, is_torn
from graveler.core.records import ABSENT, Absent

_MAGIC: Final = b"GRVJ\x01"
_FRAME: Final = struct.Struct(">II")
_PREFIX: Final = struct.Struct(">QH")
_SEGMENT_BYTES: Final = 16 * 1024 * 1024
_SEGMENT_FILES: Final = 20_000  # a replay writes them all anew
_SEGMENTS_MAX: Final = 3
_ACCEPTED: Final = ".damaged"
_NAME: Final = re.compile(rf"\d+({re.escape(_ACCEPTED)})?")
_PATH_SHOWN: Final = 200
_RECORD_BYTES_MAX: Final = 128 * 1024  # a small file, its path, and room
_BEGINNING: Final = re.compile(rb"(?=\x00[\x00\x01])")  # of the length of a record
_LOG: Final = logging.getLogger("graveler.journal")
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class SmallFile(NamedTuple):
    """A whole file: its name, its time of modification, its bytes."""

    place: FilePath
    written_ns: int
    content: bytes


def encode(file: SmallFile) -> bytes:
    """The record of a file."""
    path = "/".join((*file.place.folders, file.place.name)).encode("utf-8", "surrogateescape")
    payload = _PREFIX.pack(file.written_ns, len(path)) + path + file.content
    return _FRAME.pack(len(payload), extended(0, payload)) + payload


def decode(stored: bytes) -> Iterator[SmallFile]:
    """The files of the whole records of a segment, also of those behind a broken record."""
    at = len(_MAGIC)
    while at < len(stored):
        payload = _payload(stored, at)
        if payload is ABSENT:
            at = _behind(stored, at)
            continue
        at += _FRAME.size + len(payload)
        written_ns, path_length = _PREFIX.unpack_from(payload)
        end = _PREFIX.size + path_length
        *folders, name = payload[_PREFIX.size : end].decode("utf-8", "surrogateescape").split("/")
        yield SmallFile(FilePath(tuple(folders), name), written_ns, payload[end:])


def check(stored: bytes) -> None:
    """Raises `Corrupt` for a segment of a later release; for one that has records but no header,
    because the sync of a record covers the header; and for a record that is not whole, unless a
    crash may have torn it: then its put was never answered."""
    if not stored.startswith(_MAGIC):
        if stored[:4] == _MAGIC[:4] and stored[4:5] > _MAGIC[4:]:
            raise Corrupt(f"journal has a format of a later release: format={stored[4]}")
        if any(True for _ in decode(stored)):
            raise Corrupt(f"journal has a damaged header: header={stored[: len(_MAGIC)].hex()}")
        return
    at, count = len(_MAGIC), 0
    while (payload := _payload(stored, at)) is not ABSENT:
        at, count = at + _FRAME.size + len(payload), count + 1
    behind = sum(1 for _ in decode(_MAGIC + stored[at:]))
    if behind or _is_damaged(stored, at):
        raise Corrupt(
            f"journal has a damaged record: at={at} records_before={count} records_behind={behind} "
            f"object={_path(stored, at)!r}"
        )


def _payload(stored: bytes, at: int) -> bytes | Literal[Absent.ABSENT]:
    """The payload of the record at `at`; ABSENT if none is whole there."""
    if at + _FRAME.size + _PREFIX.size > len(stored):
        return ABSENT
    length, checksum = _FRAME.unpack_from(stored, at)
    at += _FRAME.size
    if not _PREFIX.size <= length <= min(_RECORD_BYTES_MAX, len(stored) - at):
        return ABSENT
    payload = stored[at : at + length]
    return payload if extended(0, payload) == checksum else ABSENT


def _behind(stored: bytes, at: int) -> int:
    """Where the next whole record begins behind the broken one at `at`; the end if there is none.

    If a record or the end is where its length says, it is the next one: what is in between are
    bytes of an object, whose author may have written records into it."""
    if at + _FRAME.size <= len(stored):
        end: int = at + _FRAME.size + _FRAME.unpack_from(stored, at)[0]
        if end == len(stored) or _payload(stored, end) is not ABSENT:
            return end
    for match in _BEGINNING.finditer(stored, at + 1):
        if _payload(stored, match.start()) is not ABSENT:
            return match.start()
    return len(stored)


def _is_damaged(stored: bytes, at: int) -> bool:
    """Whether the last record, which is not whole, is broken otherwise than a crash may tear it."""
    room = len(stored) - at - _FRAME.size
    if room < _PREFIX.size or stored.count(b"\0", at) == len(stored) - at:
        return False
    length, checksum = _FRAME.unpack_from(stored, at)
    if length > room:
        return extended(0, stored[at + _FRAME.size :]) == int(checksum)  # only the length is wrong
    return not is_torn(stored, at, at + _FRAME.size + length)


def _path(stored: bytes, at: int) -> str:
    """The path in a broken record, as far as it can be read."""
    at += _FRAME.size
    if at + _PREFIX.size > len(stored):
        return ""
    _, length = _PREFIX.unpack_from(stored, at)
    at += _PREFIX.size
    return stored[at : at + min(length, _PATH_SHOWN)].decode("utf-8", "replace")


def replay(folder: Path, write: Callable[[SmallFile], None]) -> list[FilePath]:
    """Call `write` for each file in the segments of a folder.  Returns their places.  Raises
    `Corrupt` before the first call if a segment is damaged, unless it is accepted."""
    check_segments(folder)
    places: list[FilePath] = []
    for name in segment_names(folder):
        for file in decode((folder / name).read_bytes()):
            write(file)
            places.append(file.place)
    return places


def check_segments(folder: Path) -> None:
    """Raises `Corrupt` if a segment of a folder is damaged, unless it is accepted."""
    for name in segment_names(folder):
        if not name.endswith(_ACCEPTED):
            try:
                with contextlib.suppress(FileNotFoundError):  # a process is using the folder
                    check((folder / name).read_bytes())
            except Corrupt as error:
                raise Corrupt(
                    f"{error} file={folder / name}; nothing was changed: restore the store from a "
                    f"back-up (docs/how-to/back-up.md), or rename this file to {name}{_ACCEPTED}: "
                    "the next start stores the objects of its whole records and keeps the file; "
                    "then `graveler verify --objects` names the objects that are lost"
                ) from error


def segment_names(folder: Path) -> list[str]:
    """The segments that an ended process has left, the oldest first."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
    return []


class Segment:
    """One file of the journal, and the files that may be in it."""

    def __init__(self, folders: Folders, number: int) -> None:
        """Create it, durably.  Raises `OSError`; then nothing of it stays open."""
        self.name = f"{number:020}"
        self.places: set[FilePath] = set()
        self.size = 0
        self.users = 0  # puts that are under way; guarded by the journal's lock
        self.failed = False  # a write or a sync of it has failed
        self.is_retired = False  # a checkpoint is due: it takes no more files
        self.is_lost = False  # its checkpoint has failed: it stays for the next start
        self._lock = threading.Lock()
        self._syncs = SharedSync(self._sync)
        self._root_path = folders.root
        with contextlib.ExitStack() as undone:
            self._root = folders.make(())
            undone.callback(os.close, self._root)
            self._folder = folders.make((JOURNAL,))
            undone.callback(os.close, self._folder)
            self._descriptor = os.open(self.name, _APPEND, 0o600, dir_fd=self._folder)
            undone.callback(os.unlink, self.name, dir_fd=self._folder)
            undone.callback(os.close, self._descriptor)
            self._write(_MAGIC)
            os.fsync(self._folder)
            undone.pop_all()

    def append(self, files: Sequence[SmallFile]) -> None:
        """Append the records of files, durably: return after a sync that covers them.

        Raises `OSError`; then any of the records may be in the segment, and the segment takes no
        more records.
        """
        records = b"".join(map(encode, files))
        with self._lock:
            self._write(records)
        self._syncs.sync(self._descriptor)

    def is_full(self) -> bool:
        """Whether the segment should take no more files."""
        is_long = self.size >= _SEGMENT_BYTES or len(self.places) >= _SEGMENT_FILES
        return self.failed or self.is_retired or is_long

    def remove(self) -> None:
        """Sync its files, and remove it.  Raises `OSError`; then it is lost."""
        if self.is_lost:
            raise OSError(errno.EIO, "the files of the segment could not be synced before")
        try:
            sync_files(self._root_path, self._root, self.places)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self._folder)
            os.fsync(self._folder)
        except OSError as error:
            self.is_lost = True
            _LOG.error(
                "a sync of the file system failed: %d small files cannot be deleted or replaced "
                "until the service is started again: segment=%s error=%s",
                len(self.places),
                self.name,
                error,
            )
            raise
        self.close()

    def close(self) -> None:
        """Close what it has open.  It takes no more records."""
        for descriptor in (self._descriptor, self._folder, self._root):
            os.close(descriptor)
        del self._syncs  # it refers to the segment: they would keep each other, and all places

    def _write(self, data: bytes) -> None:
        self._check()
        try:
            if os.write(self._descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._fail(error)
            raise
        self.size += len(data)

    def _sync(self, descriptor: int) -> None:
        self._check()
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            self._fail(error)
            raise

    def _check(self) -> None:
        if self.failed:
            raise OSError(errno.EIO, "the segment has failed before")

    def _fail(self, error: OSError) -> None:
        self.failed = True
        if self.size:  # otherwise each small file finds out anew
            _LOG.warning("a segment of the journal failed; another one begins: error=%s", error)


class Journal:
    """The segments of one folder.  Thread-safe."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._changed = threading.Condition()
        self._segments: list[Segment] = []  # the last one is written, unless it is full
        self._number = 0
        self._is_closed = False
        self._checkpoints: list[threading.Thread] = []

    def recover(self, write: Callable[[SmallFile], None]) -> None:
        """Replay what an ended process has left: `write` writes each file anew, without a sync.

        Raises `OSError`, `Corrupt`, and what `write` raises; then the segments stay.
        """
        path = Path(self._folders.root) / JOURNAL
        names = segment_names(path)
        if not names:
            return
        with closing(self._folders.make(())) as root:
            places = replay(path, write)
            sync_files(self._folders.root, root, places)
        with closing(self._folders.make((JOURNAL,))) as folder:
            for name in names:
                number, *accepted = name.split(".")
                if accepted:
                    os.rename(name, f"{number}.kept", src_dir_fd=folder, dst_dir_fd=folder)
                else:
                    os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        self._number = int(names[-1].partition(".")[0])

    def enter(self) -> Segment:
        """The segment for new files.  The caller places the files, appends their records, and calls
        `leave`.  Raises `OSError` if no segment takes files."""
        with self._changed:
            if self._is_closed:
                raise OSError(errno.EBADF, "the journal is closed")
            if not self._segments or self._segments[-1].is_full():
                self._begin_segment()
            segment = self._segments[-1]
            segment.users += 1
            return segment

    def leave(self, segment: Segment) -> None:
        """End the use of a segment that began with `enter`, whether files were stored or not."""
        with self._changed:
            segment.users -= 1
            if segment.is_retired:
                self._changed.notify_all()

    def holds(self, place: FilePath) -> bool:
        """Whether a file may be in a segment."""
        segments = tuple(self._segments)  # checkpoints remove some meanwhile
        return any(place in segment.places for segment in segments)

    def settle(self, place: FilePath) -> None:
        """Return once the file is in no segment.  Raises `OSError`."""
        for segment in tuple(self._segments):
            if place in segment.places:
                self._checkpoint(segment)

    def close(self) -> None:
        """Sync all files and remove all segments.  Later puts find no segment.  Raises `OSError`;
        then the next start replays the segments that are left."""
        with self._changed:
            self._is_closed = True
        for thread in self._checkpoints:
            thread.join()
        for segment in tuple(self._segments):
            self._checkpoint(segment)

    def _begin_segment(self) -> None:
        if len(self._segments) >= _SEGMENTS_MAX:  # checkpoints take long, or have failed
            raise OSError(errno.EBUSY, "checkpoints are behind")
        self._number += 1
        segment = Segment(self._folders, self._number)
        if self._segments:
            self._begin_checkpoint(self._segments[-1])
        self._segments.append(segment)

    def _begin_checkpoint(self, segment: Segment) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):  # the segment stays
                self._checkpoint(segment)

        thread = threading.Thread(target=run, name="checkpoint", daemon=True)
        with contextlib.suppress(RuntimeError):  # the system starts none: `close` does it
            thread.start()
            self._checkpoints = [each for each in self._checkpoints if each.is_alive()]
            self._checkpoints.append(thread)

    def _checkpoint(self, segment: Segment) -> None:
        """Sync the files of a segment and remove it, unless another thread has done so."""
        with self._changed:
            segment.is_retired = True
            while segment.users:
                self._changed.wait()
            if segment not in self._segments:
                return
            segment.users += 1
        is_done = False
        try:
            segment.remove()
            is_done = True
        finally:
            with self._changed:
                segment.users -= 1
                if is_done:
                    self._segments.remove(segment)
                self._changed.notify_all()
