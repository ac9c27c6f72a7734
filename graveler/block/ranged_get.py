"""Reads from S3 without an S3 client: signed URLs over one pool of connections.

Each request is sent once; the caller may read again.  Answers are classified by status and, if the
service sends one, by error code.  A body that ends early raises `Unavailable`; it is never returned
short.  The only owner of urllib3; for the S3 driver.
"""

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from graveler.block.adapter import UNVERSIONED, ObjectHead
from graveler.block.s3_urls import S3Urls
from graveler.core import limits
from graveler.core.errors import NotFound, RangeUnsatisfiable, Unavailable

_ERROR_LENGTH_MAX = 4_096
_REGION_SECONDS = 3.0
_WITH_MD5 = "AES256"  # with keys of S3 itself: the etag is that of the plain bytes
_CODE = re.compile(rb"<Code>([A-Za-z0-9]+)</Code>")
_REGISTERED = re.compile(r"bytes (\d+)-(\d+)/(\d+)", re.ASCII)


class ReadingOptions(NamedTuple):
    """Timeouts, the number of connections to keep open, and the file of trusted certificates
    (empty: those of the system)."""

    connect_seconds: float = 1.0
    read_seconds: float = 10.0
    connections: int = 32
    ca_bundle: str = ""


class Answer:
    """The answer to a read: the head of the whole object, and the half-open bounds of its bytes."""

    def __init__(self, response: BaseHTTPResponse, address: str) -> None:
        self._response = response
        self._address = address
        self.start, self.end, size = _bounds(response, address)
        self.head = ObjectHead(
            size=size,
            etag=response.headers.get("etag", "").strip('"'),
            modified_ns=parsed_date(response.headers.get("last-modified", "")),
            version=response.headers.get("x-amz-version-id", UNVERSIONED),
            storage_class=response.headers.get("x-amz-storage-class", ""),
            encryption=_encryption(response),
        )

    def chunks(self) -> Iterator[bytes]:
        """The bytes.  The connection is free again after all are read or the iterator is
        closed."""
        remaining = self.end - self.start
        try:
            while remaining:
                chunk = self._response.read(min(remaining, limits.chunk_length_bytes))
                if not chunk:
                    raise _unreadable(self._address, "the body ended early")
                remaining -= len(chunk)
                yield chunk
            self._response.read(1)  # reads the end of the body, so the connection can be reused
        except HTTPError as error:
            raise Unavailable(f"read an object: {error}: address={self._address}") from error
        finally:
            if remaining:
                self._response.close()
            self._response.release_conn()


class RangedGets:
    """Sends reads.  Thread-safe; connects at the first use."""

    def __init__(self, urls: S3Urls, options: ReadingOptions) -> None:
        self._urls = urls
        self._pool = urllib3.PoolManager(
            maxsize=options.connections,
            timeout=urllib3.Timeout(connect=options.connect_seconds, read=options.read_seconds),
            retries=False,
            ca_certs=options.ca_bundle or None,
        )

    def get(self, address: str, span: str) -> Answer:
        """Open an object.  `span` is the text after `Range: bytes=`; empty: the whole object.

        Errors: `NotFound`, `RangeUnsatisfiable`, `Unavailable`."""
        headers = {"Range": f"bytes={span}"} if span else {}
        return Answer(self._sent("GET", address, headers), address)

    def head(self, address: str) -> ObjectHead:
        """The head of an object.  Errors: `NotFound`, `Unavailable`."""
        response = self._sent("HEAD", address, {})
        response.release_conn()
        return Answer(response, address).head

    def _sent(
        self, method: Literal["GET", "HEAD"], address: str, headers: dict[str, str]
    ) -> BaseHTTPResponse:
        url = self._urls.reading(address, method)
        headers["Accept-Encoding"] = "identity"
        try:
            response = self._pool.request(method, url, headers=headers, preload_content=False)
            if response.status in (200, 206):
                return response
            body = response.read(_ERROR_LENGTH_MAX)
            response.drain_conn()
            response.release_conn()
        except HTTPError as error:
            raise Unavailable(f"read an object: {error}: {address=}") from error
        raise self._failure(response, body, address)

    def _failure(self, response: BaseHTTPResponse, body: bytes, address: str) -> Exception:
        match = _CODE.search(body)
        code = match[1].decode() if match else ""
        if response.status == 416:
            return RangeUnsatisfiable(f"range lies behind the object's end: {address=}", -1)
        if response.status == 404 and code != "NoSuchBucket":
            return NotFound(f"object not found: {address=}")
        if response.status in (400, 401, 403):
            self._urls.forget(address)
        return _unreadable(address, f"status={response.status} {code=!s}")


def _unreadable(address: str, reason: str) -> Unavailable:
    """The service behind the store answers so: an exception of it is the cause, by which callers
    get a text without names of buckets (`errors.public_text`)."""
    error = Unavailable(f"read an object: {address=} {reason}")
    error.__cause__ = HTTPError(reason)
    return error


def _encryption(response: BaseHTTPResponse) -> str:
    """The name of the encryption because of which the etag is no MD5; empty: of none."""
    name = response.headers.get("x-amz-server-side-encryption", "")
    return "" if name == _WITH_MD5 else name


def parsed_date(text: str) -> int:
    """An HTTP date in nanoseconds since 1970; 0 for any other text."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * limits.SECOND_NS
    except (ValueError, TypeError, IndexError):
        return 0


def _bounds(response: BaseHTTPResponse, address: str) -> tuple[int, int, int]:
    """The begin and end of the bytes in an answer, and the size of the object."""
    if response.status == 206:
        named = response.headers.get("content-range", "")
        if named.endswith("/0"):  # an empty object: some services answer 206 instead of 416
            return 0, 0, 0
        match = _REGISTERED.fullmatch(named)
        if match is None:
            raise _unreadable(address, "the answer has no Content-Range")
        return int(match[1]), int(match[2]) + 1, int(match[3])
    length = response.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise _unreadable(address, "the answer has no Content-Length")
    return 0, int(length), int(length)


def region_told(origin: str) -> str:
    """The region of the bucket at `origin`, from an unsigned request; empty: not named.  One
    request, sent once."""
    with urllib3.PoolManager(timeout=_REGION_SECONDS, retries=False) as pool:
        try:
            answer = pool.request("HEAD", f"{origin}/", redirect=False)
        except HTTPError:
            return ""
        return answer.headers.get("x-amz-bucket-region", "")
