"""Bodies are verified while they stream: no iteration ends with other bytes than were stated."""

import hashlib
import random
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping

import google_crc32c
import pytest
import xxhash

from graveler.gateway import checksums, payload
from graveler.gateway.claims import Form, StatedPayload
from graveler.gateway.errors import S3Error
from graveler.gateway.payload import ChunkSeal, VerifiedBody
from tests import draws
from tests.gateway.test_crc64 import by_bits
from tests.gateway.vectors import (
    CHUNK_SIGNATURES,
    CHUNKED_LENGTH,
    KEY,
    MOMENT,
    SCOPE,
    SEED,
    chunked,
)

BODY = b"The quick brown fox" * 1_000
UNSIGNED = StatedPayload(Form.UNSIGNED)
TRAILER = StatedPayload(Form.UNSIGNED_TRAILER)
DIGESTS: Mapping[str, Callable[[bytes], bytes]] = {
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "crc32c": lambda body: google_crc32c.value(body).to_bytes(4, "big"),
    "crc64nvme": lambda body: by_bits(body).to_bytes(8, "big"),
    "sha1": lambda body: hashlib.sha1(body).digest(),
    "sha256": lambda body: hashlib.sha256(body).digest(),
    "sha512": lambda body: hashlib.sha512(body).digest(),
    "md5": lambda body: hashlib.md5(body).digest(),
    "xxhash64": lambda body: xxhash.xxh64_intdigest(body).to_bytes(8, "big"),
    "xxhash3": lambda body: xxhash.xxh3_64_intdigest(body).to_bytes(8, "big"),
    "xxhash128": lambda body: xxhash.xxh3_128_intdigest(body).to_bytes(16, "big"),
}


def base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def headers(length: int = len(BODY), **named: str) -> dict[bytes, bytes]:
    """The headers of a body; `_` in a name stands for `-`."""
    lines = {"content_length": str(length), **named}
    return {name.replace("_", "-").encode(): text.encode() for name, text in lines.items() if text}


def outcome(
    lines: Mapping[bytes, bytes],
    body: bytes = BODY,
    form: StatedPayload = UNSIGNED,
    *,
    has_checksums: bool = True,
) -> str:
    """`right`, or the code of the error."""
    try:
        read(lines, body, form, has_checksums=has_checksums)
    except S3Error as error:
        return error.s3_code
    return "right"


def read(
    lines: Mapping[bytes, bytes],
    body: bytes = BODY,
    form: StatedPayload = UNSIGNED,
    *,
    has_checksums: bool = True,
) -> VerifiedBody:
    """The body, after it was read."""
    framing = payload.framing(lines, form, has_checksums=has_checksums)
    verified = VerifiedBody(framing, [body[at : at + 700] for at in range(0, len(body), 700)])
    pieces = list(verified)
    assert all(pieces)
    if not form.form.is_chunked:
        assert b"".join(pieces) == body
    return verified


# ---- length --------------------------------------------------------------------------------------


def test_a_body_has_the_length_that_the_request_states() -> None:
    assert outcome(headers()) == "right"
    assert outcome(headers(0), b"") == "right"
    for length in (len(BODY) - 1, len(BODY) + 1, 0):
        assert outcome(headers(length)) == "IncompleteBody"
    assert outcome({}) == "MissingContentLength"
    for text in ("x", "-1", "1.5", "9" * 16, "²"):
        assert outcome({b"content-length": text.encode()}) == "InvalidArgument"


def test_nothing_beyond_the_length_is_handed_on() -> None:
    framing = payload.framing(headers(1_000), UNSIGNED)
    verified = iter(VerifiedBody(framing, [BODY[:800], BODY[800:1_600], BODY]))
    assert next(verified) == BODY[:800]
    with pytest.raises(S3Error):
        next(verified)


def chunked_trailer(digest: str, size: int = 1_000) -> bytes:
    body = b"".join(
        b"%x\r\n%s\r\n" % (len(BODY[at : at + size]), BODY[at : at + size])
        for at in range(0, len(BODY), size)
    )
    return body + b"0\r\nx-amz-checksum-crc32:" + digest.encode() + b"\r\n\r\n"


def trailer_headers(body: bytes, **named: str) -> dict[bytes, bytes]:
    stated = {"x_amz_decoded_content_length": str(len(BODY)), **named}
    return headers(len(body), **{"x_amz_trailer": "x-amz-checksum-crc32", **stated})


def test_a_body_in_chunks_states_the_length_of_its_content() -> None:
    body = chunked_trailer(base64(DIGESTS["crc32"](BODY)))
    assert outcome(trailer_headers(body), body, TRAILER) == "right"
    missing = trailer_headers(body, x_amz_decoded_content_length="")
    assert outcome(missing, body, TRAILER) == "MissingContentLength"
    for length in (len(BODY) - 1, len(BODY) + 1):
        lines = trailer_headers(body, x_amz_decoded_content_length=str(length))
        assert outcome(lines, body, TRAILER) == "IncompleteBody"
    without_raw = trailer_headers(body)
    del without_raw[b"content-length"]  # the server unwraps Transfer-Encoding
    assert outcome(without_raw, body, TRAILER) == "right"
    assert outcome(trailer_headers(body + b"x"), body, TRAILER) == "IncompleteBody"


# ---- what proves the content ---------------------------------------------------------------------


