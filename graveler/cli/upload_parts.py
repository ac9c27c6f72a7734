"""Uploads large files in parts, which go to the object store by signed URLs.

    begin, or continue by the journal ──► parts, in the threads of the transfer ──► complete
                                            │ each is written to the journal
                                            └ a failure, or Ctrl-C: the journal stays

The branch does not change before the upload is complete.  If the upload cannot continue, the
store is asked to delete its parts.  For this folder.
"""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Final

from graveler.cli.address import Address
from graveler.cli.files import Source
from graveler.cli.tally import Tally
from graveler.cli.transfer_tasks import Split
from graveler.cli.upload_journal import Journal, Key, UploadStart, version
from graveler.client import objects
from graveler.client.objects import Part, PartsUpload, Target, Upload
from graveler.client.session import Session
from graveler.errors import GravelerError, Invalid, NotFound, Refused, Unavailable

LARGE_BYTES_MIN: Final = 64 << 20
_PART_BYTES: Final = tuple(mebibytes << 20 for mebibytes in (16, 32, 64, 128, 256, 512))
_PIECE_BYTES: Final = 1 << 18
_CHANGED: Final = "the file changed while it was uploaded"


class LargeUploads:
    """The uploads in parts of one call.  `folder`: of the journals."""

    def __init__(self, session: Session, place: Address, folder: Path) -> None:
        self._session, self._place, self._folder = session, place, folder
        self._journals: list[Journal] = []

    @property
    def waiting(self) -> int:
        """How many uploads were begun and can be continued."""
        return sum(journal.is_waiting for journal in self._journals)

    def split(self, source: Source, how: Upload, tally: Tally) -> Split:
        """Begin or continue an upload.  One request, if it begins.

        Raises `Contended` if another process uploads the file to the same path."""
        session, place = self._session, self._place
        target = Target(session, place.repository, place.ref, source.path)
        file = str(source.file.absolute())
        key = Key(session.url, place.repository, place.ref, source.path, file)
        journal = Journal(self._folder, key, session.clock.now_ns())
        try:
            split = _LargeUpload(target, source, how, journal, tally).split()
        except BaseException:
            if journal.begun is None:
                journal.remove()
            journal.close()
            raise
        self._journals.append(journal)
        return split


class _LargeUpload:
    """One upload.  Threads share it."""

    def __init__(
        self, target: Target, source: Source, how: Upload, journal: Journal, tally: Tally
    ) -> None:
        self._target, self._file, self._how = target, source.file, how
        self._journal, self._tally = journal, tally
        now, old = version(source.file), journal.begun
        self._urls: dict[int, str] = {}
        self._is_continued = old is not None and old.version == now
        self._is_over = False  # no part can be sent any more
        if old is not None and old.version == now:
            self._begun = old
        else:
            if old is not None:
                with suppress(GravelerError):
                    objects.abort_parts(target, PartsUpload(old.upload_id, old.physical_address))
            length = _part_bytes(now.size)
            new = objects.begin_parts(target, -(-now.size // length))
            self._urls = dict(enumerate(new.urls, 1))
            self._begun = UploadStart(now, length, new.upload.id, new.upload.physical_address)
            journal.begin(self._begun)
        self._upload = PartsUpload(self._begun.upload_id, self._begun.physical_address)

    def split(self) -> Split:
        """The parts that the store does not have."""
        count = -(-self._begun.version.size // self._begun.part_bytes)
        missing = []
        for number in range(1, count + 1):
            if number in self._journal.tags:
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
        self._journal.add(number, tag)

    def _put(self, number: int) -> str:
        start, length = self._span(number)
        digest = md5(usedforsecurity=False)
        for piece in _content(self._file, start, length):
            digest.update(piece)
        checksum = b64encode(digest.digest()).decode()
        if url := self._urls.pop(number, ""):
            with suppress(Refused):  # the URL has expired
                return self._put_to(url, start, length, checksum)
        url = objects.part_url(self._target, self._upload, number)
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

    def _finish(self, error: GravelerError | OSError | None) -> None:
        try:
            self._complete(error)
        except GravelerError as failure:
            if not objects.ends_parts(failure):
                raise
            with suppress(GravelerError):
                objects.abort_parts(self._target, self._upload)
            self._journal.remove()
            if self._is_continued and isinstance(failure, NotFound):
                raise Unavailable(
                    "the upload cannot be continued; the same command begins it anew"
                ) from failure
            raise
        finally:
            self._journal.close()

    def _complete(self, error: GravelerError | OSError | None) -> None:
        if version(self._file) != self._begun.version:
            raise Invalid(_CHANGED)
        if error is not None:
            raise error
        stored = objects.complete_parts(self._target, self._upload, self._journal.tags, self._how)
        self._journal.remove()
        size = self._begun.version.size
        if stored.get("size_bytes", size) != size:
            raise Invalid(_CHANGED)
        self._tally.ended()


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
