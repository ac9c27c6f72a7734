"""Bodies of requests: a thread works only while there is something to write.

    client ──► receive() ──► one piece ──► the body is whole: it stays in memory
                                 │ more follows
                                 ▼
               Feed ──► content: unframed, verified ──► Spool    a turn of a thread for each piece

Memory holds about three pieces of a body of any size.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from graveler.block.adapter import OVERWRITE
from graveler.block.bodies import Spool
from graveler.core import limits
from graveler.core.errors import GravelerError, Invalid, Unavailable
from graveler.core.records import ABSENT, Absent, Entry
from graveler.engine.objects import write
from graveler.engine.objects.write import NewUpload, Upload
from graveler.http.answers import Receive
from graveler.http.errors import TooLarge
from graveler.http.pools import BoundedPool, Pools
from graveler.http.service import Call

T = TypeVar("T")
_PIECE_BYTES = 512 * 1024


class Disconnected(GravelerError):
    """The client closed the connection before its request was complete."""


class Piece(NamedTuple):
    """Consecutive bytes of a body.  `is_last`: the body ends with them."""

    body: bytes
    is_last: bool


async def next_piece(receive: Receive) -> Piece:
    """At least `_PIECE_BYTES` of a body, or its rest.  Raises `Disconnected`.

    The server closes a connection whose body arrives too slowly (protocol.py).
    """
    bodies: list[bytes] = []
    length, is_last = 0, False
    while not is_last and length < _PIECE_BYTES:
        message = await _message(receive)
        body = message.get("body", b"")
        if body:
            bodies.append(body)
            length += len(body)
        is_last = not message.get("more_body", False)
    return Piece(bodies[0] if len(bodies) == 1 else b"".join(bodies), is_last)


class Feed:
    """What has arrived of a body, as chunks: an empty one means that no more has arrived yet."""

    def __init__(self) -> None:
        self._piece = Piece(b"", False)

    def add(self, piece: Piece) -> None:
        """The next bytes have arrived; those before were read."""
        self._piece = piece

    @property
    def is_starved(self) -> bool:
        """Whether a reader waits for more."""
        return not self._piece.body and not self._piece.is_last

    def __iter__(self) -> Iterator[bytes]:
        while True:
            body, is_last = self._piece
            self._piece = Piece(b"", is_last)
            yield body
            if is_last:
                return


class Framing:
    """How the content of a body stands in it: here, as it is."""

    def content(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The content of a body that arrives in `chunks`; an empty chunk is passed on.

        Everything that the request states of the body has been verified when the iterator ends.
        """
        return iter(chunks)

    def whole(self, body: bytes) -> Sequence[bytes]:
        """As `content`, of a body that has arrived."""
        return (body,) if body else ()


PLAIN: Final = Framing()


def read_whole(framing: Framing, body: bytes) -> Sequence[bytes]:
    """The content of a body that has arrived, as `content` yields it."""
    return [chunk for chunk in framing.content((body,) if body else ()) if chunk]


async def stored(
    pools: Pools,
    receive: Receive,
    first: Piece,
    framing: Framing,
    open_spool: Callable[[], Spool],
    store: Callable[[Iterable[bytes]], T],
) -> T:
    """What `store`, which a thread calls with the content of a body, makes of it.

    A body of one piece, `first`, is passed in memory, a longer one in a spool, so that it can be
    read again.  `open_spool` may refuse a longer one before it is received.  Raises what the
    arguments raise, and `Disconnected`.
    """
    if not first.is_last:
        return await spooled(pools.bodies, receive, first, framing, open_spool, store)
    return await pools.writers.start(lambda: store(framing.whole(first.body)))


class Uploaded(NamedTuple):
    """An object that was stored.  `is_batched`: together with those of other requests."""

    new: Upload
    entry: Entry
    is_batched: bool


async def upload(
    call: Call,
    branch: str,
    path: str,
    framing: Framing,
    upload_of: Callable[[Iterable[bytes]], Upload],
    *,
    force: bool = False,
    most: int = 0,
) -> Uploaded:
    """Store the body of a request as an object; a small one, unless the write is conditional,
    together with those of other requests.

    `upload_of`: describes a content.  Raises as `write.upload` and `stored`, and `TooLarge` for
    more than `most` bytes in one piece, if it is not 0.
    """
    repo, pools = call.repo, call.service.pools
    first = await next_piece(call.receive)
    if 0 < most < len(first.body):
        raise TooLarge("request body has an error: it is too long")
    is_small = first.is_last and len(first.body) < limits.upload_batched_bytes_max
    if pools.uploads is not ABSENT and is_small and upload_of(()).mode is OVERWRITE:
        new = upload_of(framing.whole(first.body))
        entry = await pools.uploads.start(NewUpload(repo, branch, path, new, force))
        return Uploaded(new, entry, True)

    def open_spool() -> Spool:
        write.check_upload(repo, branch, path, upload_of(()), force=force)
        return repo.blocks.spool(repo.namespace)

    def store(content: Iterable[bytes]) -> Uploaded:
        new = upload_of(content)
        return Uploaded(new, write.upload(repo, branch, path, new, force=force), False)

    return await stored(pools, call.receive, first, framing, open_spool, store)


