"""Reads files below the local store's root.  Files that were read stay open for later reads.

The CRC32C (RFC 3720) of a large file of the local store, in an extended attribute of the file.

A CRC32C is computed many times faster than an MD5, so a reader can verify a large file without
waiting.  The attribute is no part of the format: without it, readers take the MD5 of the entry.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final, Literal

from graveler.block.adapter import ObjectHead, Socket
from graveler.block.folders import Temporary, open_file, translated
from graveler.block.layout import FilePath
from graveler.block.open_files import (
    OBJECTS_KEPT_MAX,
    TABLES_KEPT_MAX,
    OpenFile,
    OpenFiles,
    OpenTable,
    OpenTables,
    kept_max,
)
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Corrupt, NotFound
from graveler.core.records import ABSENT, Absent

# ---- file checksums --------------------------------------------------------------------------

CHECKSUM_BYTES_MIN: Final = 4 << 20  # the MD5 of fewer bytes takes some milliseconds
_CHECKSUM_NAME: Final = "user.graveler.crc32c"
_CHECKSUM_VALUE: Final = re.compile(rb"[0-9a-f]{8}")


def keep_checksum(descriptor: int, size: int, crc32c: int | Literal[Absent.ABSENT]) -> None:
    """Keep the checksum of a new file, if there is one, the file is large, and its file system
    takes it.  The sync of the file makes it durable."""
    if crc32c is not ABSENT and size >= CHECKSUM_BYTES_MIN and sys.platform == "linux":
        with suppress(OSError):
            os.setxattr(descriptor, _CHECKSUM_NAME, b"%08x" % crc32c)


def kept_checksum(descriptor: int) -> int | Literal[Absent.ABSENT]:
    """The checksum of a large file; ABSENT if none is known.  One call of the system."""
    if sys.platform == "linux":
        with suppress(OSError):
            value = os.getxattr(descriptor, _CHECKSUM_NAME)
            if _CHECKSUM_VALUE.fullmatch(value):
                return int(value, 16)
    return ABSENT


# ---- file reads ------------------------------------------------------------------------------


_COPIED_MAX: Final = 64 * 1024 * 1024  # in one call
# The socket, not the file, has these errors.
_OF_THE_NETWORK: Final = frozenset((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENOTCONN))
# A pair of file systems, or a kernel, that does not copy by itself, or was interrupted.
_REFUSALS: Final = frozenset(
    (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EINTR)
)


class FileReads:
    """Reads of the files below the folder `root`.  `address`, in its canonical spelling, is for
    messages, and names the files that stay open.  `newer`: a folder of files that count instead of
    those of `root`; empty: there is none."""

    def __init__(self, root: str, clock: Clock, newer: str = "") -> None:
        self._root = root
        self._newer = newer
        self._open_files = OpenFiles(kept_max(OBJECTS_KEPT_MAX))
        self._open_tables = OpenTables(kept_max(TABLES_KEPT_MAX), clock)

    def open(self, place: FilePath, address: str) -> "Chunks":
        """Open a file for reading."""
        with translated(address):
            return Chunks(OpenFile(self._opened(place)), address)

    def kept_open(self, place: FilePath, address: str) -> "Chunks":
        """As `open`, with a file that stays open for later reads."""
        with translated(address):
            file, status = self._open_files.open(address, partial(self._opened, place))
        return Chunks(file, address, status)

    def known(self, address: str) -> "Chunks | Literal[Absent.ABSENT]":
        """As `kept_open`, if the file is open; otherwise `ABSENT`."""
        with translated(address):
            open_file = self._open_files.get(address)
        return ABSENT if open_file is None else Chunks(open_file[0], address, open_file[1])

    def read_known(self, address: str, start: int, length: int) -> bytes | Literal[Absent.ABSENT]:
        """See `BlockStore.read`, if the table or the file is open; otherwise, and if a file has
        none of the bytes, ABSENT."""
        table = self._open_tables.get(address)
        with translated(address):
            if table is not None:
                return table.read(start, length)
            raw = self._open_files.read(address, start, length)
            return ABSENT if raw is None else raw

    def read_table(self, place: FilePath, address: str, start: int, length: int) -> bytes:
        """Some bytes of a table, which stays open for later reads unless they are all.  See
        `BlockStore.read`."""
        with translated(address):
            table = OpenTable(self._opened(place), address)
            if not stat.S_ISREG(os.fstat(table.descriptor).st_mode):
                raise NotFound(f"object not found: {address=}")
            raw = table.read(start, length)
            if not table.is_all(raw):
                self._open_tables.keep(table)
            return raw

    def _opened(self, place: FilePath) -> int:
        if self._newer:
            with suppress(FileNotFoundError):
                return open_file(self._newer, place)
        return open_file(self._root, place)

    def forget(self, address: str) -> None:
        """Close a file whose name is removed or replaced.  Called after that."""
        self._open_files.forget(address)
        self._open_tables.forget(address)


class Chunks:
    """The bytes of an open file from the offset `at` to `end`.  Lets the file go at the end.

    `status`: the attributes of the file, if they are known.
    """

    def __init__(
        self, file: OpenFile, address: str, status: os.stat_result | Literal[Absent.ABSENT] = ABSENT
    ) -> None:
        self._file: OpenFile | Literal[Absent.ABSENT] = file
        self._address = address
        self._status = status
        self.at = 0
        self.end = 0

    def head(self) -> ObjectHead:
        """The head of the file; `NotFound` if it is not a regular file."""
        if self._status is ABSENT:
            with translated(self._address):
                self._status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self._status.st_mode):
            raise NotFound(f"object not found: address={self._address}")
        return head_of(self._status)

    def checked_head(self) -> ObjectHead:
        """As `head`, of a large file: with its checksum if one is known."""
        head = self.head()
        with translated(self._address):
            return head._replace(crc32c=kept_checksum(self._descriptor))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        file = self._file  # stays open while it is read, whoever calls `close` meanwhile
        if self.at >= self.end or file is ABSENT:
            self.close()
            raise StopIteration
        with translated(self._address):
            length = min(limits.chunk_length_bytes, self.end - self.at)
            chunk = os.pread(file.descriptor, length, self.at)
        if not chunk:
            raise Corrupt(f"object ended early while being read: address={self._address}")
        self.at += len(chunk)
        return chunk

    def send_to(self, socket: Socket, count_max: int) -> int:
        """See `FileChunks`.  If the file system refuses, the bytes are read and written."""
        file = self._file
        length = min(count_max, self.end - self.at)
        if length <= 0 or file is ABSENT:
            return 0
        try:
            sent = _sent(file.descriptor, socket.descriptor, length, self.at)
        except (BlockingIOError, ConnectionError, TimeoutError):
            raise  # of the socket
        except OSError as error:
            if error.errno in _OF_THE_NETWORK:
                raise ConnectionError(error.errno, error.strerror) from error
            with translated(self._address):
                raise
        if not sent:
            raise Corrupt(f"object ended early while being read: address={self._address}")
        self.at += sent
        return sent

    def read_into(self, buffer: memoryview) -> int:
        """See `FileChunks`."""
        file = self._file
        wanted = buffer[: max(self.end - self.at, 0)]
        if not wanted or file is ABSENT:
            return 0
        with translated(self._address):
            count = os.preadv(file.descriptor, [wanted], self.at)
        if not count:
            raise Corrupt(f"object ended early while being read: address={self._address}")
        self.at += count
        return count

    def duplicate(self) -> int:
        """See `FileChunks`."""
        file = self._file
        with translated(self._address):
            return os.dup(-1 if file is ABSENT else file.descriptor)

    def append_to(self, target: Temporary) -> None:
        """Append all bytes to a file; then this one is closed.

        The kernel copies them, or shares their blocks.  If it refuses, they are read and written.
        """
        with translated(self._address):
            while self.at < self.end:
                count = _copied(self._descriptor, target.file, self.end - self.at, self.at)
                if not count:
                    break
                self.at += count
        for chunk in self:
            with translated(self._address):
                target.write(chunk)

    def close(self) -> None:
        """Let the file go.  Idempotent."""
        self._file = ABSENT

    @property
    def _descriptor(self) -> int:
        return -1 if self._file is ABSENT else self._file.descriptor


def head_of(status: os.stat_result) -> ObjectHead:
    """The head of an object, from the attributes of its file."""
    return ObjectHead(
        status.st_size,
        f"{status.st_mtime_ns:x}-{status.st_size:x}",
        status.st_mtime_ns,
        f"{status.st_ino:x}-{status.st_mtime_ns:x}",
    )


def _copied(source: int, target: int, length: int, at: int) -> int:
    """Append up to `length` bytes of a file from the offset `at` to another one.  Returns how many
    the kernel has copied; 0 if it refuses."""
    if sys.platform != "linux":
        return 0
    try:
        return os.copy_file_range(source, target, min(length, _COPIED_MAX), offset_src=at)
    except OSError as error:
        if error.errno in _REFUSALS:
            return 0
        raise


def _sent(file: int, socket: int, length: int, at: int) -> int:
    """Send up to `length` bytes of a file from the offset `at`.  Returns how many were sent; 0 if
    the file has none there."""
    try:
        return os.sendfile(socket, file, at, length)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
    return os.write(socket, os.pread(file, min(length, limits.chunk_length_bytes), at))
