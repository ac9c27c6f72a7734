"""Reads files of this machine in place: `local:///absolute/path` below an import root.

Each read checks the path again.  The path must lie below a root as written, and also after its
links are resolved.  Then the file is opened from the root down without following any link, so a
change between check and open cannot lead elsewhere.  `closed` folders (the store itself) are never
served, even below a root.  Read-only.  For the local driver only.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from graveler.block.address import Parts, check
from graveler.block.file_reads import Chunks, head_of
from graveler.block.folders import closing, open_file, open_folder, translated
from graveler.block.layout import Place
from graveler.block.open_files import OpenFile
from graveler.block.walk import Child, FileHead, FileKey, Start
from graveler.errors import Invalid


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
        """The folder where a list begins."""
        key = parts.key[: parts.key.rfind("/") + 1]
        self._real(key)
        return Start(key, tuple(key.split("/")[:-1]))

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        """The files and folders in a folder; none if it does not exist.  A link counts as its
        target.  Broken links, and anything else than files and folders, are skipped."""
        key = "/".join(above)
        real = self._real(key)
        here = os.path.join(real.root, *real.names)
        with (
            suppress(FileNotFoundError),
            closing(open_folder(real.root, real.names)) as at,
            os.scandir(at) as entries,
        ):
            for entry in entries:
                name = entry.name
                if entry.is_file(follow_symlinks=False):
                    yield Child(name, name, False)
                    continue
                kind = self._kind(entry, here, f"{key}/{name}")
                if kind != "other":
                    yield Child(name, name, kind == "folder")

    def heads(self, files: Sequence[FileKey]) -> Iterator[FileHead]:
        """The heads of files, without files that were deleted meanwhile."""
        for folders, group in groupby(files, key=attrgetter("folders")):
            real = self._real("/".join(folders))
            with suppress(FileNotFoundError), closing(open_folder(*real)) as at:
                for key, _, name in group:
                    check(f"local:///{key}")  # refuse names no address can have
                    try:
                        status = os.stat(name, dir_fd=at, follow_symlinks=False)
                        if stat.S_ISLNK(status.st_mode):
                            with closing(self._open(key)) as target:
                                status = os.fstat(target)
                    except FileNotFoundError:
                        continue
                    yield FileHead(key, head_of(status))

    def _open(self, key: str) -> int:
        real = self._real(key)
        if key.endswith("/") or not real.names:
            raise Invalid(f"address names a folder, not an object: address=local:///{key}")
        return open_file(real.root, Place(real.names[:-1], real.names[-1]))

    def _kind(self, entry: os.DirEntry[str], here: str, key: str) -> str:
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if not entry.is_symlink():
            return "other"
        real = self._real(key)
        target = os.path.join(real.root, *real.names)
        if os.path.isdir(target):
            if _is_below(here, target):
                raise Invalid(
                    f"symbolic link leads to a folder that contains it: address=local:///{key}"
                )
            return "folder"
        return "file" if os.path.isfile(target) else "other"

    def _real(self, key: str) -> _Real:
        written = "/" + key.rstrip("/")
        allowed = [root for root in self._roots if _is_below(written, root)]
        if not allowed:
            raise Invalid(
                f"address is outside of the import roots: allow its folder with --import-root: address=local:///{key}"
            )
        resolved = os.path.realpath(written)
        if any(_is_below(resolved, folder) for folder in self._closed):
            raise Invalid(
                f"address is inside the store: import from another folder: address=local:///{key}"
            )
        for root in map(os.path.realpath, allowed):
            if _is_below(resolved, root):
                names = resolved[len(root.rstrip("/")) + 1 :]
                return _Real(root, tuple(names.split("/")) if names else ())
        raise Invalid(f"symbolic link leads out of its import root: address=local:///{key}")


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
