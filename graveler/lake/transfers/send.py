"""Sends the files of a folder to a branch; large ones in parts, by signed URLs.

    begin, or continue by the journal ──► parts, in the threads of the transfer ──► complete
                                            │ each is written to the journal
                                            └ a failure, or Ctrl-C: the journal stays

The branch does not change before an upload is complete.  A journal is valid for 24 hours, and while
the file has the same size, times of modification and of change (ctime), and inode.
"""

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import md5, sha256
from io import FileIO
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Final, NamedTuple

from graveler.core.errors import GravelerError, Invalid, NotFound, Refused, Unavailable
from graveler.lake import objects
from graveler.lake.objects import NOTHING_KNOWN, Part, PartsUpload, Target, Upload
from graveler.lake.session import Session
from graveler.lake.transfers.journal import Journal
from graveler.lake.transfers.paths import Filter, is_own
from graveler.lake.transfers.receive import md5_of
from graveler.lake.transfers.workers import Failure, Split, Tally

_PIECE_BYTES: Final = 1 << 18
_DIRECT_BYTES_MAX: Final = 256 << 10  # one request; by a signed URL it would be three
_LARGE_BYTES_MIN: Final = 64 << 20
_PART_BYTES: Final = tuple(mebibytes << 20 for mebibytes in (16, 32, 64, 128, 256, 512))
_SUFFIXES_KEPT: Final = 1_000
_VALID_NS: Final = 24 * 3_600 * 10**9
_CHANGED: Final = "the file changed while it was uploaded"


# ---- what a folder has ---------------------------------------------------------------------------


class Source(NamedTuple):
    """A file to upload, and its path on the branch."""

    file: Path
    path: str
    size: int


def sources(folder: Path, prefix: str, tally: Tally, choice: Filter) -> Iterator[Source]:
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
        except (Invalid, OSError) as error:
            tally.expect(0)
            tally.failed(f"{folder}/{shown}", error)
            continue
        yield Source(file, prefix + path, status.st_size)


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


# ---- files ---------------------------------------------------------------------------------------


