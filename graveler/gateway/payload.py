"""The body of a request: unframed and verified while it streams, before anything is staged.

    body      chunk* last trailer* CRLF        (aws-chunked)
    chunk     size [;chunk-signature=<64 hex digits>] CRLF bytes CRLF

The iteration raises `S3Error` instead of ending if a length, hash or checksum differs.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final, Literal, NamedTuple

from graveler.auth.access import Caller
from graveler.core import limits
from graveler.core.records import ABSENT, Absent
from graveler.gateway import checksums
from graveler.gateway.checksums import NO_CHECKSUMS, Checks, StatedChecksums
from graveler.gateway.claims import Form, StatedPayload
from graveler.gateway.errors import S3Error
from graveler.gateway.request import S3Request
from graveler.http import intake
from graveler.http.answers import Headers

# ---- chunks --------------------------------------------------------------------------------------

LINE_LENGTH_MAX: Final = 4 * 1024
_EMPTY_LINES_MAX: Final = 2  # between trailers and their signature, and at the end
_SIZE: Final = re.compile(rb"[0-9a-fA-F]{1,8}")
_EXTENSION: Final = b"chunk-signature="
_TRAILER_NAME: Final = re.compile(rb"[0-9a-z!#$%&'*+.^_`|~-]+")
_TRAILER_VALUE: Final = re.compile(rb"[ -~]*")
_TRAILER_SIGNATURE: Final = b"x-amz-trailer-signature"
_NOTHING: Final = hashlib.sha256().hexdigest().encode()


@dataclass(frozen=True, slots=True)
class ChunkSeal:
    """What the signatures of chunks are made with; `signature`: that of the request."""

    key: bytes = field(repr=False)
    moment: bytes
    scope: bytes
    signature: bytes


class _Expects(Enum):
    """What comes next."""

    SIZE = "the line with the size of a chunk"
    BYTES = "bytes of a chunk"
    BREAK = "the line break after the bytes"
    TRAILER = "a trailer, or an empty line"
    EMPTY = "an empty line, or the end"


class ChunkDecoder:
    """Decodes one body."""

    def __init__(
        self,
        length: int,
        trailers: Collection[bytes] = (),
        seal: ChunkSeal | Literal[Absent.ABSENT] = ABSENT,
    ) -> None:
        """`length`: of the decoded bytes.  `trailers`: the names that the request announces.
        `seal`: what signs the chunks, and the trailers if there are any."""
        self._left = length  # bytes of chunks that have not begun
        self._announced = frozenset(trailers)
        self._chain = ABSENT if seal is ABSENT else _Chain(seal)
        self._expects = _Expects.SIZE
        self._line = bytearray()
        self._rest = 0  # bytes of this chunk that have not come
        self._empty_lines = 0
        self._trailers: dict[bytes, bytes] = {}
        self._trailers_signed = False

    def feed(self, piece: bytes) -> bytes:
        """The decoded bytes of the next piece of the body.  Raises `S3Error`."""
        parts: list[bytes] = []
        at = 0
        while at < len(piece):
            if self._expects is _Expects.BYTES:
                part = piece[at : at + self._rest] if at or self._rest < len(piece) else piece
                at += len(part)
                self._rest -= len(part)
                if self._chain is not ABSENT:
                    self._chain.add(part)
                if not self._rest:
                    self._expects = _Expects.BREAK
                parts.append(part)
                continue
            end = piece.find(b"\n", at)
            stop = len(piece) if end < 0 else end + 1
            if len(self._line) + stop - at > LINE_LENGTH_MAX:
                raise _broken("a line is too long")
            self._line += piece[at:stop]
            at = stop
            if end >= 0:
                line, self._line = bytes(self._line[:-1]), bytearray()
                self._take(line)
        return b"".join(parts)

    def end(self) -> dict[bytes, bytes]:
        """The trailers, by name in lower case, after the last piece.  Raises `S3Error` unless the
        body is complete."""
        if self._expects is not _Expects.EMPTY or self._line:
            raise _incomplete_chunks()
        missing = self._announced - self._trailers.keys()
        if missing:
            raise _malformed_trailer("a trailer that the request announces is missing")
        return self._trailers

    # ---- lines -----------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        """Act on a line, which comes without its LF."""
        match self._expects:
            case _Expects.SIZE:
                self._begin(_without_return(line))
            case _Expects.BREAK:
                if line != b"\r":
                    raise _broken("the bytes of a chunk do not end with a line break")
                self._finish()
                self._expects = _Expects.SIZE
            case _Expects.TRAILER:
                self._add_trailer(line.removesuffix(b"\r"))
            case _:
                self._add_empty(line)

    def _begin(self, line: bytes) -> None:
        """The line with the size of a chunk."""
        digits, semicolon, extension = line.partition(b";")
        if not _SIZE.fullmatch(digits):
            raise _broken("the size of a chunk must have 1 to 8 hexadecimal digits")
        if self._chain is not ABSENT:
            if not extension.startswith(_EXTENSION):
                raise _broken("a chunk has no signature")
            self._chain.begin(extension[len(_EXTENSION) :])
        elif semicolon:
            raise _broken("a chunk has an extension")
        self._rest = int(digits, 16)
        if self._rest > self._left:
            raise _incomplete_chunks()
        self._left -= self._rest
        if self._rest:
            self._expects = _Expects.BYTES
            return
        if self._left:
            raise _incomplete_chunks()
        self._finish()
        self._expects = _Expects.TRAILER

    def _finish(self) -> None:
        """The bytes of a chunk are there."""
        if self._chain is not ABSENT:
            self._chain.finish()

    def _add_trailer(self, line: bytes) -> None:
        """A line after the last chunk."""
        if not line:
            self._end_trailers()
            return
        raw_name, colon, raw_value = line.partition(b":")
        name, value = raw_name.lower(), raw_value.strip()
        if not colon or not _TRAILER_NAME.fullmatch(name) or not _TRAILER_VALUE.fullmatch(value):
            raise _malformed_trailer("a trailer must have the form name:value")
        if name == _TRAILER_SIGNATURE:
            self._check_trailers(value)
            return
        ended = self._empty_lines or self._trailers_signed
        if ended or name not in self._announced or name in self._trailers:
            raise _malformed_trailer("a trailer was not announced, occurs twice, or comes too late")
        self._trailers[name] = value

    def _end_trailers(self) -> None:
        """An empty line after the trailers."""
        self._empty_lines += 1
        signed = self._chain is ABSENT or not self._announced or self._trailers_signed
        if signed:
            self._expects = _Expects.EMPTY
        elif self._empty_lines > 1:
            raise _malformed_trailer("the trailers have no signature")

    def _check_trailers(self, signature: bytes) -> None:
        """The line with the signature of the trailers."""
        if self._chain is ABSENT or not self._announced or self._trailers_signed:
            raise _malformed_trailer("a signature of trailers is not expected")
        self._chain.check_trailers(self._trailers, signature)
        self._trailers_signed = True
        self._empty_lines = 0

    def _add_empty(self, line: bytes) -> None:
        """A line after the end."""
        self._empty_lines += 1
        if line != b"\r" or self._empty_lines > _EMPTY_LINES_MAX:
            raise _broken("bytes follow the last chunk")


class _Chain:
    """The signatures of chunks, each over the one before."""

    def __init__(self, seal: ChunkSeal) -> None:
        self._seal = seal
        self._before = seal.signature
        self._stated = b""
        self._digest = hashlib.sha256()

    def begin(self, signature: bytes) -> None:
        """A chunk with this signature begins."""
        self._stated = signature
        self._digest = hashlib.sha256()

    def add(self, part: bytes) -> None:
        """The next bytes of the chunk."""
        self._digest.update(part)

    def finish(self) -> None:
        """The chunk has ended.  Raises `S3Error` if its signature is wrong."""
        digest = self._digest.hexdigest().encode()
        self._check(b"PAYLOAD", (_NOTHING, digest), self._stated)

    def check_trailers(self, trailers: dict[bytes, bytes], signature: bytes) -> None:
        """Raises `S3Error` if the signature of the trailers is wrong."""
        lines = b"".join([name + b":" + value + b"\n" for name, value in trailers.items()])
        self._check(b"TRAILER", (hashlib.sha256(lines).hexdigest().encode(),), signature)

    def _check(self, kind: bytes, hashes: tuple[bytes, ...], stated: bytes) -> None:
        seal = self._seal
        lines = (b"AWS4-HMAC-SHA256-" + kind, seal.moment, seal.scope, self._before, *hashes)
        expected = hmac.digest(seal.key, b"\n".join(lines), "sha256").hex().encode()
        if not hmac.compare_digest(expected, stated):
            raise S3Error("SignatureDoesNotMatch")
        self._before = expected


def _without_return(line: bytes) -> bytes:
    if not line.endswith(b"\r"):
        raise _broken("the line with the size of a chunk does not end with CR LF")
    return line[:-1]


def _incomplete_chunks() -> S3Error:
    return S3Error(
        "IncompleteBody",
        "The request body does not have the length that x-amz-decoded-content-length states, or it "
        "ends too early.",
    )


def _broken(reason: str) -> S3Error:
    return S3Error("InvalidRequest", f"The chunks of the request body are malformed: {reason}.")


def _malformed_trailer(reason: str) -> S3Error:
    return S3Error(
        "MalformedTrailerError",
        f"The request contained trailing data that was not well-formed: {reason}.",
    )


# ---- verification --------------------------------------------------------------------------------

_DIGITS_MAX: Final = 15


class StatedBody(NamedTuple):
    """What a body has to be.

    `length`: of the decoded bytes.  `raw_length`: of the bytes as they are sent, if the request
    states it.  `seal`: what signs the chunks.
    """

    payload: StatedPayload
    length: int
    raw_length: int | Literal[Absent.ABSENT]
    checksums: StatedChecksums
    seal: ChunkSeal | Literal[Absent.ABSENT] = ABSENT


def framing(
    headers: Mapping[bytes, bytes],
    payload: StatedPayload,
    seal: ChunkSeal | Literal[Absent.ABSENT] = ABSENT,
    *,
    has_checksums: bool = True,
) -> StatedBody:
    """What the headers of a request, and those that its presigned URL stands for, say about its
    body.

    `has_checksums`: `x-amz-checksum-*` is of the body; for CompleteMultipartUpload it is of the
    object.  Raises `S3Error`: a length is missing or no number, a checksum is malformed.  Pure.
    """
    assert seal is not ABSENT or not payload.form.has_signed_chunks, "signed chunks have a seal"
    raw_length = _length(headers, b"content-length")
    if payload.form.is_chunked:
        length = _length(headers, b"x-amz-decoded-content-length")
    else:
        length = raw_length
    if length is ABSENT:
        raise S3Error("MissingContentLength")
    stated = NO_CHECKSUMS
    if has_checksums:
        stated = checksums.expected(headers, has_trailer=payload.form.has_trailer)
    chain = seal if payload.form.has_signed_chunks else ABSENT
    return StatedBody(payload, length, raw_length, stated, chain)


def _length(headers: Mapping[bytes, bytes], name: bytes) -> int | Literal[Absent.ABSENT]:
    text = headers.get(name)
    if text is None:
        return ABSENT
    if not text.isdigit() or len(text) > _DIGITS_MAX:
        raise S3Error("InvalidArgument", f"{name.decode()} must be a number of bytes.")
    return int(text)


def check_whole(framing: StatedBody, body: bytes) -> bool:
    """Verify a body that arrived whole.  False, and nothing is verified, unless it is framed by
    nothing and has no checksum.  Raises `S3Error`."""
    if framing.checksums is not NO_CHECKSUMS or framing.payload.form.is_chunked:
        return False
    if len(body) != framing.length:
        raise _incomplete()
    if framing.payload.form is Form.HASH:
        _check_hash(framing, hashlib.sha256(body).hexdigest())
    return True


class VerifiedBody:
    """The decoded bytes of a body.  It can be read once."""

    def __init__(self, framing: StatedBody, chunks: Iterable[bytes]) -> None:
        self._framing = framing
        self._chunks = chunks
        self._echo: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def echo(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers of the answer that repeat the checksum, after the body was read."""
        return self._echo

    def __iter__(self) -> Iterator[bytes]:
        framing = self._framing
        checks = Checks(framing.checksums)
        digest = hashlib.sha256() if framing.payload.form is Form.HASH else ABSENT
        decoder = self._decoder()
        length = raw_length = 0
        for chunk in self._chunks:
            raw_length += len(chunk)
            piece = chunk if decoder is ABSENT else decoder.feed(chunk)
            length += len(piece)
            if length > framing.length:
                raise _incomplete()
            if digest is not ABSENT:
                digest.update(piece)
            checks.update(piece)
            if piece or not chunk:  # an empty chunk: no more has arrived
                yield piece
        trailers = {} if decoder is ABSENT else decoder.end()
        if length != framing.length or framing.raw_length not in (raw_length, ABSENT):
            raise _incomplete()
        if digest is not ABSENT:
            _check_hash(framing, digest.hexdigest())
        self._echo = checks.finish(trailers)

    def _decoder(self) -> ChunkDecoder | Literal[Absent.ABSENT]:
        framing = self._framing
        if not framing.payload.form.is_chunked:
            return ABSENT
        return ChunkDecoder(framing.length, framing.checksums.trailers, framing.seal)


