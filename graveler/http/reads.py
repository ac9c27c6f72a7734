"""Bytes of objects on their way out: what a request asks for, and the answer that has it."""

from typing import Final

from graveler.block.adapter import Body, ObjectHead
from graveler.core.records import Entry
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository
from graveler.http.answers import Answer, Headers, StreamedBody, text_header
from graveler.http.conditions import Window
from graveler.http.service import Call

DEFAULT_TYPE: Final = "application/octet-stream"
ACCEPT_RANGES: Final[Headers] = ((b"accept-ranges", b"bytes"),)
_SMALL_BYTES: Final = 64 * 1024


def is_small(call: Call, entry: Entry, window: Window) -> bool:
    """Whether the requested bytes of an object are few, and inside the repository's folder."""
    is_short = window.length <= _SMALL_BYTES
    return is_short and read.lies_inside(call.repo.record, entry)


async def body_of(call: Call, entry: Entry, window: Window) -> tuple[Body, bytes | StreamedBody]:
    """The requested bytes of an object, as the store describes them and as an answer sends them:
    whole if they are few, else as a stream.  Errors: as for `read.open_body`."""
    pools = call.service.pools
    if is_small(call, entry, window):
        return await pools.point(whole_body, call.repo, entry, window)
    body = await pools.streams.start(read.open_body, call.repo, entry, window.start, window.end)
    return body, StreamedBody(body.chunks, body.end - body.start)


def whole_body(repo: OpenRepository, entry: Entry, window: Window) -> tuple[Body, bytes]:
    """A small body, as the store describes it, and its bytes."""
    body = read.open_body(repo, entry, window.start, window.end)
    return body, b"".join(body.chunks)


def encryption_of(entry: Entry, head: ObjectHead) -> Headers:
    """The header by which S3 tells clients that the ETag of the answer is no MD5.

    Imports record the etag of an object as its checksum.  That of an object that is encrypted by a
    key of KMS looks like an MD5.  A HEAD has no such header, because it does not ask the store.
    """
    is_told = bool(head.encryption) and head.etag == entry.checksum
    return (text_header(b"x-amz-server-side-encryption", head.encryption),) if is_told else ()


def ranged(
    window: Window, size: int, headers: Headers, body: bytes | StreamedBody, whole: Headers = ()
) -> Answer:
    """The answer with the requested bytes of an object of `size` bytes.  `whole`: headers of an
    answer with all bytes."""
    if not window.partial:
        return Answer(200, (*headers, *whole), body)
    covered = text_header(b"content-range", window.content_range(size))
    return Answer(206, (*headers, covered), body)


def head(window: Window, size: int, headers: Headers) -> Answer:
    """As `ranged`, to a HEAD."""
    return ranged(window, size, (*headers, (b"content-length", b"%d" % window.length)), b"")
