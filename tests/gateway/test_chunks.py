"""Bodies in chunks: AWS's examples are decoded, and every other framing is refused."""

import hashlib
import hmac
import random
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import pytest

from graveler.core.records import ABSENT, Absent
from graveler.gateway.errors import CODES, S3Error
from graveler.gateway.payload import LINE_LENGTH_MAX, ChunkDecoder, ChunkSeal
from tests import draws
from tests.gateway.vectors import (
    CHUNK_SIGNATURES,
    CHUNKED_LENGTH,
    KEY,
    MOMENT,
    SCOPE,
    SEED,
    TRAILER_CHUNK_SIGNATURES,
    TRAILER_SEED,
    TRAILER_SIGNATURE,
    chunked,
)

SIZES = (65_536, 1_024, 0)
SEAL = ChunkSeal(KEY, MOMENT, SCOPE.encode(), SEED)
TRAILER_SEAL = ChunkSeal(KEY, MOMENT, SCOPE.encode(), TRAILER_SEED)
CRC = b"x-amz-checksum-crc32c"
SIGNED = chunked(SIZES, CHUNK_SIGNATURES, b"\r\n")
_LINE = CRC + b":sOO8/Q=="
_PROOF = b"x-amz-trailer-signature:" + TRAILER_SIGNATURE
Seal = ChunkSeal | Literal[Absent.ABSENT]

# How clients write the trailers and their signature: Java, minio, botocore's like, all with LF.
ENDS = (
    _LINE + b"\r\n" + _PROOF + b"\r\n\r\n",
    _LINE + b"\n\r\n" + _PROOF + b"\r\n\r\n",
    _LINE + b"\n" + _PROOF + b"\r\n\r\n",
    _LINE + b"\n" + _PROOF + b"\n\n",
)


def with_trailer(end: bytes) -> bytes:
    return chunked(SIZES, TRAILER_CHUNK_SIGNATURES, end)


def unsigned(sizes: Sequence[int], end: bytes) -> bytes:
    return chunked(sizes, [b""] * len(sizes), end)


class Outcome(NamedTuple):
    """What a decoder made of a body: its content and trailers, or the code of an error."""

    content: bytes
    trailers: dict[bytes, bytes]
    error: str = ""


def decoded(
    pieces: Iterable[bytes], length: int, trailers: Sequence[bytes] = (), seal: Seal = ABSENT
) -> Outcome:
    decoder = ChunkDecoder(length, trailers, seal)
    content = b""
    try:
        for piece in pieces:
            content += decoder.feed(piece)
        return Outcome(content, decoder.end())
    except S3Error as error:
        assert CODES[error.s3_code].status in (400, 403)
        return Outcome(content, {}, error.s3_code)


