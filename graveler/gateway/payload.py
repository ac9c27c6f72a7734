"""The body of a request: decoded and verified while it streams, before anything is staged.

    chunks of the server ──► decoder (chunks.py) ──► length, SHA-256, checksums ──► engine

`framing` reads from the headers what the body has to be, before a byte of it is read.  The engine
reads a `VerifiedBody` in the thread that stores it.  The last step of the iteration compares
everything: if something differs, the iteration raises `S3Error` instead of ending.  So the engine
stages a row only for bytes that have the stated length, hash and checksum.
"""

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from graveler.gateway import checksums
from graveler.gateway.checksums import NO_CHECKSUMS, Checks, StatedChecksums
from graveler.gateway.chunks import ChunkDecoder
from graveler.gateway.claims import Form, Payload
from graveler.gateway.errors import S3Error
from graveler.gateway.signatures import ChunkSeal
from graveler.records import ABSENT, Absent

_DIGITS_MAX: Final = 15


class Framing(NamedTuple):
    """What a body has to be.

    `length`: of the decoded bytes.  `raw_length`: of the bytes as they are sent, if the request
    states it.  `seal`: what signs the chunks.
    """

    payload: Payload
    length: int
    raw_length: int | Literal[Absent.ABSENT]
    checksums: StatedChecksums
    seal: ChunkSeal | Literal[Absent.ABSENT] = ABSENT


def framing(
    headers: Mapping[bytes, bytes],
    payload: Payload,
    seal: ChunkSeal | Literal[Absent.ABSENT] = ABSENT,
    *,
    has_checksums: bool = True,
) -> Framing:
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
    return Framing(payload, length, raw_length, stated, chain)


def _length(headers: Mapping[bytes, bytes], name: bytes) -> int | Literal[Absent.ABSENT]:
    text = headers.get(name)
    if text is None:
        return ABSENT
    if not text.isdigit() or len(text) > _DIGITS_MAX:
        raise S3Error("InvalidArgument", f"{name.decode()} must be a number of bytes.")
    return int(text)


def check_whole(framing: Framing, body: bytes) -> bool:
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

    def __init__(self, framing: Framing, chunks: Iterable[bytes]) -> None:
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


def _check_hash(framing: Framing, sha256: str) -> None:
    if not hmac.compare_digest(sha256, framing.payload.sha256):
        raise S3Error("XAmzContentSHA256Mismatch")


def _incomplete() -> S3Error:
    return S3Error("IncompleteBody")