async def spooled(
    pool: BoundedPool,
    receive: Receive,
    first: Piece,
    framing: Framing,
    open_spool: Callable[[], Spool],
    store: Callable[[Spool], T],
) -> T:
    """Spool a body that begins with `first`; all work is done in `pool`."""
    feed, piece = Feed(), first
    spool = await pool.start(open_spool)
    try:
        chunks = framing.content(feed)
        hashing = pool.proceed(spool.hash, ())
        while True:
            feed.add(piece)
            written = await pool.proceed(_write, spool, feed, chunks)
            await hashing
            hashing = pool.proceed(spool.hash, written)
            if piece.is_last:
                break
            piece = await next_piece(receive)
        await hashing
        return await pool.proceed(store, spool)
    finally:
        _close(pool, spool)


def _write(spool: Spool, feed: Feed, chunks: Iterator[bytes]) -> list[bytes]:
    """Write what has arrived.  Returns it."""
    written: list[bytes] = []
    for chunk in chunks:
        if chunk:
            spool.write(chunk)
            written.append(chunk)
        elif feed.is_starved:
            break
    return written


def _close(pool: BoundedPool, spool: Spool) -> None:
    """Close the spool in a thread, because to remove a long file takes time; if the service stops,
    at once."""

    def closed(closing: "asyncio.Future[None]") -> None:
        if closing.cancelled():
            spool.close()

    try:
        pool.proceed(spool.close).add_done_callback(closed)
    except Unavailable:
        spool.close()