def test_the_hash_of_the_body_is_verified_before_the_end() -> None:
    right = hashlib.sha256(BODY).hexdigest()
    assert outcome(headers(), BODY, StatedPayload(Form.HASH, right)) == "right"
    other = BODY[:-1] + b"?"
    assert outcome(headers(), other, StatedPayload(Form.HASH, right)) == "XAmzContentSHA256Mismatch"
    empty = hashlib.sha256().hexdigest()
    assert outcome(headers(0), b"", StatedPayload(Form.HASH, empty)) == "right"


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_a_checksum_is_verified_and_repeated(algorithm: str) -> None:
    name, right = f"x-amz-checksum-{algorithm}", base64(DIGESTS[algorithm](BODY))
    lines = headers(**{name: right, "x-amz-sdk-checksum-algorithm": algorithm.upper()})
    assert read(lines).echo == ((name.encode(), right.encode()),)
    assert outcome(lines, BODY[:-1] + b"?") == "BadDigest"
    for wrong in (right[:-5] + "AAAA=", right + "AAAA", right.rstrip("="), "?", right + "\n"):
        assert outcome(headers(**{name: wrong})) in ("InvalidRequest", "BadDigest")
    assert outcome(headers(**{name: right[:-1]})) == "InvalidRequest"
    crossed = headers(**{name: right, "x-amz-sdk-checksum-algorithm": "CRC99"})
    assert outcome(crossed) == "InvalidRequest"


def test_every_algorithm_that_is_served_is_tested() -> None:
    assert set(DIGESTS) == set(checksums.NAMES)


def test_content_md5_is_verified() -> None:
    right = base64(DIGESTS["md5"](BODY))
    assert outcome(headers(content_md5=right)) == "right"
    assert outcome(headers(content_md5=base64(bytes(16)))) == "BadDigest"
    for wrong in ("x", base64(bytes(15)), right[:-2], DIGESTS["md5"](BODY).hex()):
        assert outcome(headers(content_md5=wrong)) == "InvalidDigest"
    crc = {"x-amz-checksum-crc32": base64(bytes(4))}
    assert outcome(headers(content_md5=right, **crc)) == "BadDigest"


def test_a_request_has_one_checksum_of_an_algorithm_that_is_served() -> None:
    crc = {"x-amz-checksum-crc32": base64(DIGESTS["crc32"](BODY))}
    sha = {"x-amz-checksum-sha1": base64(DIGESTS["sha1"](BODY))}
    assert outcome(headers(**crc, **sha)) == "InvalidRequest"
    assert outcome(headers(**{"x-amz-checksum-crc65": "AAAA"})) == "NotImplemented"
    for other in ("algorithm", "mode", "type"):
        assert outcome(headers(**crc, **{f"x-amz-checksum-{other}": "CRC32"})) == "right"
    assert outcome(headers(**{"x-amz-sdk-checksum-algorithm": "CRC32"})) == "right"


def test_a_checksum_that_is_of_the_object_and_not_of_the_body_is_left_alone() -> None:
    lines = headers(**{"x-amz-checksum-crc32": base64(bytes(4))})
    assert outcome(lines) == "BadDigest"
    assert outcome(lines, has_checksums=False) == "right"


def test_a_trailer_is_verified() -> None:
    right = base64(DIGESTS["crc32"](BODY))
    body = chunked_trailer(right)
    verified = read(trailer_headers(body), body, TRAILER)
    assert verified.echo == ((b"x-amz-checksum-crc32", right.encode()),)
    for digest, expected in (
        (base64(bytes(4)), "BadDigest"),
        ("", "InvalidRequest"),
        ("AAAA", "InvalidRequest"),
    ):
        body = chunked_trailer(digest)
        assert outcome(trailer_headers(body), body, TRAILER) == expected


def test_a_trailer_that_was_announced_must_come_and_no_other_may() -> None:
    body = chunked_trailer(base64(DIGESTS["crc32"](BODY)))
    other = trailer_headers(body, x_amz_trailer="x-amz-checksum-sha1")
    assert outcome(other, body, TRAILER) == "MalformedTrailerError"
    none = trailer_headers(body, x_amz_trailer="")
    assert outcome(none, body, TRAILER) == "MalformedTrailerError"
    for trailer in ("x-amz-meta-a", "x-amz-checksum-crc32, x-amz-checksum-sha1"):
        lines = trailer_headers(body, x_amz_trailer=trailer)
        assert outcome(lines, body, TRAILER) == "InvalidRequest"
    without = body[: body.index(b"x-amz")] + b"\r\n"
    assert outcome(trailer_headers(without), without, TRAILER) == "MalformedTrailerError"


def test_signed_chunks_are_verified() -> None:
    seal = ChunkSeal(KEY, MOMENT, SCOPE.encode(), SEED)
    body = chunked((65_536, 1_024, 0), CHUNK_SIGNATURES, b"\r\n")
    lines = headers(len(body), x_amz_decoded_content_length=str(CHUNKED_LENGTH))
    framing = payload.framing(lines, StatedPayload(Form.CHUNKS), seal)
    pieces = [body[at : at + 5_000] for at in range(0, len(body), 5_000)]
    assert b"".join(VerifiedBody(framing, pieces)) == b"a" * CHUNKED_LENGTH
    spoiled = [pieces[0].replace(b"aaaa", b"aaab", 1), *pieces[1:]]
    with pytest.raises(S3Error) as caught:
        list(VerifiedBody(framing, spoiled))
    assert caught.value.s3_code == "SignatureDoesNotMatch"


def test_any_cut_of_a_body_gives_the_same_content() -> None:
    seed = draws.seed()
    draw = random.Random(seed)
    body = chunked_trailer(base64(DIGESTS["crc32"](BODY)), 3_000)
    framing = payload.framing(trailer_headers(body), TRAILER)
    for _ in range(50):
        cuts = sorted(draw.randrange(len(body) + 1) for _ in range(draw.randrange(40)))
        ends = [*cuts, len(body)]
        pieces = [body[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
        assert b"".join(VerifiedBody(framing, pieces)) == BODY
