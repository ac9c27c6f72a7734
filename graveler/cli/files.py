"""Local files of a transfer: which ones, their contents, and how a download becomes visible.

A download is written to `.NAME.CHECKSUM.part` beside its target and renamed when its size and its
CRC32C or MD5, if one is known, are right.  So the target is always absent, old or whole.  A part
that an interrupted download left is continued, if the object is still the same, and if its checksum
allows to verify what was kept.  One process at a time has a part.  Names from the server never lead
out of the target folder.  For this folder.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from io import FileIO
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import BinaryIO, Final, Literal, NamedTuple

from graveler.cli.filters import EVERYTHING, Filter
from graveler.cli.tally import Tally
from graveler.client import objects
from graveler.client.checksums import (
    Crc32c,
    Digest,
    Pipeline,
    crc32c_is_fast,
    crc32c_of,
    etag,
    expected_md5,
)
from graveler.client.connections import Response
from graveler.client.objects import Stats
from graveler.client.session import Session
from graveler.errors import AlreadyExists, Contended, Corrupt, Invalid
from graveler.local import disk, names
from graveler.local.entries import is_state
from graveler.local.names import Folding
from graveler.records import ABSENT, Absent

_PIECE_BYTES: Final = 1 << 18
_NAME_BYTES_MAX: Final = 180
_CHECKSUM_LENGTH: Final = 32  # of an MD5; other checksums are of several parts
_PART: Final = re.compile(r"\..*\.[0-9a-z]{32}\.part", re.DOTALL)  # of an interrupted download
_PARTS: Final = re.compile(r"[0-9a-f]{32}-[1-9][0-9]{0,4}")
_PART_BYTES: Final = tuple(
    mebibytes << 20 for mebibytes in (5, 8, 10, 16, 32, 64, 100, 128, 256, 512)
)


class Source(NamedTuple):
    """A file to upload, and its path on the branch."""

    file: Path
    path: str
    size: int


def sources(
    folder: Path, prefix: str, tally: Tally, choice: Filter = EVERYTHING
) -> Iterator[Source]:
    """The chosen regular files below a folder, sorted.  What no branch can have is a failed item of
    the tally: a symbolic link, and a name that is no UTF-8."""
    for path in walk(folder):
        file = folder / path
        if not choice.chooses(path):
            continue
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        try:
            status = file.lstat()
            if S_ISLNK(status.st_mode):
                raise Invalid("symbolic links cannot be uploaded")
            if not S_ISREG(status.st_mode):
                continue
            if shown != path:
                raise Invalid("the name is no UTF-8")
            source = Source(file, prefix + path, status.st_size)
        except (Invalid, OSError) as error:
            tally.expect(0)
            tally.failed(f"{folder}/{shown}", error)
            continue
        yield source


def is_own(path: str) -> bool:
    """Whether a path of a folder is ours, or in a folder that is: the state of linked folders, and
    parts of downloads.  No transfer sends or deletes it."""
    return any(is_state(name) or _PART.fullmatch(name) for name in path.split("/"))


def walk(folder: Path) -> Iterator[str]:
    """The paths below a folder, from there, that are not our own.  Links to folders are files.
    Raises `Invalid` if a folder cannot be read."""
    top = str(folder)
    for place, folders, others in os.walk(top, onerror=_raise):
        folders[:] = sorted(name for name in folders if not is_own(name))
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        above = "" if place == top else os.path.relpath(place, top) + "/"
        for name in sorted([*others, *links]):
            if not is_own(name):
                yield above + name


def _raise(error: OSError) -> None:
    raise Invalid(f"folder cannot be read: {error.filename}: {error.strerror}") from error


def content(file: Path, length: int = _PIECE_BYTES) -> Iterator[bytes]:
    """The bytes of a file in pieces.  `length`: the size that it should have; a small file of this
    size is one piece."""
    most = min(length + 1, _PIECE_BYTES)
    with FileIO(file) as source:
        while piece := source.read(most):
            yield piece
            if len(piece) == length < most:  # one byte more was asked for: the file ends here
                return


def is_same(file: Path, size: int, stats: Stats | None) -> bool:
    """Whether a file has the content of an object, by size and MD5.  The checksum of an object that
    was written in parts is known for the usual sizes of parts."""
    if stats is None or stats.get("size_bytes") != size:
        return False
    known = stats["checksum"]
    if whole := expected_md5(known):
        return checksum(file) == whole
    return any(parts_checksum(file, length) == known for length in _part_lengths(known, size))


def is_same_by_time(order: "Download") -> bool:
    """Whether a file has the size and the time that a download of the object gave it, if the
    checksum of the object looks like an MD5 and is none.  One request if size and time agree."""
    stats, status = order.stats, order.file.stat()
    length = stats.get("size_bytes", 0)
    is_alike = status.st_size == length > 0 and int(status.st_mtime) == stats["mtime"]
    if not (is_alike and expected_md5(stats["checksum"])):
        return False
    where = (order.session, order.repository, order.ref, stats["path"])
    with objects.open_object(*where, end=0, presign=order.presign) as answer:
        if answer.status == 206:
            answer.read()  # so the connection can be used again
        return not expected_md5(stats["checksum"], answer.headers)


def _part_lengths(known: str, size: int) -> list[int]:
    """The usual lengths of parts that an object of this checksum and size can have; none if the
    checksum is not of parts."""
    if not (_PARTS.fullmatch(known) and size):
        return []
    count = int(known.rpartition("-")[2])
    return [length for length in _PART_BYTES if -(-size // length) == count]


def checksum(file: Path) -> str:
    """The MD5 of a file."""
    with Digest(file.stat().st_size) as digest, FileIO(file) as source:
        while digest.take(source.readinto):
            pass
        return digest.hexdigest()


def parts_checksum(file: Path, length: int) -> str:
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


class Destination:
    """The folder that a download fills: it gives each path below the prefix its file.
    `folding`: asks the file system what it ignores in names."""

    def __init__(self, folder: Path, folding: Callable[[Path], Folding] = disk.folding) -> None:
        self._folder = folder
        self._folding = folding(folder)
        self._spelling: dict[str, str] = {}
        self._repositories = names.Repositories(lambda path: os.path.lexists(folder / path))

    def file(self, relative: str) -> Path:
        """The file of a path.  Raises `Invalid` for a path that no file can have (names.py), and if
        a symbolic link is in the way."""
        refusal = names.reason(relative)
        if not refusal and (relative.endswith("/") or is_own(relative)):
            refusal = "belongs to an interrupted download" if is_own(relative) else "is a folder"
        refusal = refusal or self._clash(relative) or self._repositories.reason(relative)
        if refusal:
            raise Invalid(f"path cannot be a file below {self._folder}: {refusal}")
        parts, file = relative.split("/"), self._folder
        for part in parts[:-1]:
            file = file / part
            if file.is_symlink():
                raise Invalid(f"a symbolic link is in the way: {file}")
        return file / parts[-1]

    def _clash(self, relative: str) -> str:
        """Why a path is one file with an earlier one, or its folder is; empty if none is.  Nothing
        is kept where names are as they are written."""
        place = relative if any(self._folding) else ""
        while place:
            first = self._spelling.setdefault(self._folding.key(place), place)
            if first != place:
                return names.clash(place, first)
            place = place.rpartition("/")[0]
        return ""


class Download(NamedTuple):
    """An object to download to a file.  `ref` is a commit, or the ref as it was written."""

    session: Session
    repository: str
    ref: str
    stats: Stats
    file: Path
    presign: bool
    create_only: bool = False


def download(order: Download, tally: Tally) -> None:
    """Download an object, or continue a part of it; then make it visible.

    Raises `Corrupt` if the bytes are not those that the server describes; the part is deleted.
    Raises `AlreadyExists` if the file exists and may not, and `Invalid` if a folder has its name,
    or a file that of its folder."""
    stats, file = order.stats, order.file
    if order.create_only and os.path.lexists(file):
        raise AlreadyExists(f"file already exists: {file}")
    if file.is_dir():
        raise Invalid(f"a folder is in the way: {file}")
    length = stats.get("size_bytes", 0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Invalid(f"a file is in the way: {file.parent} must be a folder") from error
    part = _part(file, stats["checksum"])
    with _held(part) as handle:
        try:
            received, is_right = _fill_verified(order, part, handle, length, tally)
        except BaseException:
            if not os.fstat(handle.fileno()).st_size:  # nothing to continue
                part.unlink(missing_ok=True)
            raise
        if not is_right:
            part.unlink(missing_ok=True)
            tally.moved(-received.length)
            raise Corrupt(
                f"wrong content: {received.length:,} of {length:,} bytes, or another checksum"
            )
        os.utime(part, (stats["mtime"], stats["mtime"]))
        try:
            _reveal(part, file, create_only=order.create_only)
        except IsADirectoryError as error:  # made meanwhile, perhaps by the download beside
            part.unlink(missing_ok=True)
            tally.moved(-received.length)
            raise Invalid(f"a folder is in the way: {file}") from error


def _reveal(part: Path, file: Path, *, create_only: bool) -> None:
    """Give a whole part its name."""
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


@contextmanager
def _held(part: Path) -> Iterator[FileIO]:
    """The part, open to read and append; no other process has it.  Raises `Contended`."""
    if part.is_symlink():
        part.unlink()
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with FileIO(os.open(part, flags, 0o666), "a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one who had it may have renamed it meanwhile.
            is_ours = os.path.samestat(os.fstat(handle.fileno()), part.lstat())
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            raise Contended(f"another process downloads this object to {part.parent}")
        yield handle


class _Receipt(NamedTuple):
    """The number of a part's bytes, and whether they have the checksum that is known; ABSENT: none
    is."""

    length: int
    has_checksum: bool | Literal[Absent.ABSENT]


def _fill_verified(
    order: Download, part: Path, handle: FileIO, length: int, tally: Tally
) -> tuple[_Receipt, bool]:
    """Receive what the part lacks; return what it has now, and whether that is right.

    What an earlier call left is kept only if the whole can be verified: by an MD5, or by the usual
    lengths of parts.  If it is not right, all is received anew, once."""

    def is_right(received: _Receipt, *, was_kept: bool) -> bool:
        if not received.length == os.fstat(handle.fileno()).st_size == length:
            return False
        if received.has_checksum is not ABSENT:
            return received.has_checksum
        return not was_kept or is_same(part, length, order.stats)

    checksum = order.stats["checksum"]
    if not (expected_md5(checksum) or _part_lengths(checksum, length)):
        handle.truncate(0)
    is_kept = 0 < os.fstat(handle.fileno()).st_size <= length
    received = _fill(order, part, handle, length, tally)
    is_whole = is_right(received, was_kept=is_kept)
    if is_whole or not is_kept:
        return received, is_whole
    tally.moved(-received.length)
    handle.truncate(0)
    received = _fill(order, part, handle, length, tally)
    return received, is_right(received, was_kept=False)


def _fill(order: Download, part: Path, handle: FileIO, length: int, tally: Tally) -> _Receipt:
    """Receive what the part lacks, unless that cannot be verified."""
    with Digest(length) as digest:
        start = _kept(handle, digest, length)
        tally.moved(start)
        expected = expected_md5(order.stats["checksum"])
        if start < length or not length:
            with _opened(order, start) as answer:
                if not start and (known := _crc32c(answer, order.stats["checksum"])):
                    digest.close()
                    return _by_crc32c(order, part, handle, answer, known, tally)
                expected = expected_md5(order.stats["checksum"], answer.headers)
                if not start or expected or _part_lengths(order.stats["checksum"], length):
                    start += _received(answer, handle, digest, length - start, tally)
        is_right = digest.hexdigest() == expected if expected else ABSENT
        return _Receipt(start, is_right)


def _kept(handle: FileIO, digest: Digest, length: int) -> int:
    """How many bytes an interrupted download left; they are added to the digest."""
    if os.fstat(handle.fileno()).st_size > length:
        handle.truncate(0)
    handle.seek(0)
    count = 0
    while piece := digest.take(handle.readinto):
        count += len(piece)
    return count


def _opened(order: Download, start: int) -> Response:
    """The bytes of the object from `start` on."""
    where = (order.session, order.repository, order.ref, order.stats["path"])
    answer = objects.open_object(*where, start=start, presign=order.presign)
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
    order: Download, part: Path, handle: FileIO, answer: Response, known: str, tally: Tally
) -> _Receipt:
    """Receive a whole object.  If its CRC32C is not the one that the server knows, the checksum of
    the object decides: the CRC32C is kept beside the bytes, so it may be the one that is wrong."""
    length, digest, count = order.stats.get("size_bytes", 0), Crc32c(), 0

    def keep(piece: bytes | memoryview) -> None:
        _write(handle, piece)
        digest.add(piece)

    with Pipeline(keep, length) as pieces:
        while count <= length and (piece := pieces.take(answer.read_into)):
            count += len(piece)
            tally.moved(len(piece))
    is_right = digest.text() == known or is_same(part, length, order.stats)
    return _Receipt(count, is_right)


def _received(answer: Response, handle: FileIO, digest: Digest, length: int, tally: Tally) -> int:
    """Append the bytes of an answer to the part, which needs `length` more.  Returns how many they
    were; it ends with the piece in which there are too many."""
    count = 0
    while count <= length and (piece := digest.take(answer.read_into)):
        _write(handle, piece)
        count += len(piece)
        tally.moved(len(piece))
    return count


def _write(handle: FileIO, piece: bytes | memoryview) -> None:
    """Write all of a piece; on a full disk the system may write a part of it before it fails."""
    left = memoryview(piece)
    while left:
        left = left[handle.write(left) :]
