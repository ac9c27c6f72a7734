"""Signed URLs: whoever has one reads or writes the bytes of one object.

A PUT only creates: a repeated PUT with the same bytes succeeds, one with other bytes is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from graveler.block.adapter import CREATE, OVERWRITE, Blocks, ObjectHead
from graveler.block.address import split
from graveler.block.bodies import MeasuredBody, Spool
from graveler.block.signature import Grant
from graveler.core.errors import (
    AlreadyExists,
    Corrupt,
    Gone,
    Invalid,
    NotFound,
    PreconditionFailed,
    Unsupported,
)
from graveler.core.records import ABSENT
from graveler.http import conditions, reads
from graveler.http.answers import (
    Answer,
    Headers,
    Receive,
    StreamedBody,
    crc32c_headers,
    text_header,
)
from graveler.http.conditions import Validators, Window
from graveler.http.intake import PLAIN, Framing, counted, next_piece, read_whole, stored
from graveler.http.service import Service

_GUARD: Final[Headers] = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-disposition", b"attachment"),
    (b"accept-ranges", b"bytes"),
)


async def answer_signed(
    service: Service,
    method: str,
    name: str,
    query: Mapping[str, str],
    headers: Mapping[bytes, bytes],
    receive: Receive,
) -> Answer:
    """Answer a presigned request.  `name`: the end of the path."""
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    verb = "GET" if method == "HEAD" else method
    grant = service.grants.verify(verb, name, query, content_type)
    if verb == "PUT":
        return await _store(service, grant, headers, counted(receive, headers))
    if verb != "GET":
        raise Unsupported("only GET, HEAD and PUT can be presigned")
    answer = _head if method == "HEAD" else _open
    return await service.pools.streams.start(answer, service, grant, headers)


def _checked(grant: Grant, head: ObjectHead) -> ObjectHead:
    """The head of the object.  If it has another size than the URL is for, raises `Corrupt`, or
    `Gone` for a file outside of the store, whose owner may have replaced it."""
    if grant.size in (ABSENT, head.size):
        return head
    sizes = f"address={grant.address} size={head.size} expected={grant.size}"
    if split(grant.address).bucket:
        raise Corrupt(f"object damaged: it has another size than its entry: {sizes}")
    raise Gone(f"object outside has changed since: {sizes}")


def _described(head: ObjectHead, grant: Grant) -> Headers:
    return (
        text_header(b"content-type", grant.content_type or reads.DEFAULT_TYPE),
        text_header(b"etag", f'"{head.etag}"'),
        text_header(b"last-modified", conditions.http_date(head.modified_ns)),
        *_GUARD,
    )


def _window(head: ObjectHead, headers: Mapping[bytes, bytes], grant: Grant) -> Window | Answer:
    """The bytes that a read asks for, or the answer 304.  Errors: as for `selected`."""
    window = conditions.selected(headers, head.size, Validators(head.etag, head.modified_ns))
    return window if isinstance(window, Window) else Answer(304, _described(head, grant))


def _head(service: Service, grant: Grant, headers: Mapping[bytes, bytes]) -> Answer:
    head = _checked(grant, service.ports.blocks.head(grant.address))
    window = _window(head, headers, grant)
    if isinstance(window, Answer):
        return window
    return reads.head(window, head.size, _described(head, grant))


def _open(service: Service, grant: Grant, headers: Mapping[bytes, bytes]) -> Answer:
    blocks, address = service.ports.blocks, grant.address
    if b"range" in headers or conditions.is_conditional(headers):
        head = _checked(grant, blocks.head(address))
        window = _window(head, headers, grant)
        if isinstance(window, Answer):
            return window
        body = blocks.get(address, window.start, window.end)
    else:
        body = blocks.get(address)
        window = Window(body.start, body.end, False)
    head = _checked(grant, body.head)  # a file outside of the store may have been replaced
    streamed = StreamedBody(body.chunks, body.end - body.start)
    checksum = crc32c_headers(head.crc32c)
    return reads.ranged(window, head.size, _described(head, grant), streamed, checksum)


async def _store(
    service: Service, grant: Grant, headers: Mapping[bytes, bytes], receive: Receive
) -> Answer:
    if conditions.of_write(headers) not in (CREATE, OVERWRITE):  # a PUT only creates in any case
        await service.pools.writers.start(_check_condition, service, grant, headers)

    def open_spool() -> Spool:
        return service.ports.blocks.spool(grant.address)

    def store(content: Iterable[bytes]) -> Answer:
        body = content if isinstance(content, Spool) else MeasuredBody(iter(content))
        return _put(service, grant, body)

    framing = PLAIN if grant.size is ABSENT else _Sized(grant.size)
    first = await next_piece(receive)
    return await stored(service.pools, receive, first, framing, open_spool, store)


def _check_condition(service: Service, grant: Grant, headers: Mapping[bytes, bytes]) -> None:
    """Raises `PreconditionFailed` unless the conditions of a write hold.  They cannot change before
    the write, which replaces nothing, except that an object appears."""
    try:
        head = service.ports.blocks.head(grant.address)
        holds = conditions.allows_write(headers, Validators(head.etag, head.modified_ns))
    except NotFound:
        holds = conditions.allows_write(headers, ABSENT)
    if not holds:
        raise PreconditionFailed("object does not satisfy the condition of the request")


def _put(service: Service, grant: Grant, body: MeasuredBody | Spool) -> Answer:
    """Store a body with a create-only put.  Returns its MD5 as the etag, which clients use as the
    checksum.

    If the object exists with the same content, the put succeeds as a retry.  Raises
    `PreconditionFailed` if the content differs.  A body of another size than the URL is for raises
    `Invalid`, and nothing is stored.
    """
    address, blocks = grant.address, service.ports.blocks
    try:
        blocks.put(address, body, CREATE)
    except AlreadyExists as error:
        for _ in body:
            pass  # a store may refuse before it has read the whole body
        if not _is_stored(blocks, address, body):
            raise PreconditionFailed("object already exists with other bytes") from error
    return Answer(200, (text_header(b"etag", f'"{body.checksum}"'),))


def _is_stored(blocks: Blocks, address: str, body: MeasuredBody | Spool) -> bool:
    """Whether the object has the bytes of `body`.  It is read only if it has their size."""
    if blocks.head(address).size != body.size:
        return False
    stored = MeasuredBody(blocks.get(address).chunks)
    for _ in stored:
        pass
    return stored.checksum == body.checksum


class _Sized(Framing):
    """A body that must have the size that the URL is for.  Raises `Invalid`."""

    def __init__(self, size: int) -> None:
        self._size = size

    def whole(self, body: bytes) -> Sequence[bytes]:
        return read_whole(self, body)

    def content(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        left = self._size
        for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
        if left:
            raise Invalid(f"body must have the size that the url is for: size={self._size}")
