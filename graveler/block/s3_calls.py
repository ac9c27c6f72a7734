"""The requests to S3: which addresses are served, in which region a bucket lies, one call."""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from graveler.block.address import Parts, split, split_prefix
from graveler.core import limits
from graveler.core.aws import (
    FAILURES,
    AwsSession,
    CallPolicy,
    Client,
    Failure,
    failure_of,
    unavailable,
)
from graveler.core.errors import (
    Code,
    GravelerError,
    Invalid,
    NotFound,
    PreconditionFailed,
    Unavailable,
)

# ---- s3 places -------------------------------------------------------------------------------

SCHEME = "s3"


class Places:
    """The buckets that the driver may access, and those of them that are only read."""

    def __init__(
        self, buckets: Collection[str], endpoint_url: str, read_only: Collection[str] = ()
    ) -> None:
        self._buckets = frozenset(buckets)
        self._read_only = frozenset(read_only)
        self._endpoint_url = endpoint_url.rstrip("/")

    def object(self, address: str) -> Parts:
        """The parts of an object's address.  Raises `Invalid` if its bucket is not allowed."""
        parts = split(address)
        self._check(parts, address)
        return parts

    def written(self, address: str) -> Parts:
        """As `object`, for an address to write or delete.  Also raises `Invalid` if its bucket is
        only read."""
        parts = self.object(address)
        if parts.bucket in self._read_only:
            raise Invalid(
                "bucket is read-only: to write to it, name it in ExistingBuckets of the "
                f"template instead of ReadOnlyBuckets: {address=}"
            )
        return parts

    def prefix(self, prefix: str) -> Parts:
        """The parts of a list's prefix.  Raises `Invalid` if its bucket is not allowed."""
        parts = split_prefix(prefix)
        self._check(parts, prefix)
        return parts

    def origin(self, bucket: str, region: str) -> str:
        """`scheme://host` with the bucket in the host, or `scheme://host/bucket`."""
        if self._endpoint_url:
            return f"{self._endpoint_url}/{bucket}"
        domain = f"{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
        return f"https://s3.{domain}/{bucket}" if "." in bucket else f"https://{bucket}.s3.{domain}"

    def _check(self, parts: Parts, address: str) -> None:
        if parts.scheme != SCHEME or parts.bucket not in self._buckets:
            raise Invalid(
                f"bucket is not among the allowed buckets: {address=}", Code.BUCKET_NOT_ALLOWED
            )
        if len(parts.key.encode()) > limits.kv_key_length_bytes_max:
            raise Invalid(f"key is longer than S3 allows: {address=}")


# ---- s3 regions ------------------------------------------------------------------------------


Ask = Callable[[str], str]  # bucket's origin -> the region that it names; empty: none


class Regions:
    """The regions of buckets.  Thread-safe; sends nothing before the first call."""

    def __init__(self, session: AwsSession, places: Places, ask: Ask) -> None:
        self._session = session
        self._places = places
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}

    def of(self, bucket: str) -> str:
        """The region of a bucket.  `Unavailable` if the session has no region.  Cost: one request
        until S3 has answered once."""
        usual = self._session.region()
        if self._session.settings.endpoint_url:
            return usual
        known = self._known.get(bucket)
        if known is not None:
            return known
        region = self._ask(self._places.origin(bucket, usual))
        if not region:
            return usual
        with self._lock:
            self._known[bucket] = region
        return region


# ---- s3 calls --------------------------------------------------------------------------------

_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchVersion"})
_UPLOAD_ABSENT: Final = "NoSuchUpload"
_CONTENDED: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_WRONG: Final = frozenset(
    {
        "EntityTooLarge",
        "EntityTooSmall",
        "InvalidPart",
        "InvalidPartOrder",
        "InvalidStorageClass",
        "KeyTooLongError",
    }
)


class NoSuchUpload(NotFound):
    """The upload does not exist.  This does not show whether the object of a condition exists."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its verb, its purpose in words (for messages), its target, and whether it
    changes anything."""

    verb: str
    what: str
    bucket: str
    key: str = ""
    is_write: bool = True


class S3Calls:
    """Sends calls.  Thread-safe."""

    def __init__(self, session: AwsSession, policy: CallPolicy) -> None:
        self._session = session
        self._policy = policy
        self._lock = threading.Lock()
        self._made: list[Client] = []

    def send(self, call: Call, **arguments: Any) -> dict[str, Any]:
        """The answer of S3.  Raises the errors of the table above."""
        client = self._client()
        target = {"Bucket": call.bucket, **({"Key": call.key} if call.key else {})}
        try:
            answer: dict[str, Any] = getattr(client, call.verb)(**target, **arguments)
        except FAILURES as error:
            raise error_of(failure_of(error), call) from error
        return answer

    def _client(self) -> Client:
        with self._lock:
            if not self._made:
                style = "path" if self._session.settings.endpoint_url else "auto"
                options = {
                    "s3": {"addressing_style": style},
                    "signature_version": "s3v4",
                    # Reads are signed without a client and use only the endpoint of the settings,
                    # so writes must not use a configured one either.
                    "ignore_configured_endpoint_urls": True,
                }
                self._made.append(self._session.client("s3", self._policy, options))
            return self._made[0]


def error_of(failure: Failure, call: Call) -> GravelerError:
    """The error for a failure, by the table above."""
    attempt = f"{call.what}: address=s3://{call.bucket}/{call.key}"
    if failure.code in _ABSENT:
        return NotFound(f"{attempt} code={failure.code}")
    if failure.code == _UPLOAD_ABSENT:
        return NoSuchUpload(f"{attempt} code={failure.code}")
    if failure.status == 412:
        return PreconditionFailed(f"{attempt} code={failure.code}")
    if failure.code in _CONTENDED:
        return Unavailable(f"{attempt} code={failure.code}")
    if failure.code in _WRONG:
        return Invalid(f"{attempt} code={failure.code} {failure.message}")
    return unavailable(failure, attempt, write=call.is_write)
