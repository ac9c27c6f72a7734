"""Receives an object into a file.

The bytes go to a part beside the file, `.NAME.CHECKSUM.part`, which is renamed when its size and
its CRC32C or MD5, if one is known, are right: so the file is always absent, old or whole.  A part
that an interrupted transfer left is continued, if its checksum allows to verify what was kept.  One
process at a time has a part.  Names from the server never lead out of the target folder.
"""

import os
import re
from collections.abc import Callable
from hashlib import md5
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from graveler.core.errors import AlreadyExists, Contended, Corrupt, Invalid
from graveler.lake import objects
from graveler.lake.checksums import (
    Crc32c,
    Digest,
    Pipeline,
    crc32c_is_fast,
    crc32c_of,
    etag,
    expected_md5,
)
from graveler.lake.connections import Response
from graveler.lake.session import Session
from graveler.lake.transfers import paths
from graveler.lake.transfers.folder import checked, folding
from graveler.lake.transfers.journal import hold
from graveler.lake.transfers.paths import Folding

Moved = Callable[[int], None]  # counts bytes
_PIECE_BYTES: Final = 1 << 18
_NAME_BYTES_MAX: Final = 180
_CHECKSUM_LENGTH: Final = 32  # of an MD5; other checksums are of several parts
_PARTS: Final = re.compile(r"[0-9a-f]{32}-[1-9][0-9]{0,4}")
_PART_BYTES: Final = tuple(
    mebibytes << 20 for mebibytes in (5, 8, 10, 16, 32, 64, 100, 128, 256, 512)
)


class Object(NamedTuple):
    """An object to receive.  `ref` is a commit, or the ref as it was written."""

    session: Session
    repository: str
    ref: str
    path: str
    checksum: str
    size: int
    presign: bool

    def open(self, start: int = 0, end: int | None = None) -> Response:
        """Its bytes from `start` on."""
        where = (self.session, self.repository, self.ref, self.path)
        return objects.open_object(*where, start=start, end=end, presign=self.presign)


# ---- checksums -----------------------------------------------------------------------------------


def is_same(file: Path, checksum: str, size: int) -> bool:
    """Whether a file has the content of an object of this checksum and size.  The checksum of an
    object that was written in parts is known for the usual sizes of parts."""
    if file.stat().st_size != size:
        return False
    if whole := expected_md5(checksum):
        return md5_of(file) == whole
    return any(_parts_md5(file, length) == checksum for length in _part_lengths(checksum, size))


def is_same_by_time(source: Object, file: Path, mtime: int) -> bool:
    """Whether a file has the size and the time that a download of the object gave it, if the
    checksum of the object looks like an MD5 and is none.  One request if size and time agree."""
    status = file.stat()
    is_alike = status.st_size == source.size > 0 and int(status.st_mtime) == mtime
    if not (is_alike and expected_md5(source.checksum)):
        return False
    with source.open(end=0) as answer:
        if answer.status == 206:
            answer.read()  # so the connection can be used again
        return not expected_md5(source.checksum, answer.headers)


def md5_of(file: Path) -> str:
    """The MD5 of a file."""
    with Digest(file.stat().st_size) as digest, FileIO(file) as source:
        while digest.take(source.readinto):
            pass
        return digest.hexdigest()