def _check_hash(framing: StatedBody, sha256: str) -> None:
    if not hmac.compare_digest(sha256, framing.payload.sha256):
        raise S3Error("XAmzContentSHA256Mismatch")


def _incomplete() -> S3Error:
    return S3Error("IncompleteBody")


# ---- the body of one request ---------------------------------------------------------------------


class SignedPayload(intake.Framing):
    """The body of a request whose signature is right: its framing, and what its signature and its
    checksums cover."""

    def __init__(
        self,
        request: S3Request,
        form: StatedPayload,
        seal: ChunkSeal | Literal[Absent.ABSENT] = ABSENT,
    ) -> None:
        self._request = request
        self._form = form
        self._seal = seal
        self._body: VerifiedBody | Literal[Absent.ABSENT] = ABSENT

    @property
    def length(self) -> int:
        """The number of bytes of the content, as the request says.  Raises `S3Error`."""
        if self._framing.length > limits.put_length_bytes_max:
            raise S3Error("EntityTooLarge")
        return self._framing.length

    def content(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        self._body = VerifiedBody(self._framing, chunks)
        return iter(self._body)

    def whole(self, body: bytes) -> Sequence[bytes]:
        if check_whole(self._framing, body):
            return (body,) if body else ()
        return intake.read_whole(self, body)

    def echo(self) -> Headers:
        """The checksums that were verified, as headers of the answer."""
        return () if self._body is ABSENT else self._body.echo

    @cached_property
    def _framing(self) -> StatedBody:
        request = self._request
        # The checksum of CompleteMultipartUpload is of the object, not of the list of parts.
        has_checksums = request.method != "POST" or "uploadId" not in request.query
        return framing(request.instructions, self._form, self._seal, has_checksums=has_checksums)


class Identity(NamedTuple):
    """The sender of a request, as its signature proves, and its body.

    `hoisted`: the headers for which parameters of a presigned URL stand.
    """

    caller: Caller
    payload: SignedPayload
    hoisted: Headers = ()