def split(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


# ---- what clients send ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [70_000, 8_192, 1_000, 7])
def test_the_signed_chunks_of_awss_example_are_decoded_wherever_they_are_cut(size: int) -> None:
    outcome = decoded(split(SIGNED, size), CHUNKED_LENGTH, seal=SEAL)
    assert outcome == Outcome(b"a" * CHUNKED_LENGTH, {})


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("size", [70_000, 13])
def test_the_signed_trailer_of_awss_example_is_decoded_however_its_lines_end(
    end: bytes, size: int
) -> None:
    outcome = decoded(split(with_trailer(end), size), CHUNKED_LENGTH, (CRC,), TRAILER_SEAL)
    assert outcome == Outcome(b"a" * CHUNKED_LENGTH, {CRC: b"sOO8/Q=="})


@pytest.mark.parametrize("end", [b"%s\r\n\r\n", b"%s\n\r\n", b"%s\r\n\r\n\r\n", b"%s \r\n\r\n"])
def test_an_unsigned_trailer_is_decoded_however_its_line_ends(end: bytes) -> None:
    line = b"X-Amz-Checksum-CRC32C: sOO8/Q=="
    body = unsigned((5, 3, 0), end % line)
    for size in (1, 4, 100):
        outcome = decoded(split(body, size), 8, (CRC,))
        assert outcome == Outcome(b"a" * 8, {CRC: b"sOO8/Q=="})


def test_chunks_without_trailers_are_decoded() -> None:
    assert decoded([unsigned((4, 0), b"\r\n")], 4) == Outcome(b"aaaa", {})
    assert decoded([unsigned((0,), b"\r\n")], 0) == Outcome(b"", {})
    assert decoded([b"00000004\r\naaaa\r\n0\r\n\r\n"], 4) == Outcome(b"aaaa", {})


# ---- framing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "length", "expected"),
    [
        (b"", 0, "IncompleteBody"),
        (b"0\r\n", 0, "IncompleteBody"),
        (b"0\r\n\r", 0, "IncompleteBody"),
        (b"4\r\naaaa\r\n0\r\n\r\n", 5, "IncompleteBody"),
        (b"4\r\naaaa\r\n0\r\n\r\n", 3, "IncompleteBody"),
        (b"4\r\naaaa\r\n", 4, "IncompleteBody"),
        (b"4\r\naaa", 4, "IncompleteBody"),
        (b"ffffffff\r\na", 4, "IncompleteBody"),
        (b"4\r\naaaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"4\r\naaaa\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"4\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"000000004\r\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"\r\n", 0, "InvalidRequest"),
        (b"-4\r\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"+4\r\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"4 \r\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"0x4\r\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"4;a=b\r\naaaa\r\n0\r\n\r\n", 4, "InvalidRequest"),
        (b"0\r\n\r\nx", 0, "IncompleteBody"),
        (b"0\r\n\r\nx\r\n", 0, "InvalidRequest"),
        (b"0\r\n\r\n0\r\n\r\n", 0, "InvalidRequest"),
        (b"0\r\n\r\n\r\n\r\n", 0, "InvalidRequest"),
    ],
)
def test_no_other_framing_is_accepted(body: bytes, length: int, expected: str) -> None:
    for size in (1, 3, 1_000):
        assert decoded(split(body, size), length).error == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (b"\r\n", "MalformedTrailerError"),  # the announced one is missing
        (b"other:x\r\n\r\n", "MalformedTrailerError"),
        (_LINE + b"\r\n" + _LINE + b"\r\n\r\n", "MalformedTrailerError"),
        (b"x-amz-checksum-crc32c\r\n\r\n", "MalformedTrailerError"),
        (b": x\r\n\r\n", "MalformedTrailerError"),
        (CRC + b":a\0b\r\n\r\n", "MalformedTrailerError"),
        (CRC + b":\xff\r\n\r\n", "MalformedTrailerError"),
        (_PROOF + b"\r\n\r\n", "MalformedTrailerError"),  # nothing is signed here
        (_LINE + b"\r\n", "IncompleteBody"),
        (_LINE, "IncompleteBody"),
    ],
)
def test_trailers_are_those_that_were_announced(end: bytes, expected: str) -> None:
    assert decoded([unsigned((0,), end)], 0, (CRC,)).error == expected


def test_a_line_has_a_bound_whether_it_ends_or_not() -> None:
    for line in (b"0" * LINE_LENGTH_MAX + b"1\r\n", b"0" * (LINE_LENGTH_MAX + 1)):
        assert decoded([line], 1).error == "InvalidRequest"
        assert decoded(split(line, 1_000), 1).error == "InvalidRequest"
    trailer = b"0\r\n" + CRC + b":" + b"a" * LINE_LENGTH_MAX
    assert decoded([trailer], 0, (CRC,)).error == "InvalidRequest"


def test_a_decoder_keeps_no_bytes_of_a_chunk() -> None:
    """A chunk of 4 GiB is announced, and what has come of it has been handed on."""
    decoder = ChunkDecoder(1 << 32)
    assert decoder.feed(b"ffffffff\r\n") == b""
    piece = b"x" * 1_000_000
    assert all(decoder.feed(piece) is piece for _ in range(20))
    assert len(decoder._line) == 0


# ---- signatures of chunks ------------------------------------------------------------------------


