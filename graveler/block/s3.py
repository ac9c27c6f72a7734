"""The S3 driver: objects in S3 buckets, `s3://bucket/key`.  It accesses only the named buckets.

Etags, versions and conditions are those of S3.  A write or read is sent once, except the parts of a
long put or copy.  Buckets should keep versions: an object of the version `null` is deleted by that
version only while the bucket keeps versions.  Cost: one request per verb, except

    copy                  2; more for a long object (s3_uploads.py)
    delete of a version   2, one of them a list; more if it replaced older versions
    long put              one per part, and 2
    empty range           a head
    copy of a part        2; more than 1 GiB is read and written
    deletion of many      see s3_versions.py
"""

import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

from graveler.block import bodies, drivers, s3_uploads, s3_versions
from graveler.block.adapter import (
    ANY_PUT,
    OVERWRITE,
    TO_END,
    WHOLE,
    Beat,
    Body,
    Mode,
    ObjectHead,
    ObjectPage,
    Part,
    PartOf,
    PartPage,
    PresignedUrl,
    PutTerms,
    unwatched,
)
from graveler.block.address import Parts
from graveler.block.bodies import Kept, Spool
from graveler.block.drivers import CreatesOneByOne
from graveler.block.ranged_get import RangedGets, ReadingOptions, region_told
from graveler.block.s3_calls import Places, Regions, S3Calls
from graveler.block.s3_urls import S3Urls
from graveler.block.s3_versions import S3Deletes
from graveler.core import limits
from graveler.core.aws import AwsSession, CallPolicy
from graveler.core.clock import Clock
from graveler.core.errors import NotFound, RangeUnsatisfiable
from graveler.core.requests import RetryPolicy


@dataclass(frozen=True, slots=True)
class S3Options:
    """Timeouts and connections for reads and writes, the retry policy for parts, and the buckets
    that are only read."""

    reading: ReadingOptions = field(default_factory=ReadingOptions)
    writing: CallPolicy = field(default_factory=lambda: CallPolicy(read_seconds=20.0))
    parts: RetryPolicy = field(default_factory=RetryPolicy)
    read_only: tuple[str, ...] = ()


class S3Blocks(CreatesOneByOne, S3Deletes):
    """`Blocks` on S3.  Thread-safe; sends nothing before the first verb."""

    def __init__(
        self,
        session: AwsSession,
        clock: Clock,
        buckets: Collection[str],
        options: S3Options | None = None,
    ) -> None:
        chosen = options or S3Options()
        super().__init__(
            Places(buckets, session.settings.endpoint_url, chosen.read_only),
            S3Calls(session, chosen.writing),
        )
        regions = Regions(session, self._places, region_told)
        self.urls = S3Urls(session, self._places, clock, regions)
        self._reads = RangedGets(self.urls, chosen.reading)
        self._resending = s3_uploads.Resending(clock, chosen.parts)

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        drivers.check_range(start, end)
        canonical = self._places.object(address).address
        if end == start:
            head = self._reads.head(canonical)
            drivers.clip_range(head.size, start, end)
            return Body(head, start, end, iter(()))
        span = "" if (start, end) == (0, TO_END) else f"{start}-{'' if end < 0 else end - 1}"
        try:
            answer = self._reads.get(canonical, span)
        except RangeUnsatisfiable:
            head = self._reads.head(canonical)
            drivers.clip_range(head.size, start, end)  # an empty object can be read from 0
            return Body(head, 0, 0, iter(()))
        return Body(answer.head, answer.start, answer.end, answer.chunks())

    def read(self, address: str, start: int, length: int) -> bytes:
        drivers.check_read(length)
        canonical = self._places.object(address).address
        if length == 0:
            drivers.clip_read(self._reads.head(canonical).size, start, length)
            return b""
        span = f"{start}-{start + length - 1}" if start >= 0 else str(start)
        try:
            answer = self._reads.get(canonical, span)
        except RangeUnsatisfiable:
            drivers.clip_read(self._reads.head(canonical).size, start, length)
            return b""
        return b"".join(answer.chunks())[:length]

    def spool(self, address: str) -> Spool:
        return bodies.spool()

    def head(self, address: str) -> ObjectHead:
        return self._reads.head(self._places.object(address).address)

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        drivers.check_page(limit)
        return s3_versions.page(self._calls, self._places.prefix(prefix), after, limit)

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        target = self._places.written(address)
        return s3_uploads.put(self._calls, target, body, mode, storage_class, self._resending)

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        target, origin = self._places.written(destination), self._places.object(source)
        head = self._reads.head(origin.address)
        return s3_uploads.copy(self._calls, origin, head, target, self._resending, beat=beat)

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        if part == WHOLE:
            return self.urls.presign(address, method, seconds, content_type, terms)
        drivers.check_presigned_part(method, part)
        return self.urls.presign_part(address, part.upload_id, part.number, seconds)

    def create_upload(self, address: str, storage_class: str = "") -> str:
        return s3_uploads.create(self._calls, self._places.written(address), storage_class)

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        drivers.check_part_number(number)
        parts = self._upload(address, upload_id)
        if isinstance(body, Kept | Spool):  # it is in a file already
            return s3_uploads.put_part(self._calls, parts, upload_id, number, body.whole())
        with tempfile.SpooledTemporaryFile(max_size=s3_uploads.PART_LENGTH) as spool:
            for chunk in drivers.measured(body):
                spool.write(chunk)
            spool.seek(0)
            return s3_uploads.put_part(self._calls, parts, upload_id, number, spool)

    def copy_part(self, part: PartOf, address: str, source: str, start: int, end: int) -> Part:
        drivers.check_part_number(part.number)
        target, origin = self._upload(address, part.upload_id), self._places.object(source)
        head = self._reads.head(origin.address)
        drivers.check_part_range(head.size, start, end)
        length = end - start
        if not length or length > limits.copy_in_request_bytes_max:
            body = self.get(source, start, end) if length else Body(head, start, end, iter(()))
            return self.put_part(address, part.upload_id, part.number, body.chunks)
        span = f"bytes={start}-{end - 1}"
        return s3_uploads.copy_part(self._calls, origin, head, target, part, span)

    def list_parts(self, address: str, upload_id: str, after: int, limit: int) -> PartPage:
        drivers.check_part_page(limit)
        target = self._upload(address, upload_id)
        return s3_uploads.list_parts(self._calls, target, upload_id, after, limit)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        drivers.check_parts(parts)
        target = self._upload(address, upload_id)
        written = s3_uploads.complete(self._calls, target, upload_id, parts, OVERWRITE, 0)
        return s3_versions.head(self._calls, target, written.version)

    def abort_upload(self, address: str, upload_id: str) -> None:
        s3_uploads.abort(self._calls, self._upload(address, upload_id), upload_id)

    def _upload(self, address: str, upload_id: str) -> Parts:
        parts = self._places.written(address)
        if not upload_id:
            raise NotFound(f"upload not found: {upload_id=} {address=}")
        return parts


__all__ = ["S3Blocks", "S3Options"]
