"""Journals of transfers: what an operation that was interrupted needs to continue.

    NAME.journal    a line of JSON about the operation, then one for each thing that was done

One process at a time has a journal.  The files are private (0600 in 0700).
"""

import fcntl
import json
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from graveler.core.errors import Contended, Unavailable
from graveler.core.private_files import make_folder

_MARK = "begin"


class Journal:
    """The journal in a file.  `close` lets others have it; an empty one is removed.

    `begun`: the operation that has begun and not ended.  `done`: the lines that followed."""

    def __init__(self, file: Path, busy: str = "", *, reads_only: bool = False) -> None:
        """Open it.  Raises `Contended`, with the text `busy`, if another process has it, and
        `Unavailable`.  `reads_only`: without the lock."""
        self.begun: Any = None
        self.done: list[Any] = []
        self._file = file
        self._handle: FileIO | None = None
        try:
            make_folder(file.parent)
            if reads_only:
                content = file.read_bytes() if os.path.lexists(file) else b""
            else:
                self._handle = _held(file, busy)
                self._handle.seek(0)
                content = self._handle.readall()
        except OSError as error:
            raise _failed(file, error) from error
        for line in filter(None, content.split(b"\n")):
            with suppress(ValueError):  # cut off by a crash
                self._take(json.loads(line))

    def _take(self, line: Any) -> None:
        if isinstance(line, dict) and _MARK in line:
            self.begun, self.done = line[_MARK], []
        else:
            self.done.append(line)

    def begin(self, operation: Any) -> None:
        """Replace what it has by an operation, durably."""
        self.end()
        self._write({_MARK: operation}, durable=True)
        sync_folder(self._file.parent)
        self.begun = operation

    def add(self, line: Any, *, durable: bool = False) -> None:
        """Something was done.  Threads may call it at the same time."""
        self.done.append(line)
        self._write(line, durable=durable)

    def end(self) -> None:
        """Nothing is left to continue."""
        handle = self._open_handle()
        try:
            handle.truncate(0)
            os.fsync(handle.fileno())
        except OSError as error:
            raise _failed(self._file, error) from error
        self.begun, self.done = None, []

    def close(self) -> None:
        """Let other processes have it."""
        if self._handle is None or self._handle.closed:
            return
        with suppress(OSError):
            if not os.fstat(self._handle.fileno()).st_size:
                self._file.unlink()
        self._handle.close()

    def _write(self, line: Any, *, durable: bool) -> None:
        handle = self._open_handle()
        # The end of a line comes first: what is cut off by a crash spoils no later line.
        content = b"\n" + json.dumps(line).encode()
        try:
            while content:
                content = content[handle.write(content) :]
            if durable:
                os.fsync(handle.fileno())
        except OSError as error:
            raise _failed(self._file, error) from error

    def _open_handle(self) -> FileIO:
        assert self._handle is not None, "opened to read alone"
        return self._handle


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def hold(file: Path, mode: int) -> FileIO | None:
    """A file, open to read and append, that no other process holds; none if one does."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    handle = FileIO(os.open(file, flags, mode), "a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that held it may have removed or renamed it meanwhile.
        is_held = os.path.samestat(os.fstat(handle.fileno()), file.lstat())
    except (BlockingIOError, FileNotFoundError):
        is_held = False
    if is_held:
        return handle
    handle.close()
    return None


def _held(file: Path, busy: str) -> FileIO:
    handle = hold(file, 0o600)
    if handle is None:
        raise Contended(busy)
    return handle


def _failed(file: Path, error: OSError) -> Unavailable:
    return Unavailable(f"state cannot be kept: {file}: {error.strerror}")
