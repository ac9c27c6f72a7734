"""Objects in S3 buckets: `s3://bucket/key`.

Only buckets that are named may be touched, and some of them only read.  They keep versions: a
version is what S3 calls so.  What was stored while a bucket kept none has the version `null`; it is
deleted by that only while the bucket does keep versions, for then no later put is it (`Unsupported`
otherwise: garbage collection needs it).  Etags and conditions are S3's own.  Times
are in whole seconds; a put answers with the time of its answer, which may be seconds behind the
object's own.

Reads (`get`, `read`, `head`) are signed URLs over a pool of connections (ranged_get.py) and load no
S3 client; the first write or list makes one.  Of what anybody can see nothing is ever sent twice
from here: assembly puts `RetryingBlocks` around it.  The parts of a long put are, for they are one
object only once all are there.

Requests: one for each verb, but a copy (2), the deletion of a version (2, a list among them), a
long put (one for each part and two more), a range without bytes (a head), a deletion of many
(s3_deletes.py).
"""

import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

from graveler.aws import AwsSession, CallPolicy
from graveler.block import bounds, s3_uploads, s3_versions
from graveler.block.adapter import (
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
    Presigned,
    unwatched,
)
from graveler.block.address import Parts
from graveler.block.ranged_get import RangedGets, ReadingOptions, region_told
from graveler.block.s3_calls import S3Calls
from graveler.block.s3_deletes import S3Deletes
from graveler.block.s3_places import Places
from graveler.block.s3_regions import Regions
from graveler.block.s3_urls import S3Urls
from graveler.clock import Clock
from graveler.errors import NotFound, RangeUnsatisfiable
from graveler.requests import RetryPolicy


@dataclass(frozen=True, slots=True)
class S3Options:
    """How long to wait for S3, how many connections to keep, how often to send a part, and which
    of the buckets are only read."""

    reading: ReadingOptions = field(default_factory=ReadingOptions)
    writing: CallPolicy = field(default_factory=lambda: CallPolicy(read_seconds=20.0))
    parts: RetryPolicy = field(default_factory=RetryPolicy)
    read_only: tuple[str, ...] = ()


class S3Blocks(S3Deletes):
    """`Blocks`.  Thread-safe; sends nothing before the first verb."""

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
        bounds.check_range(start, end)
        canonical = self._places.object(address).address
        if end == start:
            head = self._reads.head(canonical)
            bounds.clip_range(head.size, start, end)
            return Body(head, start, end, iter(()))
        span = "" if (start, end) == (0, TO_END) else f"{start}-{'' if end < 0 else end - 1}"
        try:
            answer = self._reads.get(canonical, span)
        except RangeUnsatisfiable:
            head = self._reads.head(canonical)
            bounds.clip_range(head.size, start, end)  # an empty object can be read from 0
            return Body(head, 0, 0, iter(()))
        return Body(answer.head, answer.start, answer.end, answer.chunks())

    def read(self, address: str, start: int, length: int) -> bytes:
        bounds.check_read(length)
        canonical = self._places.object(address).address
        if length == 0:
            bounds.clip_read(self._reads.head(canonical).size, start, length)
            return b""
        span = f"{start}-{start + length - 1}" if start >= 0 else str(start)
        try:
            answer = self._reads.get(canonical, span)
        except RangeUnsatisfiable:
            bounds.clip_read(self._reads.head(canonical).size, start, length)
            return b""
        return b"".join(answer.chunks())[:length]

    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        target = self._places.written(address)
        return s3_uploads.put(self._calls, target, body, mode, storage_class, self._resending)

    def head(self, address: str) -> ObjectHead:
        return self._reads.head(self._places.object(address).address)

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        bounds.check_page(limit)
        return s3_versions.page(self._calls, self._places.prefix(prefix), after, limit)

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        target, origin = self._places.written(destination), self._places.object(source)
        found = self._reads.head(origin.address)
        return s3_uploads.copy(self._calls, origin, found, target, self._resending, beat=beat)

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        part: PartOf = WHOLE,
        *,
        only_create: bool = False,
    ) -> Presigned:
        if part == WHOLE:
            return self.urls.presign(
                address, method, seconds, content_type, only_create=only_create
            )
        bounds.check_presigned_part(method, part)
        return self.urls.presign_part(address, part.upload_id, part.number, seconds)

    def create_upload(self, address: str) -> str:
        return s3_uploads.create(self._calls, self._places.written(address), "")

    def put_part(self, address: str, upload_id: str, number: int, body: Iterable[bytes]) -> Part:
        bounds.check_part_number(number)
        parts = self._upload(address, upload_id)
        with tempfile.SpooledTemporaryFile(max_size=s3_uploads.PART_LENGTH) as spool:
            for chunk in bounds.measured(body):
                spool.write(chunk)
            spool.seek(0)
            return s3_uploads.put_part(self._calls, parts, upload_id, number, spool)

    def complete_upload(self, address: str, upload_id: str, parts: tuple[Part, ...]) -> ObjectHead:
        bounds.check_parts(parts)
        target = self._upload(address, upload_id)
        made = s3_uploads.complete(self._calls, target, upload_id, parts, OVERWRITE, 0)
        return s3_versions.head(self._calls, target, made.version)

    def abort_upload(self, address: str, upload_id: str) -> None:
        s3_uploads.abort(self._calls, self._upload(address, upload_id), upload_id)

    def _upload(self, address: str, upload_id: str) -> Parts:
        parts = self._places.written(address)
        if not upload_id:
            raise NotFound(f"upload is not known: {upload_id=} {address=}")
        return parts


__all__ = ["S3Blocks", "S3Options"]
