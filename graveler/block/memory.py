"""The memory driver: the reference for the behaviour of every other driver.

An object's version is a number that is never used again, or `null` while versions are not kept
(`keeps_versions`), as in S3.  A body is read completely before the lock is taken.
"""

import hashlib
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from graveler.block import bodies, drivers
from graveler.block.adapter import (
    ANY_PUT,
    ANY_VERSION,
    CREATE,
    OVERWRITE,
    TO_END,
    UNVERSIONED,
    WHOLE,
    Beat,
    Body,
    ListedObject,
    Mode,
    ObjectHead,
    ObjectPage,
    Part,
    PartOf,
    PartPage,
    PresignedUrl,
    PutTerms,
    StoredPart,
    Update,
    unwatched,
)
from graveler.block.address import split, split_prefix
from graveler.block.bodies import Spool
from graveler.block.drivers import CreatesOneByOne, OneByOne
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import AlreadyExists, Invalid, NotFound, PreconditionFailed, Unsupported


class _StoredObject(NamedTuple):
    content: bytes
    head: ObjectHead


class _Upload(NamedTuple):
    address: str
    storage_class: str
    parts: dict[int, tuple[StoredPart, bytes]]


class MemoryBlocks(CreatesOneByOne, OneByOne):
    """`Blocks` in memory, for the addresses of one scheme."""

    def __init__(self, clock: Clock, scheme: str = "mem") -> None:
        self._clock = clock
        self._scheme = scheme
        self._lock = threading.Lock()
        self._objects: dict[str, _StoredObject] = {}
        self._addresses: list[str] = []  # the keys of _objects, sorted
        self._uploads: dict[str, _Upload] = {}
        self._serial = 0

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        drivers.check_range(start, end)
        stored = self._stored(self._canonical(address))
        begin, stop = drivers.clip_range(stored.head.size, start, end)
        return Body(stored.head, begin, stop, _chunks(stored.content, begin, stop))

    def read(self, address: str, start: int, length: int) -> bytes:
        drivers.check_read(length)
        stored = self._stored(self._canonical(address))
        begin, stop = drivers.clip_read(stored.head.size, start, length)
        return stored.content[begin:stop]

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        canonical = self._canonical(address)
        return self._store(canonical, b"".join(drivers.measured(body)), mode, storage_class)

    def spool(self, address: str) -> Spool:
        return bodies.spool()

    def head(self, address: str) -> ObjectHead:
        return self._stored(self._canonical(address)).head

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        drivers.check_page(limit)
        parts = split_prefix(prefix)
        self._check_scheme(parts.scheme, prefix)
        stem = parts.address
        with self._lock:
            low = max(bisect_left(self._addresses, stem), bisect_right(self._addresses, after))
            addresses = [a for a in self._addresses[low : low + limit + 1] if a.startswith(stem)]
            lines = tuple(ListedObject(a, self._listed(a)) for a in addresses[:limit])
        return ObjectPage(lines, len(addresses) > limit)

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        canonical = self._canonical(address)
        if version == UNVERSIONED:
            self.check_versions(address)
        with self._lock:
            stored = self._objects.get(canonical)
            if stored is None or version not in (ANY_VERSION, stored.head.version):
                return
            del self._objects[canonical]
            self._addresses.pop(bisect_left(self._addresses, canonical))

    def _canonical(self, address: str) -> str:
        parts = split(address)
        self._check_scheme(parts.scheme, address)
        if not parts.bucket:
            raise Invalid(f"address has no bucket: {address=}")
        return parts.address

    def _check_scheme(self, scheme: str, address: str) -> None:
        if scheme != self._scheme:
            raise Invalid(
                f"address has a scheme that this store does not serve: {address=} "
                f"scheme={self._scheme}"
            )

    def _listed(self, canonical: str) -> ObjectHead:
        return self._objects[canonical].head._replace(storage_class="")

    def _stored(self, canonical: str) -> _StoredObject:
        stored = self._objects.get(canonical)
        if stored is None:
            raise NotFound(f"object not found: address={canonical}")
        return stored

    def _store(
        self, canonical: str, content: bytes, mode: Mode, storage_class: str = ""
    ) -> ObjectHead:
        etag = _md5(content)
        with self._lock:
            present = self._objects.get(canonical)
            if mode is CREATE and present is not None:
                raise AlreadyExists(f"object already exists: address={canonical}")
            if isinstance(mode, Update) and (present is None or present.head.etag != mode.etag):
                raise PreconditionFailed(f"object has another etag: address={canonical}")
            self._serial += 1
            version = str(self._serial) if self.keeps_versions else UNVERSIONED
            now_ns = self._clock.now_ns()
            head = ObjectHead(len(content), etag, now_ns, version, storage_class)
            if present is None:
                insort(self._addresses, canonical)
            self._objects[canonical] = _StoredObject(content, head)
        return head

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        beat()
        target = self._canonical(destination)
        return self._store(target, self._stored(self._canonical(source)).content, OVERWRITE)

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        """A URL for a part, which names the upload and part number.  No server answers it.  Whole
        objects have no URL: `Unsupported`."""
        canonical = self._canonical(address)
        if part == WHOLE:
            raise Unsupported(f"the memory store cannot presign: {address=}")
        drivers.check_presigned_part(method, part)
        if not 1 <= seconds <= limits.presign_seconds_max:
            raise Invalid(
                f"presigned seconds must be 1 to {limits.presign_seconds_max}: {seconds=}"
            )
        query = urlencode({"uploadId": part.upload_id, "partNumber": part.number})
        expires_ns = self._clock.now_ns() + seconds * limits.SECOND_NS
        return PresignedUrl(f"{canonical}?{query}", expires_ns)

    def create_upload(self, address: str, storage_class: str = "") -> str:
        canonical = self._canonical(address)
        with self._lock:
            self._serial += 1
            upload_id = f"upload-{self._serial}"
            self._uploads[upload_id] = _Upload(canonical, storage_class, {})
        return upload_id

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        canonical = self._canonical(address)
        drivers.check_part_number(number)
        self._upload(canonical, upload_id)
        content = b"".join(drivers.measured(body))
        part = StoredPart(number, _md5(content), len(content), self._clock.now_ns())
        self._upload(canonical, upload_id).parts[number] = (part, content)
        return Part(number, part.etag)

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        stored = self._stored(self._canonical(source))
        drivers.check_part_range(stored.head.size, start, end)
        return self.put_part(address, part.upload_id, part.number, [stored.content[start:end]])

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        drivers.check_part_page(limit)
        stored = self._upload(self._canonical(address), upload_id).parts
        numbers = sorted(number for number in list(stored) if number > after)
        lines = tuple(stored[number][0] for number in numbers[:limit])
        return PartPage(lines, len(numbers) > limit)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        canonical = self._canonical(address)
        drivers.check_parts(parts)
        upload = self._upload(canonical, upload_id)
        for part in parts:
            stored = upload.parts.get(part.number)
            if stored is None or stored[0].etag != part.etag:
                raise Invalid(f"part was not uploaded with this etag: number={part.number}")
        content = b"".join(upload.parts[part.number][1] for part in parts)
        self.abort_upload(canonical, upload_id)
        return self._store(canonical, content, OVERWRITE, upload.storage_class)

    def abort_upload(self, address: str, upload_id: str) -> None:
        canonical = self._canonical(address)
        self._upload(canonical, upload_id)
        with self._lock:
            if self._uploads.pop(upload_id, None) is None:
                raise NotFound(f"upload not found: {upload_id=}")

    def _upload(self, canonical: str, upload_id: str) -> _Upload:
        upload = self._uploads.get(upload_id)
        if upload is None or upload.address != canonical:
            raise NotFound(f"upload not found: {upload_id=} address={canonical}")
        return upload


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _chunks(content: bytes, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, limits.chunk_length_bytes):
        yield content[at : min(end, at + limits.chunk_length_bytes)]
