"""Signs S3 URLs: for clients, and for the driver's own reads.

A URL for reading an object is signed once and used until shortly before it expires.  So all reads
of a file need one signature and one look-up of the credentials.  A URL signed with temporary
credentials expires with them at the latest.

Makes presigned S3 URLs: AWS Signature Version 4 in the query, without botocore's models.

canonical request   method ‖ path ‖ query ‖ headers ‖ their names ‖ UNSIGNED-PAYLOAD, by lines
text to sign        AWS4-HMAC-SHA256 ‖ time ‖ scope ‖ SHA-256 of the canonical request
key                 HMAC of HMAC …: secret, day, region, service, "aws4_request"
"""

import hashlib
import hmac
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from urllib.parse import quote

from graveler.block import drivers
from graveler.block.adapter import ANY_PUT, PresignedUrl, PutTerms
from graveler.block.address import Parts
from graveler.block.s3_calls import Places, Regions
from graveler.core import limits
from graveler.core.aws import AwsSession, Credentials
from graveler.core.clock import Clock
from graveler.core.errors import Invalid, NotFound
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT

# ---- sigv4 -----------------------------------------------------------------------------------

_ALGORITHM = "AWS4-HMAC-SHA256"
_PATH_SAFE = "/-_.~"
_QUERY_SAFE = "-_.~"


class Signable(NamedTuple):
    """A request to sign.  `key` is not percent-encoded.  Names of `headers` are in lower case; the
    client must send these headers with exactly these values."""

    method: str
    origin: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class Signature(NamedTuple):
    """The credentials, region, start time and validity of a signature."""

    credentials: Credentials
    region: str
    now_ns: int
    seconds: int


def presigned(request: Signable, signature: Signature) -> str:
    """The signed URL.  The request's `origin` is `scheme://host`, optionally with a first segment
    of the path."""
    moment = datetime.fromtimestamp(signature.now_ns // SECOND_NS, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{signature.region}/s3/aws4_request"
    scheme, _, rest = request.origin.partition("://")
    host, slash, stem = rest.partition("/")
    path = quote(f"{slash}{stem}/{request.key}", safe=_PATH_SAFE)
    headers = {"host": host, **request.headers}
    names = ";".join(sorted(headers))
    credentials = signature.credentials
    query = {
        **request.query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(signature.seconds),
        "X-Amz-SignedHeaders": names,
    }
    if credentials.session_token:
        query["X-Amz-Security-Token"] = credentials.session_token
    encoded = "&".join(
        sorted(
            f"{quote(n, safe=_QUERY_SAFE)}={quote(v, safe=_QUERY_SAFE)}" for n, v in query.items()
        )
    )
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    canonical = "\n".join((request.method, path, encoded, lines, names, "UNSIGNED-PAYLOAD"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join((_ALGORITHM, moment, scope, digest))
    key = b"AWS4" + credentials.secret_access_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, text.encode(), "sha256").hex()
    return f"{scheme}://{host}{path}?{encoded}&X-Amz-Signature={signed}"


# ---- s3 urls ---------------------------------------------------------------------------------


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
        drivers.check_part_number(number)
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
