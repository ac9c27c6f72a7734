"""Journals of uploads in parts: what an upload that was interrupted needs to continue.

    uploads/HASH.jsonl    a line about the upload and its file, then a line for each stored part;
                          a later upload follows

HASH is that of the server, the object and the file.  A journal is valid for 24 hours after its last
part, and only while the file has the same size, times of modification and of change, and inode.
The time of change (ctime) is the one that a program cannot set back.  One process at a time has a
journal.  The files are in the folder of state.py, with mode 0600: an upload id allows to
send parts.  For this folder.
"""

import fcntl
import json
import os
from contextlib import suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

from graveler.errors import Contended
from graveler.private_files import make_folder

_VALID_NS: Final = 24 * 3_600 * 1_000_000_000
_BYTES_MAX: Final = 4 << 20  # 10,000 parts have about 1 MiB


class Key(NamedTuple):
    """Which file goes to which object."""

    server: str
    repository: str
    branch: str
    path: str
    file: str


class Version(NamedTuple):
    """What changes when somebody writes a file."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


class UploadStart(NamedTuple):
    """An upload that was begun."""

    version: Version
    part_bytes: int
    upload_id: str
    physical_address: str


def version(file: Path) -> Version:
    """The version of a file.  Raises `OSError`."""
    status = file.stat()
    return Version(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


class Journal:
    """The journal of one file and object; `close` lets other processes have it.

    `begun`: the upload that it is about, perhaps of another version of the file.  `tags`: the ETags
    of its parts, by number.  An upload does not fail because its journal cannot be written: then it
    cannot be continued, or sends some parts again."""

    def __init__(self, folder: Path, key: Key, now_ns: int) -> None:
        """Open it.  Raises `Contended` if another process has it."""
        name = sha256(json.dumps(key).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._file = folder / "uploads" / f"{name}.jsonl"
        self.begun: UploadStart | None = None
        self.tags: dict[int, str] = {}
        self._handle: FileIO | None = None
        with suppress(OSError):
            make_folder(self._file.parent)
            _expire(self._file.parent, now_ns)
            self._handle = _held(self._file)
            self._read(self._handle)

    @property
    def is_waiting(self) -> bool:
        """Whether another call can continue the upload."""
        return self.begun is not None and self._handle is not None

    def begin(self, begun: UploadStart) -> None:
        """Replace what it has by an upload without parts."""
        self.begun, self.tags = begun, {}
        self._write(begun)

    def add(self, number: int, tag: str) -> None:
        """A part is in the store.  Threads may call it at the same time."""
        self.tags[number] = tag
        self._write((number, tag))

    def remove(self) -> None:
        """Nothing is left to continue."""
        if self._handle is not None:
            with suppress(OSError):
                self._file.unlink()
        self.begun = None
        self.close()

    def close(self) -> None:
        """Let others have it."""
        if self._handle is not None:
            self._handle.close()

    def _write(self, line: object) -> None:
        # The end of a line comes first: what is cut off by a crash spoils no later line.
        if self._handle is not None:
            with suppress(OSError):
                self._handle.write(b"\n" + json.dumps(line).encode())

    def _read(self, handle: FileIO) -> None:
        handle.seek(0)
        content = handle.read(_BYTES_MAX)
        for line in filter(None, content.split(b"\n")):
            match _decoded(line):
                case [
                    [int(size), int(mtime), int(inode), int(ctime)],
                    int(length),
                    str(upload),
                    str(address),
                ]:
                    known = Version(size, mtime, inode, ctime)
                    self.begun, self.tags = UploadStart(known, length, upload, address), {}
                case [int(number), str(tag)]:
                    self.tags[number] = tag


def _decoded(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:  # cut off
        return None


def _expire(folder: Path, now_ns: int) -> None:
    """Delete old journals.  Their parts are deleted by the lifecycle rule of the bucket."""
    for file in folder.glob("*.jsonl"):
        try:
            if file.stat().st_mtime_ns < now_ns - _VALID_NS:
                file.unlink()
        except FileNotFoundError:
            continue


def _held(file: Path) -> FileIO:
    """The file, open to read and append; no other process has it.  Raises `Contended`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    handle = FileIO(os.open(file, flags, 0o600), "a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that had it may have deleted it meanwhile.
        is_held = os.path.samestat(os.fstat(handle.fileno()), file.lstat())
    except (BlockingIOError, FileNotFoundError):
        is_held = False
    if not is_held:
        handle.close()
        raise Contended("another process uploads this file to this path")
    return handle