def _part_lengths(known: str, size: int) -> list[int]:
    """The usual lengths of parts that an object of this checksum and size can have; none if the
    checksum is not of parts."""
    if not (_PARTS.fullmatch(known) and size):
        return []
    count = int(known.rpartition("-")[2])
    return [length for length in _PART_BYTES if -(-size // length) == count]


def _parts_md5(file: Path, length: int) -> str:
    """The checksum that object stores give to a file in parts of this length: the MD5 of the MD5s
    of the parts, and their number."""
    whole, count = md5(usedforsecurity=False), 0
    with file.open("rb") as source:
        while digest := _part_digest(source, length):
            whole.update(digest)
            count += 1
    return f"{whole.hexdigest()}-{count}"


def _part_digest(source: BinaryIO, length: int) -> bytes:
    """The MD5 of the next bytes; empty at the end."""
    digest, left = md5(usedforsecurity=False), length
    while left and (piece := source.read(min(left, _PIECE_BYTES))):
        digest.update(piece)
        left -= len(piece)
    return digest.digest() if left < length else b""


# ---- places --------------------------------------------------------------------------------------


class Destination:
    """The folder that a download fills: it gives each path below the prefix its file.
    `folding`: asks the file system what it ignores in names."""

    def __init__(self, folder: Path, folding: Callable[[Path], Folding] = folding) -> None:
        self._folder = folder
        self._neighbours = paths.Neighbours(
            folding(folder), lambda path: os.path.lexists(folder / path)
        )

    def file(self, relative: str) -> Path:
        """The file of a path.  Raises `Invalid` for a path that no file can have (paths.py), and if
        a symbolic link is in the way."""
        refusal = paths.reason(relative)
        if not refusal and paths.is_own(relative):
            refusal = "belongs to an interrupted download"
        if not refusal and relative.endswith("/"):
            refusal = "is a folder"
        refusal = refusal or self._neighbours.reason(relative)
        if refusal:
            raise Invalid(f"path cannot be a file below {self._folder}: {refusal}")
        return checked(self._folder, relative)


def download(
    source: Object, file: Path, mtime: int, moved: Moved, *, create_only: bool = False
) -> None:
    """Download an object, or continue a part of it; then make it visible.

    Raises what `receive` raises, `AlreadyExists` if the file exists and may not, and `Invalid` if a
    folder has its name, or a file that of its folder."""
    if create_only and os.path.lexists(file):
        raise AlreadyExists(f"file already exists: {file}")
    if file.is_dir():
        raise Invalid(f"a folder is in the way: {file}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Invalid(f"a file is in the way: {file.parent} must be a folder") from error

    def reveal(part: Path) -> None:
        os.utime(part, (mtime, mtime))
        try:
            _rename(part, file, create_only=create_only)
        except IsADirectoryError as error:  # made meanwhile, perhaps by the download beside
            part.unlink(missing_ok=True)
            moved(-source.size)
            raise Invalid(f"a folder is in the way: {file}") from error

    receive(source, _part(file, source.checksum), moved, reveal)


def _rename(part: Path, file: Path, *, create_only: bool) -> None:
    if not create_only:
        os.replace(part, file)
        return
    try:
        os.link(part, file)
    except FileExistsError as error:
        raise AlreadyExists(f"file already exists: {file}") from error
    part.unlink()


def _part(file: Path, checksum: str) -> Path:
    """Where a download is kept until it is whole; its name has at most 221 bytes."""
    name = os.fsencode(file.name)
    is_long = len(name) > _NAME_BYTES_MAX
    shown = md5(name, usedforsecurity=False).hexdigest() if is_long else file.name
    is_word = len(checksum) == _CHECKSUM_LENGTH and checksum.isascii() and checksum.isalnum()
    word = checksum if is_word else md5(checksum.encode(), usedforsecurity=False).hexdigest()
    return file.with_name(f".{shown}.{word}.part")


# ---- bytes ---------------------------------------------------------------------------------------


def receive(source: Object, part: Path, moved: Moved, then: Callable[[Path], object]) -> None:
    """Receive an object into `part`, or what it lacks of it, and call `then` with the whole part,
    which no other process has meanwhile.

    What an earlier call left is kept only if the whole can be verified: by an MD5, or by the usual
    lengths of parts.  If it is not right, all is received anew, once.  Raises `Corrupt` if the
    bytes are not those that the server describes; the part is deleted then."""
    if part.is_symlink():
        part.unlink()
    handle = hold(part, 0o666)
    if handle is None:
        raise Contended(f"another process downloads this object to {part.parent}")
    with handle:
        try:
            is_right = _fill_verified(source, part, handle, moved)
        except BaseException:
            if not _length(handle):  # nothing to continue
                part.unlink(missing_ok=True)
            raise
        if not is_right:
            received = _length(handle)
            part.unlink(missing_ok=True)
            moved(-received)
            raise Corrupt(
                f"wrong content: {received:,} of {source.size:,} bytes, or another checksum"
            )
        then(part)


def _fill_verified(source: Object, part: Path, handle: FileIO, moved: Moved) -> bool:
    """Receive what the part lacks; if that is not right, all.  Returns whether it is right."""
    can_verify = expected_md5(source.checksum) or _part_lengths(source.checksum, source.size)
    if not can_verify or _length(handle) > source.size:
        handle.truncate(0)
    is_kept = _length(handle) > 0
    if _fill(source, part, handle, moved):
        return True
    if not is_kept:
        return False
    moved(-_length(handle))
    handle.truncate(0)
    return _fill(source, part, handle, moved)


def _fill(source: Object, part: Path, handle: FileIO, moved: Moved) -> bool:
    """Receive what the part lacks, unless that cannot be verified.  Returns whether the part is the
    object then."""
    with Digest(source.size) as digest:
        kept = received = _digested(handle, digest)
        moved(kept)
        expected = expected_md5(source.checksum)
        if kept < source.size or not source.size:
            with _opened(source, kept) as answer:
                if not kept and (known := _crc32c(answer, source.checksum)):
                    digest.close()
                    return _by_crc32c(source, part, handle, answer, known, moved)
                expected = expected_md5(source.checksum, answer.headers)
                if not kept or expected or _part_lengths(source.checksum, source.size):
                    received += _received(answer, handle, digest, source.size - kept, moved)
        if not received == _length(handle) == source.size:
            return False
        if expected:
            return digest.hexdigest() == expected
        return not kept or is_same(part, source.checksum, source.size)


def _digested(handle: FileIO, digest: Digest) -> int:
    """How many bytes an interrupted transfer left; they are added to the digest."""
    handle.seek(0)
    count = 0
    while piece := digest.take(handle.readinto):
        count += len(piece)
    return count


def _opened(source: Object, start: int) -> Response:
    answer = source.open(start)
    if start and answer.status != 206:
        answer.close()
        raise Corrupt("the server does not continue a download: delete the part and try again")
    return answer


def _crc32c(answer: Response, checksum: str) -> str:
    """The CRC32C of the object with this checksum, if the answer tells it.  A branch may have
    another object at the path since it was asked for the checksum; its ETag differs."""
    is_asked_for = etag(answer.headers) == checksum
    return crc32c_of(answer.headers) if is_asked_for and crc32c_is_fast() else ""


def _by_crc32c(
    source: Object, part: Path, handle: FileIO, answer: Response, known: str, moved: Moved
) -> bool:
    """Receive a whole object.  If its CRC32C is not the one that the server knows, the checksum of
    the object decides: the CRC32C is kept beside the bytes, so it may be the one that is wrong."""
    digest, count = Crc32c(), 0

    def keep(piece: bytes | memoryview) -> None:
        _write(handle, piece)
        digest.add(piece)

    with Pipeline(keep, source.size) as pieces:
        while count <= source.size and (piece := pieces.take(answer.read_into)):
            count += len(piece)
            moved(len(piece))
    if not count == _length(handle) == source.size:
        return False
    return digest.text() == known or is_same(part, source.checksum, source.size)


def _received(answer: Response, handle: FileIO, digest: Digest, length: int, moved: Moved) -> int:
    """Append the bytes of an answer to the part, which needs `length` more.  Returns how many they
    were; it ends with the piece in which there are too many."""
    count = 0
    while count <= length and (piece := digest.take(answer.read_into)):
        _write(handle, piece)
        count += len(piece)
        moved(len(piece))
    return count


def _write(handle: FileIO, piece: bytes | memoryview) -> None:
    """Write all of a piece; on a full disk the system may write a part of it before it fails."""
    left = memoryview(piece)
    while left:
        left = left[handle.write(left) :]


def _length(handle: FileIO) -> int:
    return os.fstat(handle.fileno()).st_size
