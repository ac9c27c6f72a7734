"""Checks which addresses the S3 driver serves, and makes the URL origin of each bucket.

Only named buckets are allowed.  On AWS each bucket has its own host name, except names with dots,
which certificates do not cover.  With a configured endpoint the bucket is in the path.
"""

from collections.abc import Collection

from graveler import limits
from graveler.block.address import Parts, split, split_prefix
from graveler.errors import Code, Invalid

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
