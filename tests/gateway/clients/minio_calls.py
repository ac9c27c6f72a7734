"""Calls of MinIO's client in the process of `called.py`, with answers that can be pickled."""

import io
from collections.abc import Sequence
from typing import Any

import urllib3
from minio import Minio
from minio.commonconfig import REPLACE, ComposeSource, CopySource
from minio.deleteobjects import DeleteObject

PART_BYTES = 5 << 20


class Client:
    """One client, and one bucket."""

    def __init__(self, bucket: str, certificate: str, **given: Any) -> None:
        """`certificate`: the file of the certificate to trust; empty without TLS."""
        trusted = {"cert_reqs": "CERT_REQUIRED", "ca_certs": certificate} if certificate else {}
        pool = urllib3.PoolManager(retries=False, **trusted)
        self._client = Minio(http_client=pool, **given)
        self._bucket = bucket

    def put(self, key: str, body: bytes, **more: Any) -> str:
        """The ETag of what was stored."""
        stored = self._client.put_object(
            self._bucket, key, io.BytesIO(body), len(body), part_size=PART_BYTES, **more
        )
        return str(stored.etag)

    def stream(self, key: str, body: bytes) -> None:
        """Store a body whose length the client does not know."""
        self._client.put_object(self._bucket, key, io.BytesIO(body), -1, part_size=PART_BYTES)

    def get(self, key: str, **more: Any) -> bytes:
        answer = self._client.get_object(self._bucket, key, **more)
        try:
            return bytes(answer.read())
        finally:
            answer.close()
            answer.release_conn()

    def put_file(self, key: str, path: str) -> None:
        self._client.fput_object(self._bucket, key, path, part_size=PART_BYTES)

    def get_file(self, key: str, path: str) -> None:
        self._client.fget_object(self._bucket, key, path)

    def stat(self, key: str) -> tuple[int, str, dict[str, str]]:
        """Size, ETag and headers of an object."""
        found = self._client.stat_object(self._bucket, key)
        headers = {name.lower(): value for name, value in (found.metadata or {}).items()}
        return found.size or 0, found.etag or "", headers

    def names(self, prefix: str, **more: Any) -> list[str]:
        listed = self._client.list_objects(self._bucket, prefix, **more)
        return [each.object_name or "" for each in listed]

    def buckets(self) -> list[str]:
        return [each.name for each in self._client.list_buckets()]

    def exists(self, bucket: str) -> bool:
        return self._client.bucket_exists(bucket)

    def make(self, bucket: str) -> None:
        self._client.make_bucket(bucket)

    def drop(self) -> None:
        self._client.remove_bucket(self._bucket)

    def copy(self, source: str, target: str, metadata: dict[str, Any] | None = None) -> None:
        directive = REPLACE if metadata else None
        self._client.copy_object(
            self._bucket,
            target,
            CopySource(self._bucket, source),
            metadata=metadata,
            metadata_directive=directive,
        )

    def compose(self, sources: Sequence[str], target: str) -> None:
        """Join objects on the server, by copies of parts."""
        named = [ComposeSource(self._bucket, source) for source in sources]
        self._client.compose_object(self._bucket, target, named)

    def remove(self, key: str) -> None:
        self._client.remove_object(self._bucket, key)

    def remove_many(self, keys: Sequence[str]) -> list[str]:
        """The keys that could not be deleted."""
        named = [DeleteObject(key) for key in keys]
        return [str(each.name) for each in self._client.remove_objects(self._bucket, named)]

    def url_to_get(self, key: str) -> str:
        return self._client.presigned_get_object(self._bucket, key)

    def url_to_put(self, key: str) -> str:
        return self._client.presigned_put_object(self._bucket, key)
