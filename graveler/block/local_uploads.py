"""Multipart uploads on the local store: each part is a file until all parts are joined.

    %uploads/<id>/address    the target address of the upload
    %uploads/<id>/<number>   a part: its bytes, then their MD5 (16 bytes), which is its etag in hex

One call at a time joins an upload.  After a crash right after the join the parts still exist, and
the join can be repeated.  Unfinished uploads go after `limits.stale_upload_seconds`.
"""

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from graveler.block import drivers
from graveler.block.adapter import OVERWRITE, ObjectHead, Part, PartPage, StoredPart
from graveler.block.bodies import MeasuredBody, Spool
from graveler.block.file_reads import Chunks
from graveler.block.files import Files
from graveler.block.layout import UPLOADS, FilePath
from graveler.core import limits
from graveler.core.clock import Clock, Ids
from graveler.core.errors import Corrupt, GravelerError, Invalid, NotFound

_ID = re.compile(r"[0-9a-v]{20}", re.ASCII)
_DIGEST_LENGTH: Final = 16
_DAY_NS: Final = 24 * 3600 * limits.SECOND_NS


class LocalUploads:
    """`Multipart` for addresses that the driver has checked and made canonical."""

    def __init__(self, files: Files, ids: Ids, clock: Clock) -> None:
        self._files = files
        self._ids = ids
        self._clock = clock
        self._look_ns = 0  # when to look for stale uploads again
        self._joining: set[str] = set()  # the uploads that calls join now
        self._changed = threading.Condition()

    def create(self, address: str) -> str:
        """See `Multipart.create_upload`."""
        if self._clock.now_ns() >= self._look_ns:
            self._look_ns = self._clock.now_ns() + _DAY_NS
            with suppress(GravelerError, OSError):  # the next look may find them
                self._discard_stale(address)
        upload_id = self._ids.unique(20)
        self._files.write(_place(upload_id, "address"), [address.encode()], OVERWRITE, address)
        return upload_id

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        """See `Multipart.put_part`."""
        drivers.check_part_number(number)
        self._check(address, upload_id)
        place = _place(upload_id, str(number))
        if isinstance(body, Spool):
            measured: MeasuredBody | Spool = body
            self._files.write(place, body, OVERWRITE, address, tail=bytes.fromhex(body.checksum))
        else:
            measured = MeasuredBody(drivers.measured(body))
            self._files.write(place, _with_digest(measured), OVERWRITE, address)
        try:
            self._check(address, upload_id)
        except NotFound:  # it was joined or discarded meanwhile, and the part has made a new folder
            self._forget(address, upload_id)
            raise
        return Part(number, measured.checksum)

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        """See `Multipart.list_parts`."""
        self._check(address, upload_id)
        with suppress(FileNotFoundError), os.scandir(self._folder(upload_id)) as entries:
            names = [entry.name for entry in entries if entry.name.isdecimal()]
            numbers = sorted(number for number in map(int, names) if number > after)
            lines = [self._part(address, upload_id, number) for number in numbers[:limit]]
            return PartPage(tuple(lines), len(numbers) > limit)
        raise NotFound(f"upload not found: {upload_id=} {address=}")

    def complete(
        self, address: str, place: FilePath, upload_id: str, parts: tuple[Part, ...]
    ) -> ObjectHead:
        """See `Multipart.complete_upload`."""
        drivers.check_parts(parts)
        with self._alone(upload_id):
            self._check(address, upload_id)
            for part in parts:
                self._check_part(address, upload_id, part)
            head = self._files.join(place, self._opened(address, upload_id, parts), address)
            with suppress(GravelerError):  # the object is stored
                self._forget(address, upload_id)
            return head

    @contextmanager
    def _alone(self, upload_id: str) -> Iterator[None]:
        """Wait until no other call joins this upload: one that ended late would put other parts
        over an object that was answered."""
        with self._changed:
            while upload_id in self._joining:
                self._changed.wait()
            self._joining.add(upload_id)
        try:
            yield
        finally:
            with self._changed:
                self._joining.discard(upload_id)
                self._changed.notify_all()

    def abort(self, address: str, upload_id: str) -> None:
        """See `Multipart.abort_upload`."""
        self._check(address, upload_id)
        self._forget(address, upload_id)

    def _discard_stale(self, address: str) -> None:
        """Discard the uploads in which nothing was written for a long time."""
        before_ns = self._clock.now_ns() - limits.stale_upload_seconds * limits.SECOND_NS
        with suppress(FileNotFoundError), os.scandir(self._folder("")) as entries:
            names = [entry.name for entry in entries if _ID.fullmatch(entry.name)]
            for name in names:
                if _newest_ns(self._folder(name)) < before_ns:
                    self._forget(address, name)

    def _opened(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> Iterator[Chunks]:
        """The bytes of each part, open until the next one is asked for."""
        for part in parts:
            chunks = self._files.reads.open(_place(upload_id, str(part.number)), address)
            with closing(chunks):
                chunks.end = chunks.head().size - _DIGEST_LENGTH
                # Another call may have replaced the part since it was checked.
                if _digest(chunks) != part.etag:
                    raise Invalid(f"part was not uploaded with this etag: number={part.number}")
                yield chunks

    def _check_part(self, address: str, upload_id: str, part: Part) -> None:
        try:
            stored = self._part(address, upload_id, part.number)
        except NotFound as error:
            self._check(address, upload_id)  # it may have been joined or discarded meanwhile
            raise Invalid(f"part was not uploaded: number={part.number}") from error
        if stored.etag != part.etag:
            raise Invalid(f"part was not uploaded with this etag: number={part.number}")

    def _part(self, address: str, upload_id: str, number: int) -> StoredPart:
        with closing(self._files.reads.open(_place(upload_id, str(number)), address)) as chunks:
            head = chunks.head()
            size = head.size - _DIGEST_LENGTH
            return StoredPart(number, _digest(chunks), size, head.modified_ns)

    def _check(self, address: str, upload_id: str) -> None:
        """Raises `NotFound` for an unknown upload id, or one of another address."""
        known = _ID.fullmatch(upload_id) is not None
        try:
            stored = b"".join(self._stored(_place(upload_id, "address"), address)) if known else b""
        except NotFound:
            stored = b""
        if stored != address.encode():
            raise NotFound(f"upload not found: {upload_id=} {address=}")

    def _stored(self, place: FilePath, address: str) -> Iterator[bytes]:
        chunks = self._files.reads.open(place, address)
        chunks.end = chunks.head().size
        yield from chunks

    def _forget(self, address: str, upload_id: str) -> None:
        self._files.discard((UPLOADS, upload_id), address)

    def _folder(self, upload_id: str) -> str:
        return os.path.join(self._files.root, UPLOADS, upload_id)


def _newest_ns(folder: str) -> int:
    """When the newest file of a folder was written; for an empty folder, when it changed."""
    try:
        with os.scandir(folder) as entries:
            times = [entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries]
        return max(times) if times else os.stat(folder).st_mtime_ns
    except FileNotFoundError:  # it is being discarded
        return sys.maxsize


def _with_digest(body: MeasuredBody) -> Iterator[bytes]:
    yield from body
    yield bytes.fromhex(body.checksum)


def _digest(chunks: Chunks) -> str:
    """The MD5 at the end of an open part; the position of `chunks` stays."""
    size = chunks.head().size
    if size < _DIGEST_LENGTH:
        raise Corrupt(f"part of an upload is too short: {size=}")
    begun = chunks.at, chunks.end
    chunks.at, chunks.end = size - _DIGEST_LENGTH, size
    digest = next(chunks).hex()
    chunks.at, chunks.end = begun
    return digest


def _place(upload_id: str, name: str) -> FilePath:
    return FilePath((UPLOADS, upload_id), name)
