"""Signs S3 URLs: for clients, and for the driver's own reads.

A URL for reading an object is signed once and used until shortly before it expires.  So all reads
of a file need one signature and one look-up of the credentials.  A URL signed with temporary
credentials expires with them at the latest.
"""

import threading
from typing import Literal

from graveler import limits
from graveler.aws import AwsSession
from graveler.block import bounds
from graveler.block.adapter import ANY_PUT, PresignedUrl, PutTerms
from graveler.block.address import Parts
from graveler.block.s3_places import Places
from graveler.block.s3_regions import Regions
from graveler.block.sigv4 import Signable, Signature, presigned
from graveler.clock import Clock
from graveler.errors import Invalid, NotFound
from graveler.records import ABSENT

_KEPT_COUNT = 2_048
_MARGIN_NS = 120 * limits.SECOND_NS


class S3Urls:
    """Makes URLs.  Sends only the requests for the regions of buckets.  Thread-safe."""

    def __init__(self, session: AwsSession, places: Places, clock: Clock, regions: Regions) -> None:
        self._session = session
        self._places = places
        self._regions = regions
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], PresignedUrl] = {}

    def presign(
        self,
        address: str,
        method: Literal["GET", "PUT"],
        seconds: int,
        content_type: str,
        terms: PutTerms = ANY_PUT,
    ) -> PresignedUrl:
        """See `BlockStore.presign`.  The request of a PUT must have the content type; the answer to
        a GET has it.

        `terms.only_create` signs `If-None-Match: *`.  S3 refuses a request without this header, and
        a request with it if the object exists.  `terms.size` signs `Content-Length`; without it the
        bound is S3's own, 5 GiB."""
        if method not in ("GET", "PUT"):
            raise Invalid(f"only GET and PUT can be presigned: {method=}")
        places = self._places
        parts = places.object(address) if method == "GET" else places.written(address)
        if len(content_type) > limits.content_type_length_bytes_max:
            raise Invalid("content type is too long to presign")
        query = {"response-content-type": content_type} if content_type else {}
        headers = {"content-type": content_type} if content_type else {}
        if terms.only_create:
            headers["if-none-match"] = "*"
        if terms.size is not ABSENT:
            headers["content-length"] = str(terms.size)
        if method == "GET":
            return self._signed(
                Signable("GET", self._origin(parts), parts.key, query, {}), seconds, parts.bucket
            )
        return self._signed(
            Signable("PUT", self._origin(parts), parts.key, {}, headers), seconds, parts.bucket
        )

    def presign_part(self, address: str, upload_id: str, number: int, seconds: int) -> PresignedUrl:
        """A URL that stores part `number` of an upload."""
        parts = self._places.written(address)
        bounds.check_part_number(number)
        if not upload_id:
            raise NotFound(f"upload not found: {upload_id=} {address=}")
        query = {"partNumber": str(number), "uploadId": upload_id}
        return self._signed(
            Signable("PUT", self._origin(parts), parts.key, query, {}), seconds, parts.bucket
        )

    def reading(self, address: str, method: Literal["GET", "HEAD"]) -> str:
        """A URL for the driver's own reads, from a cache of signed URLs."""
        cached = self._kept.get((method, address))
        if cached is not None and cached.expires_ns - _MARGIN_NS > self._clock.now_ns():
            return cached.url
        parts = self._places.object(address)
        request = Signable(method, self._origin(parts), parts.key, {}, {})
        fresh = self._signed(request, limits.presign_seconds_max, parts.bucket)
        with self._lock:
            if len(self._kept) >= _KEPT_COUNT:
                self._kept.clear()
            self._kept[method, address] = fresh
        return fresh.url

    def forget(self, address: str) -> None:
        """Remove the URLs of an address from the cache, because the service refused one."""
        with self._lock:
            self._kept.pop(("GET", address), None)
            self._kept.pop(("HEAD", address), None)

    def _origin(self, parts: Parts) -> str:
        return self._places.origin(parts.bucket, self._regions.of(parts.bucket))

    def _signed(self, request: Signable, seconds: int, bucket: str) -> PresignedUrl:
        if not 1 <= seconds <= limits.presign_seconds_max:
            raise Invalid(
                f"presigned seconds must be 1 to {limits.presign_seconds_max}: {seconds=}"
            )
        now_ns = self._clock.now_ns()
        signature = Signature(
            self._session.credentials(), self._regions.of(bucket), now_ns, seconds
        )
        expires_ns = (now_ns // limits.SECOND_NS + seconds) * limits.SECOND_NS
        return PresignedUrl(presigned(request, signature), expires_ns)