async def _message(receive: Receive) -> MutableMapping[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected("client disconnected before its request was complete")
    return message


# ---- whole bodies --------------------------------------------------------------------------------


def counted(
    receive: Receive, headers: Mapping[bytes, bytes], *, is_checked: bool = True
) -> Receive:
    """`receive`, whose body ends with the last byte that the headers state, although a server may
    send an empty message behind it.

    `is_checked`: it raises `Invalid` unless the body has that length, so that a body that a server
    or a proxy cut off is stored nowhere.
    """
    declared = headers.get(b"content-length", b"")
    if not declared.isdigit():
        return receive
    left = int(declared)

    async def next_message() -> MutableMapping[str, Any]:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if not left:
                message["more_body"] = False
            elif is_checked and (left < 0 or not message.get("more_body", False)):
                raise Invalid("request body has an error: it must have Content-Length bytes")
        return message

    return next_message


async def whole_body(receive: Receive, headers: Mapping[bytes, bytes], length_max: int) -> bytes:
    """The whole body, at most `length_max` bytes.

    Raises `TooLarge` if it is longer, and `Disconnected` if the client closes the connection.
    """
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared[:20]) > length_max:
        raise TooLarge(f"request body has an error: it must have at most {length_max} bytes")
    pieces: list[bytes] = []
    length = 0
    while True:
        message = await _message(receive)
        piece = message.get("body", b"")
        length += len(piece)
        if length > length_max:
            raise TooLarge(f"request body has an error: it must have at most {length_max} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# ---- forms: multipart/form-data (RFC 7578) -------------------------------------------------------

_HEADER_LENGTH_MAX = 16 * 1024
_SKIPPED_LENGTH_MAX = 1024 * 1024
_PART_COUNT_MAX = 32
_LINE_BREAK: Final = b"\r\n"
_AS_IT_IS: Final = ("", "binary", "7bit", "8bit")  # codings that change nothing
# Behind a boundary: two hyphens if it is the last one, blanks, and the break or the end of all.
_DELIMITER_END: Final = re.compile(rb"(--)?[ \t]*(\r\n)?")
_BOUNDARY = re.compile(r";\s*boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))", re.IGNORECASE)
_NAME = re.compile(r";\s*name=(?:\"([^\"]*)\"|([^\s;\"]+))", re.IGNORECASE)


def boundary_of(content_type: str) -> bytes:
    """The boundary in a content type; empty if it is not multipart/form-data.

    Raises `Invalid` if a multipart content type has no valid boundary.
    """
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        return b""
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise _broken("content type must name a boundary of 1 to 70 characters")
    return (match[1] or match[2]).encode("latin-1")


class FormPart(Framing):
    """The part of a form that has a name; a second one is refused, whose bytes would be lost.
    `content_type`: that the part declares; known once its first byte is."""

    def __init__(self, boundary: bytes, name: str) -> None:
        self.content_type = ""
        self._boundary = boundary
        self._name = name

    def whole(self, body: bytes) -> Sequence[bytes]:
        return read_whole(self, body)

    def content(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        reader = _Reader(iter(chunks), self._boundary)
        for _ in reader.until_delimiter(_HEADER_LENGTH_MAX):  # the preamble
            yield b""
        for _ in range(_PART_COUNT_MAX):
            if reader.is_closed:
                break
            while (headers := reader.headers()) is ABSENT:
                yield from reader.more()
            if self._is_named(headers):
                coding = headers.get("content-transfer-encoding", "")
                if coding.lower() not in _AS_IT_IS:
                    raise _broken(f"Content-Transfer-Encoding {coding[:40]!r} is not served")
                self.content_type = headers.get("content-type", "")
                yield from reader.until_delimiter(0, len(_LINE_BREAK))
                yield from self._to_the_end(reader)
                return
            for _ in reader.until_delimiter(_SKIPPED_LENGTH_MAX, len(_LINE_BREAK)):
                yield b""
        raise _broken(f'part "{self._name}" is missing')

    def _to_the_end(self, reader: "_Reader") -> Iterator[bytes]:
        """Drop the parts behind, of any length."""
        while not reader.is_closed:
            while (headers := reader.headers()) is ABSENT:
                yield from reader.more()
            if self._is_named(headers):
                raise _broken(f'part "{self._name}" is there twice')
            for _ in reader.until_delimiter(0):
                yield b""
        yield from reader.rest()

    def _is_named(self, headers: Mapping[str, str]) -> bool:
        return _name_of(headers.get("content-disposition", "")) == self._name


class _Reader:
    """A window over the source, and the position in the grammar."""

    def __init__(self, source: Iterator[bytes], boundary: bytes) -> None:
        self._source = source
        self._window = bytearray(b"\r\n")  # so that it finds a boundary at the very start
        self._delimiter = b"\r\n--" + boundary
        self._is_ended = False  # the source
        self.is_closed = False  # the last delimiter was found

    def headers(self) -> Mapping[str, str] | Literal[Absent.ABSENT]:
        """The headers of the next part; ABSENT until more of it has arrived."""
        end = self._window.find(b"\r\n\r\n")
        if end < 0:
            if len(self._window) > _HEADER_LENGTH_MAX:
                raise _broken(f"headers of a part are too long: at most {_HEADER_LENGTH_MAX} bytes")
            return ABSENT
        lines = bytes(self._window[:end]).decode("utf-8", "replace").split("\r\n")
        del self._window[: end + 2]  # a delimiter may begin with the second break
        pairs = (line.partition(":") for line in lines if line.strip())
        return {key.strip().lower(): value.strip() for key, _, value in pairs}

    def until_delimiter(self, length_max: int, lead: int = 0) -> Iterator[bytes]:
        """The bytes up to the next delimiter, and past it.  `length_max`: 0 for any number.
        `lead`: so many bytes before the first one are left out."""
        length = 0
        while True:
            ready, behind = self._find()
            if ready:
                length += ready
                if length_max and length > length_max:
                    raise _broken(f"an unused part is too long: at most {length_max} bytes")
                left_out = min(lead, ready)
                lead -= left_out
                yield bytes(self._window[left_out:ready])
                del self._window[:ready]
            if behind:
                del self._window[: behind - ready]
                return
            yield from self.more()

    def more(self) -> Iterator[bytes]:
        """Read on in the source; yields an empty chunk as often as the source does."""
        for chunk in self._source:
            if chunk:
                self._window += chunk
                return
            yield chunk
        if self._is_ended:
            raise _broken("body ended before its last boundary")
        self._is_ended = True

    def rest(self) -> Iterator[bytes]:
        """Drop all that follows."""
        self._window.clear()
        for _ in self._source:
            yield b""

    def _find(self) -> tuple[int, int]:
        """How many bytes of the window are certainly before the next delimiter, and where what
        follows the delimiter begins; 0 if it is not known yet."""
        at = 0
        while (start := self._window.find(self._delimiter, at)) >= 0:
            match = _DELIMITER_END.match(self._window, start + len(self._delimiter))
            assert match is not None, "it matches nothing as well"
            hyphens, line_break = match.groups(b"")
            rest = bytes(self._window[match.end() : match.end() + 2])
            if line_break or (hyphens and self._is_ended and rest in (b"", b"\r")):
                self.is_closed = bool(hyphens)
                return start, match.end() - len(line_break)
            if rest in (b"", b"\r", b"-"):
                if match.end() - start > _HEADER_LENGTH_MAX:
                    raise _broken("boundary has too many blanks behind it")
                return start, 0
            at = start + 1  # a line that only begins like a boundary
        return max(0, len(self._window) - len(self._delimiter) + 1), 0


def _name_of(disposition: str) -> str:
    match = _NAME.search(disposition)
    return "" if match is None else match[1] if match[1] is not None else match[2]


def _broken(rule: str) -> Invalid:
    return Invalid(f"request body has an error: multipart {rule}")