def changed(body: bytes, before: bytes, after: bytes) -> bytes:
    assert before in body
    return body.replace(before, after, 1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: changed(body, b"aaaa", b"aaab"),  # a byte of the content
        lambda body: changed(body, b"signature=ad", b"signature=ae"),
        lambda body: changed(body, b"signature=00", b"signature=01"),
        lambda body: changed(body, b"signature=b6", b"signature=b7"),  # of the empty last chunk
        lambda body: changed(body, b"signature=b6", b"signature=B6"),
    ],
)
def test_a_chunk_that_was_changed_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    outcome = decoded([spoil(SIGNED)], CHUNKED_LENGTH, seal=SEAL)
    assert outcome.error == "SignatureDoesNotMatch"


def test_a_chunk_that_was_left_out_doubled_moved_or_unsigned_is_refused() -> None:
    first, second = CHUNK_SIGNATURES[:2]
    last = CHUNK_SIGNATURES[2]
    for sizes, names in (
        ((65_536, 0), (first, last)),
        ((1_024, 0), (second, last)),
        ((65_536, 65_536, 1_024, 0), (first, first, second, last)),
        ((1_024, 65_536, 0), (second, first, last)),
        ((0,), (last,)),
    ):
        body = chunked(sizes, names, b"\r\n")
        outcome = decoded([body], sum(sizes), seal=SEAL)
        assert outcome.error == "SignatureDoesNotMatch"
    plain = chunked(SIZES, (first, b"", last), b"\r\n")
    assert decoded([plain], CHUNKED_LENGTH, seal=SEAL).error == "InvalidRequest"
    other = changed(SIGNED, b"chunk-signature", b"chunk-signaturf")
    assert decoded([other], CHUNKED_LENGTH, seal=SEAL).error == "InvalidRequest"


def test_the_chunks_of_another_request_are_refused() -> None:
    for seal in (
        TRAILER_SEAL,
        ChunkSeal(KEY, b"20130524T000001Z", SCOPE.encode(), SEED),
        ChunkSeal(KEY, MOMENT, SCOPE.replace("us-east-1", "us-east-2").encode(), SEED),
        ChunkSeal(bytes(32), MOMENT, SCOPE.encode(), SEED),
    ):
        assert decoded([SIGNED], CHUNKED_LENGTH, seal=seal).error == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (changed(ENDS[0], b"sOO8", b"sOO9"), "SignatureDoesNotMatch"),
        (changed(ENDS[0], b":d8", b":d9"), "SignatureDoesNotMatch"),
        (_PROOF + b"\r\n\r\n", "SignatureDoesNotMatch"),  # the trailer is missing
        (_LINE + b"\r\n\r\n", "IncompleteBody"),  # its signature is missing
        (_LINE + b"\r\n\r\n\r\n", "MalformedTrailerError"),
        (ENDS[0][:-2] + _PROOF + b"\r\n\r\n", "MalformedTrailerError"),  # twice
        (_LINE + b"\r\n\r\n" + _LINE + b"\r\n" + _PROOF + b"\r\n\r\n", "MalformedTrailerError"),
    ],
)
def test_a_trailer_that_was_changed_is_refused(end: bytes, expected: str) -> None:
    outcome = decoded([with_trailer(end)], CHUNKED_LENGTH, (CRC,), TRAILER_SEAL)
    assert outcome.error == expected


def test_no_trailer_comes_after_the_signature_of_the_trailers() -> None:
    scope, before = SCOPE.encode(), TRAILER_CHUNK_SIGNATURES[-1]
    nothing = hashlib.sha256(b"").hexdigest().encode()
    text = b"\n".join((b"AWS4-HMAC-SHA256-TRAILER", MOMENT, scope, before, nothing))
    proof = b"x-amz-trailer-signature:" + hmac.digest(KEY, text, "sha256").hex().encode()
    body = with_trailer(proof + b"\r\n" + _LINE + b"\r\n\r\n")
    outcome = decoded([body], CHUNKED_LENGTH, (CRC,), TRAILER_SEAL)
    assert outcome.error == "MalformedTrailerError"


# ---- any bytes -----------------------------------------------------------------------------------


def signatures(parts: Sequence[bytes], seal: ChunkSeal) -> list[bytes]:
    """The signatures of chunks as a client makes them."""
    made, before = [], seal.signature
    for part in parts:
        lines = (
            b"AWS4-HMAC-SHA256-PAYLOAD",
            seal.moment,
            seal.scope,
            before,
            hashlib.sha256().hexdigest().encode(),
            hashlib.sha256(part).hexdigest().encode(),
        )
        before = hmac.digest(seal.key, b"\n".join(lines), "sha256").hex().encode()
        made.append(before)
    return made


