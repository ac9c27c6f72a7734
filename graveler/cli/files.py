"""Local files of a transfer: which ones, their contents, and how a download becomes visible.

A download is written to `.NAME.CHECKSUM.part` beside its target and renamed when its size and its
MD5 are right, so the target is always absent, old or whole.  A part that an interrupted download
left is continued, if the object is still the same.  Names from the server never lead out of the
target folder.  For this folder.
"""

import os
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any, Final, NamedTuple

from graveler.cli.transfer import Tally
from graveler.client import objects
from graveler.client.objects import Stats
from graveler.client.session import Session
from graveler.errors import Corrupt, Invalid

_PIECE_BYTES: Final = 1 << 18
_CHECKSUM_LENGTH: Final = 32  # of an MD5; other checksums are of several parts


class Source(NamedTuple):
    """A file to upload, and its path on the branch."""

    file: Path
    path: str
    size: int


def sources(folder: Path, prefix: str) -> Iterator[Source]:
    """All regular files below a folder, sorted.  Raises `Invalid` for a symbolic link, because a
    branch has none."""
    for place, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            file = Path(place) / name
            if file.is_symlink():
                raise Invalid(f"symbolic links cannot be uploaded: {file}")
            if file.is_file():
                relative = file.relative_to(folder).as_posix()
                yield Source(file, prefix + relative, file.stat().st_size)


def _raise(error: OSError) -> None:
    raise Invalid(f"folder cannot be read: {error.filename}: {error.strerror}") from error


def content(file: Path) -> Iterator[bytes]:
    """The bytes of a file in pieces."""
    with file.open("rb") as source:
        while piece := source.read(_PIECE_BYTES):
            yield piece


def is_same(file: Path, size: int, stats: Stats | None) -> bool:
    """Whether a file has the content of an object, by size and MD5."""
    if stats is None or stats.get("size_bytes") != size:
        return False
    return len(stats["checksum"]) == _CHECKSUM_LENGTH and checksum(file) == stats["checksum"]


def checksum(file: Path) -> str:
    """The MD5 of a file."""
    digest = md5(usedforsecurity=False)
    for piece in content(file):
        digest.update(piece)
    return digest.hexdigest()


def target(folder: Path, relative: str) -> Path:
    """The file for a path below a prefix.  Raises `Invalid` for a path that would lead out of the
    folder, or that no file can have."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Invalid(f"path cannot be a file below {folder}")
    file = folder
    for part in parts[:-1]:
        file = file / part
        if file.is_symlink():
            raise Invalid(f"a symbolic link is in the way: {file}")
    return file / parts[-1]


class Download(NamedTuple):
    """An object to download to a file.  `ref` is a commit, or the ref as it was written."""

    session: Session
    repository: str
    ref: str
    stats: Stats
    file: Path
    presign: bool


def download(order: Download, tally: Tally) -> None:
    """Download an object, or continue a part of it; then make it visible.

    Raises `Corrupt` if the bytes are not those that the server describes; the part is deleted."""
    stats, file = order.stats, order.file
    length, known = stats.get("size_bytes", 0), stats["checksum"].replace("/", "_")
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name[:180]}.{known[:_CHECKSUM_LENGTH]}.part")
    digest = md5(usedforsecurity=False)
    start = _kept(part, digest, length)
    tally.moved(start)
    if start < length or not length:
        start = _receive(order, part, digest, start, tally)
    right = len(known) != _CHECKSUM_LENGTH or digest.hexdigest() == known
    if start != length or not right:
        part.unlink(missing_ok=True)
        raise Corrupt(f"wrong content: {start:,} of {length:,} bytes, or another checksum")
    os.utime(part, (stats["mtime"], stats["mtime"]))
    os.replace(part, file)


def _kept(part: Path, digest: Any, length: int) -> int:
    """How many bytes an interrupted download left; they are added to the digest."""
    try:
        if part.is_symlink() or part.stat().st_size > length:
            part.unlink()
            return 0
    except FileNotFoundError:
        return 0
    for piece in content(part):
        digest.update(piece)
    return part.stat().st_size


def _receive(order: Download, part: Path, digest: Any, start: int, tally: Tally) -> int:
    """Append the rest of the object to the part; return its length."""
    stats = order.stats
    with objects.open_object(
        *(order.session, order.repository, order.ref, stats["path"]),
        start=start,
        presign=order.presign,
    ) as answer:
        if start and answer.status != 206:
            raise Corrupt("the server does not continue a download: delete the part and try again")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        handle = os.open(part, flags, 0o666)
        with os.fdopen(handle, "ab", buffering=0) as file:
            buffer = memoryview(bytearray(_PIECE_BYTES))
            while count := answer.read_into(buffer):
                file.write(buffer[:count])
                digest.update(buffer[:count])
                start += count
                tally.moved(count)
                if start > stats.get("size_bytes", 0):
                    break
    return start