class Sender:
    """Uploads files to a branch.  `journals`: the folder of their journals."""

    def __init__(
        self,
        session: Session,
        repository: str,
        branch: str,
        how: Upload,
        journals: Path,
        *,
        pre_sign: bool,
    ) -> None:
        self._session, self._repository, self._branch = session, repository, branch
        self._how = how
        self._storage = objects.storage(session) if pre_sign else NOTHING_KNOWN
        self._journals = journals
        self._open: list[Journal] = []

    @property
    def waiting(self) -> int:
        """How many large uploads were begun and can be continued."""
        return sum(journal.begun is not None for journal in self._open)

    def send(self, source: Source, tally: Tally) -> Split | None:
        """Upload one file; a large one in parts."""
        how = with_type(self._how, source.path)
        if self._storage.presigns_parts and source.size >= _LARGE_BYTES_MIN:
            return self._split(source, how, tally)
        pieces = tally.pieces(_whole(source))
        where = (self._session, self._repository, self._branch, source.path)
        if self._storage.presigns and source.size > _DIRECT_BYTES_MAX:
            stored = objects.upload_presigned(*where, pieces, how, length=source.size)
        else:
            again = partial(md5_of, source.file) if self._storage.tells_crc32c else None
            stored = objects.upload(*where, pieces, how, length=source.size, again=again)
        if stored.get("size_bytes", source.size) != source.size:
            raise Invalid(_CHANGED)
        tally.ended()
        return None

    def _split(self, source: Source, how: Upload, tally: Tally) -> Split:
        """Begin or continue an upload.  One request, if it begins.  Raises `Contended` if another
        process uploads the file to the same path."""
        target = Target(self._session, self._repository, self._branch, source.path)
        journal = self._journal(target, source.file)
        try:
            split = _LargeUpload(target, source, how, journal, tally).split()
        except BaseException:
            if journal is not None:
                journal.close()
            raise
        self._open += [] if journal is None else [journal]
        return split

    def _journal(self, target: Target, file: Path) -> Journal | None:
        """The journal of a file and an object; none if it cannot be written: then the upload cannot
        be continued.  The lifecycle rule of the bucket deletes the parts of old journals."""
        key = [target.session.url, *target[1:], str(file.absolute())]
        name = sha256(json.dumps(key).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        oldest_ns = target.session.clock.now_ns() - _VALID_NS
        for known in self._journals.glob("*.journal"):
            with suppress(OSError):
                if known.stat().st_mtime_ns < oldest_ns:
                    known.unlink()
        try:
            busy = "another process uploads this file to this path"
            return Journal(self._journals / f"{name}.journal", busy)
        except Unavailable:
            return None


def _whole(source: Source) -> Iterator[bytes]:
    """The bytes of a file in pieces; a small file of the size that is known is one piece."""
    most = min(source.size + 1, _PIECE_BYTES)
    with FileIO(source.file) as file:
        while piece := file.read(most):
            yield piece
            if len(piece) == source.size < most:  # one byte more was asked for: the file ends here
                return


def with_type(how: Upload, path: str) -> Upload:
    """The same, with a media type by the name of the path if none was given."""
    if how.content_type:
        return how
    suffixes = path.rpartition("/")[2].lstrip(".").partition(".")[2]
    return Upload(_type_of(suffixes), how.metadata, how.create_only)


@lru_cache(_SUFFIXES_KEPT)
def _type_of(suffixes: str) -> str:
    """The type of files with these suffixes: a folder has few of them."""
    import mimetypes

    return mimetypes.guess_type(f"file.{suffixes}")[0] or "application/octet-stream"


# ---- large files ---------------------------------------------------------------------------------


class _Version(NamedTuple):
    """What changes when somebody writes a file."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int


class _Begun(NamedTuple):
    """An upload that was begun."""

    version: _Version
    part_bytes: int
    upload: PartsUpload


class _LargeUpload:
    """One upload in parts.  Threads share it."""

    def __init__(
        self, target: Target, source: Source, how: Upload, journal: Journal | None, tally: Tally
    ) -> None:
        self._target, self._file, self._how = target, source.file, how
        self._journal, self._tally = journal, tally
        self._urls: dict[int, str] = {}
        self._tags: dict[int, str] = {}
        self._is_over = False  # no part can be sent any more
        now, old = _version(source.file), _begun(journal)
        self._is_continued = old is not None and old.version == now
        if old is not None and journal is not None and old.version == now:
            self._begun, self._tags = old, dict(journal.done)
            return
        if old is not None:
            with suppress(GravelerError):
                objects.abort_parts(target, old.upload)
        length = _part_bytes(now.size)
        new = objects.begin_parts(target, -(-now.size // length))
        self._urls = dict(enumerate(new.urls, 1))
        self._begun = _Begun(now, length, new.upload)
        if journal is not None:
            with suppress(Unavailable):
                journal.begin(self._begun)

    def split(self) -> Split:
        """The parts that the store does not have."""
        count = -(-self._begun.version.size // self._begun.part_bytes)
        missing = []
        for number in range(1, count + 1):
            if number in self._tags:
                self._tally.moved(self._span(number)[1])
            else:
                missing.append(partial(self._send, number))
        return Split(missing, self._finish)

    def _span(self, number: int) -> tuple[int, int]:
        """Where a part starts, and its length."""
        start = (number - 1) * self._begun.part_bytes
        return start, min(self._begun.part_bytes, self._begun.version.size - start)

    def _send(self, number: int) -> None:
        if self._is_over:
            return
        try:
            tag = self._put(number)
        except GravelerError as error:
            if objects.ends_parts(error):
                self._is_over = True
            raise
        self._tags[number] = tag
        if self._journal is not None:
            with suppress(Unavailable):  # a later call sends it again
                self._journal.add((number, tag))

    def _put(self, number: int) -> str:
        start, length = self._span(number)
        digest = md5(usedforsecurity=False)
        for piece in _content(self._file, start, length):
            digest.update(piece)
        checksum = b64encode(digest.digest()).decode()
        if url := self._urls.pop(number, ""):
            with suppress(Refused):  # the URL has expired
                return self._put_to(url, start, length, checksum)
        url = objects.part_url(self._target, self._begun.upload, number)
        return self._put_to(url, start, length, checksum)

    def _put_to(self, url: str, start: int, length: int, checksum: str) -> str:
        sent = 0

        def counted() -> Iterator[bytes]:
            nonlocal sent
            for piece in self._tally.pieces(_content(self._file, start, length)):
                sent += len(piece)
                yield piece

        try:
            return objects.put_part(self._target.session, url, Part(counted(), length, checksum))
        except BaseException:
            self._tally.moved(-sent)
            raise

    def _finish(self, error: Failure | None) -> None:
        try:
            self._complete(error)
        except GravelerError as failure:
            if not objects.ends_parts(failure):
                raise
            with suppress(GravelerError):
                objects.abort_parts(self._target, self._begun.upload)
            self._forget()
            if self._is_continued and isinstance(failure, NotFound):
                raise Unavailable(
                    "the upload cannot be continued; the same command begins it anew"
                ) from failure
            raise
        finally:
            if self._journal is not None:
                self._journal.close()

    def _complete(self, error: Failure | None) -> None:
        if _version(self._file) != self._begun.version:
            raise Invalid(_CHANGED)
        if error is not None:
            raise error
        stored = objects.complete_parts(self._target, self._begun.upload, self._tags, self._how)
        self._forget()
        size = self._begun.version.size
        if stored.get("size_bytes", size) != size:
            raise Invalid(_CHANGED)
        self._tally.ended()

    def _forget(self) -> None:
        """Nothing is left to continue."""
        if self._journal is not None:
            with suppress(Unavailable):
                self._journal.end()


def _begun(journal: Journal | None) -> _Begun | None:
    if journal is None or journal.begun is None:
        return None
    version, length, upload = journal.begun
    return _Begun(_Version(*version), length, PartsUpload(*upload))


def _version(file: Path) -> _Version:
    status = file.stat()
    return _Version(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def _part_bytes(size: int) -> int:
    """The shortest usual length of parts that is enough for a file."""
    for length in _PART_BYTES:
        if size <= length * objects.PARTS_MAX:
            return length
    raise Invalid("the file is too large for an object")


def _content(file: Path, start: int, length: int) -> Iterator[bytes]:
    """Some bytes of a file in pieces.  Raises `Invalid` if the file ends before."""
    with file.open("rb") as source:
        source.seek(start)
        while length:
            piece = source.read(min(length, _PIECE_BYTES))
            if not piece:
                raise Invalid(_CHANGED)
            length -= len(piece)
            yield piece
