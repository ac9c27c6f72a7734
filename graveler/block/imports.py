"""Reads files of this machine in place: `local:///absolute/path` below an import root.  Read-only.

Each read checks that the path lies below a root, as written and after its links are resolved.  Then
the file is opened from the root down without following any link.  `closed` folders (the store
itself) are never served.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from graveler.block.adapter import ObjectHead
from graveler.block.address import Parts
from graveler.block.file_reads import Chunks, head_of
from graveler.block.folders import closing, open_file, open_folder, translated
from graveler.block.layout import FilePath
from graveler.block.open_files import OpenFile
from graveler.block.walk import Child, FileHead, FileKey, Start
from graveler.core.errors import Invalid, NotFound

_NO_FILE: Final = ObjectHead(0, "", 0)
_BROKEN: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


class _Real(NamedTuple):
    root: str
    names: tuple[str, ...]


class ImportRoots:
    """The folders from which the administrator allows imports."""

    def __init__(self, roots: Sequence[Path], closed: Sequence[Path]) -> None:
        self._roots = tuple(os.path.abspath(root) for root in roots)
        self._closed = tuple(os.path.realpath(folder) for folder in closed)

    def check(self, parts: Parts) -> None:
        """Raises `Invalid` if reading the file is not allowed, whether it exists or not."""
        self._real(parts.key)

    def open(self, parts: Parts) -> Chunks:
        """Open a file for reading."""
        with translated(parts.address):
            return Chunks(OpenFile(self._open(parts.key)), parts.address)

    def start(self, parts: Parts) -> Start:
        """The folder where a list begins.  Raises `NotFound` if it does not exist."""
        key = parts.key[: parts.key.rfind("/") + 1]
        try:
            os.close(open_folder(*self._real(key)))
        except FileNotFoundError as error:
            raise NotFound(f"folder not found: address={_shown(key)}") from error
        return Start(key, tuple(key.split("/")[:-1]))

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        """What is in a folder.  A link to a folder counts as a folder; `heads` says which of the
        others are no files.  Raises the error of a folder that is gone or cannot be read."""
        key = "/".join(above)
        real = self._real(key)
        here = os.path.join(real.root, *real.names)
        with (
            translated(_shown(f"{key}/")),
            closing(open_folder(real.root, real.names)) as at,
            os.scandir(at) as entries,
        ):
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.is_symlink():
                    is_folder = self._leads_to_folder(entry, here, f"{key}/{entry.name}")
                yield Child(entry.name, entry.name, is_folder)

    def heads(self, files: Sequence[FileKey]) -> Iterator[FileHead]:
        """The heads of files, and the problem of each name that is no file."""
        for folders, group in groupby(files, key=attrgetter("folders")):
            key = "/".join(folders)
            with translated(_shown(f"{key}/")), closing(open_folder(*self._real(key))) as at:
                for file in group:
                    yield self._head(at, file)

    def _head(self, at: int, file: FileKey) -> FileHead:
        try:
            status = os.stat(file.name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            return FileHead(file.key, _NO_FILE, "it was removed while its folder was listed")
        if stat.S_ISLNK(status.st_mode):
            try:
                status = os.stat(file.name, dir_fd=at)
                if stat.S_ISREG(status.st_mode):
                    with closing(self._open(file.key)) as target:
                        status = os.fstat(target)
            except OSError as error:
                if error.errno not in _BROKEN:
                    raise
                return FileHead(file.key, _NO_FILE, "it is a link that leads nowhere")
        if not stat.S_ISREG(status.st_mode):
            return FileHead(file.key, _NO_FILE, "it is neither a file nor a folder")
        return FileHead(file.key, head_of(status))

    def _open(self, key: str) -> int:
        real = self._real(key)
        if key.endswith("/") or not real.names:
            raise Invalid(f"address names a folder, not an object: address={_shown(key)}")
        return open_file(real.root, FilePath(real.names[:-1], real.names[-1]))

    def _leads_to_folder(self, entry: os.DirEntry[str], here: str, key: str) -> bool:
        """Whether a link leads to a folder.  `Invalid` if it leads out of the roots, or to a folder
        that contains it."""
        try:
            entry.stat()
        except OSError as error:
            if error.errno not in _BROKEN:
                raise
            return False
        real = self._real(key)
        target = os.path.join(real.root, *real.names)
        if not os.path.isdir(target):
            return False
        if _is_below(here, target):
            raise Invalid(
                f"symbolic link leads to a folder that contains it: address={_shown(key)}"
            )
        return True

    def _real(self, key: str) -> _Real:
        written = "/" + key.rstrip("/")
        allowed = [root for root in self._roots if _is_below(written, root)]
        if not allowed:
            raise Invalid(
                "address is outside of the import roots: allow its folder with --import-root: "
                f"address={_shown(key)}"
            )
        resolved = os.path.realpath(written)
        if any(_is_below(resolved, folder) for folder in self._closed):
            raise Invalid(
                f"address is inside the store: import from another folder: address={_shown(key)}"
            )
        for root in map(os.path.realpath, allowed):
            if _is_below(resolved, root):
                names = resolved[len(root.rstrip("/")) + 1 :]
                return _Real(root, tuple(names.split("/")) if names else ())
        raise Invalid(f"symbolic link leads out of its import root: address={_shown(key)}")


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _shown(key: str) -> str:
    """An address for a message: a name may hold bytes that are not UTF-8."""
    return f"local:///{key}".encode("utf-8", "backslashreplace").decode()