def parts_of(draw: random.Random, sizes: Sequence[int] = (1, 2, 5, 16, 40)) -> list[bytes]:
    """The content of the chunks of a body."""
    return [draw.randbytes(draw.choice(sizes)) for _ in range(draw.randrange(4))]


def framed(parts: Sequence[bytes], seal: Seal) -> bytes:
    """Chunks with these contents, the empty last one too, without an end."""
    names = [b""] * (len(parts) + 1) if seal is ABSENT else signatures([*parts, b""], seal)
    body = b""
    for part, name in zip([*parts, b""], names, strict=True):
        extension = b";chunk-signature=" + name if name else b""
        body += b"%x" % len(part) + extension + b"\r\n" + (part + b"\r\n" if part else b"")
    return body


def crc_line(content: bytes) -> bytes:
    """The trailer with the checksum of a content."""
    return b"x-amz-checksum-crc32:" + b64encode(zlib.crc32(content).to_bytes(4, "big"))


def body_of(draw: random.Random, seal: Seal) -> tuple[bytes, bytes, Sequence[bytes]]:
    """A right body, its content, and the names of its trailers."""
    parts = parts_of(draw)
    body, content = framed(parts, seal), b"".join(parts)
    if seal is not ABSENT or draw.random() < 0.3:
        return body + b"\r\n", content, ()
    end = draw.choice((b"\r\n\r\n", b"\n\r\n"))
    return body + crc_line(content) + end, content, (b"x-amz-checksum-crc32",)


def cut_anywhere(draw: random.Random, body: bytes) -> list[bytes]:
    cuts = sorted(draw.randrange(len(body) + 1) for _ in range(draw.randrange(5)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def spoiled(draw: random.Random, body: bytes) -> bytes:
    """The body with a byte changed, left out or added, or without its end."""
    at = draw.randrange(len(body))
    match draw.randrange(4):
        case 0:
            return body[:at] + bytes([body[at] ^ (1 << draw.randrange(8))]) + body[at + 1 :]
        case 1:
            return body[:at] + body[at + 1 :]
        case 2:
            return body[:at] + bytes([draw.choice(b"0a;:\r\n\0\xff")]) + body[at:]
        case _:
            return body[:at]


def test_any_body_is_decoded_or_refused_and_never_taken_for_another() -> None:
    """With GRAVELER_DRAWS=all there are 200,000."""
    count = len(draws.seeds(20_000, 200_000))
    seed = draws.seed()
    draw = random.Random(seed)
    refused = 0
    for number in range(count):
        is_signed = number % 2 == 0
        seal: Seal = SEAL if is_signed else ABSENT
        body, content, trailers = body_of(draw, seal)
        good = decoded(cut_anywhere(draw, body), len(content), trailers, seal)
        assert not good.error and good.content == content and set(good.trailers) == set(trailers)
        false = max(0, len(content) + draw.choice((-1, 1, 7, 1 << 20)))
        if false != len(content):  # an empty body has no shorter length
            assert decoded(cut_anywhere(draw, body), false, trailers, seal).error
        bad = spoiled(draw, body)
        outcome = decoded(cut_anywhere(draw, bad), len(content), trailers, seal)
        refused += bool(outcome.error)
        if is_signed and not outcome.error:  # no signature covers how digits are written
            assert outcome.content == content
        if not outcome.error:
            assert len(outcome.content) == len(content)
    assert refused > count / 2


def test_a_body_without_its_end_is_never_complete() -> None:
    for body, length, trailers, seal in (
        (chunked((40, 0), signatures([b"a" * 40, b""], SEAL), b"\r\n"), 40, (), SEAL),
        (unsigned((40, 0), _LINE + b"\r\n\r\n"), 40, (CRC,), ABSENT),
    ):
        assert not decoded([body], length, trailers, seal).error
        for end in range(len(body)):
            assert decoded([body[:end]], length, trailers, seal).error
