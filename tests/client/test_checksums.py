"""Checksums of transfers: what is digested, by which thread, what is compared, and when."""

import io
from collections.abc import Callable, Iterator
from hashlib import md5

import pytest

from graveler.core.errors import Corrupt, Invalid
from graveler.lake.checksums import Digest, Pipeline, UploadBody, expected_md5, md5_of
from tests.waiting import until

LENGTHS = (0, 1, 131_071, 131_072, 131_073, 262_145, (4 << 20) - 1, 4 << 20, (5 << 20) + 7)
LARGE = [b"x" * (1 << 20)] * 5  # digested by a thread
MD5 = "900150983cd24fb0d6963f7d28e17f72"  # of abc
EMPTY = md5(b"").hexdigest()
HERE = "https://b.s3.eu-west-1.amazonaws.com/x"


def content(length: int) -> bytes:
    """Bytes of which no two pieces are the same."""
    return b"".join(number.to_bytes(4, "big") for number in range(length // 4 + 1))[:length]


# ---- in a second thread --------------------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
def test_what_is_taken_is_hashed_and_handed_out_by_few_buffers(length: int) -> None:
    whole, taken, seen = content(length), bytearray(), []
    source = io.BytesIO(whole)

    def read_into(buffer: memoryview) -> int:
        seen.append(buffer.obj)  # kept, so that no other buffer gets the same id
        return source.readinto(buffer)

    with Digest(length) as digest:
        while piece := digest.take(read_into):
            taken += piece
        assert digest.hexdigest() == md5(whole).hexdigest()
    assert taken == whole
    assert len(set(map(id, seen))) <= 16 and len(seen) == -(-length // (1 << 17)) + 1


def test_a_content_that_is_longer_than_it_was_said_is_not_read_in_bytes() -> None:
    source = io.BytesIO(content(4_096))
    with Digest(0) as digest:
        assert len(digest.take(source.readinto)) == 4_096


def test_pieces_and_buffers_mix_in_order() -> None:
    whole = content(6 << 20)
    source = io.BytesIO(whole[1_000_000:])
    with Digest(len(whole)) as digest:
        digest.add(whole[:1_000_000])
        while digest.take(source.readinto):
            pass
        assert digest.hexdigest() == md5(whole).hexdigest()


@pytest.mark.parametrize("length", [10, 5 << 20])
def test_a_buffer_that_could_not_be_filled_is_free_again(length: int) -> None:
    def broken(buffer: memoryview) -> int:
        raise OSError("reset")

    with Digest(length) as digest:
        for _ in range(20):
            with pytest.raises(OSError, match="reset"):
                digest.take(broken)
        assert digest.take(io.BytesIO(b"abc").readinto) == b"abc"
        assert digest.hexdigest() == MD5


@pytest.mark.parametrize("length", [10, 8 << 20])
def test_an_error_of_the_use_ends_the_pieces(length: int) -> None:
    """Also if it comes in the second thread, and while the caller waits for a free buffer."""
    used: list[int] = []

    def use(piece: bytes | memoryview) -> None:
        used.append(len(piece))
        if len(used) == 2:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"), Pipeline(use, length) as pieces:
        while pieces.take(len):
            pass
    assert len(used) == 2


@pytest.mark.parametrize("length", [10, 8 << 20])
def test_nothing_is_read_after_an_error(length: int) -> None:
    def use(piece: bytes | memoryview) -> None:
        raise OSError(28, "No space left on device")

    def fails(read_into: Callable[[memoryview], int]) -> bool:
        try:
            pieces.take(read_into)
        except OSError as error:
            return error.errno == 28
        return False

    with pytest.raises(KeyError), Pipeline(use, length) as pieces:
        until(lambda: fails(len), "the error")
        for _ in range(40):  # more often than there are buffers
            assert fails(lambda _: pytest.fail("it was read"))
        raise KeyError  # what the caller raises goes first


def test_all_is_used_when_the_block_ends_and_its_last_error_is_raised() -> None:
    used: list[bytes] = []

    def use(piece: bytes | memoryview) -> None:
        used.append(bytes(piece))
        if piece == b"99":
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"), Pipeline(use, 8 << 20) as pieces:
        for number in range(100):
            pieces.add(b"%d" % number)
    assert used == [b"%d" % number for number in range(100)]


# ---- bodies of uploads ---------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[], [b""], [b"abc"], [b"a", b"", b"bc"], LARGE])
@pytest.mark.parametrize("is_length_known", [True, False])
def test_a_body_is_handed_out_and_digested(pieces: list[bytes], is_length_known: bool) -> None:
    whole = b"".join(pieces)
    with UploadBody("a", pieces, len(whole) if is_length_known else -1) as body:
        assert not body.ended
        assert b"".join(body) == whole and body.ended
        assert body.checksum() == md5(whole).hexdigest()


@pytest.mark.parametrize("pieces", [[], [b"abd"], [b"ab", b"d"], LARGE])
@pytest.mark.parametrize("more", [-1, 1])
def test_the_last_piece_of_another_length_is_not_handed_out(pieces: list[bytes], more: int) -> None:
    length = max(sum(map(len, pieces)) + more, 0) or 1
    out = b""
    with UploadBody("a/b", pieces, length) as body:
        with pytest.raises(Invalid, match="changed"):
            for piece in body:
                out += piece
        assert len(out) < length and not body.ended


def test_a_piece_is_handed_out_before_it_is_digested() -> None:
    def unready() -> Iterator[bytes]:
        yield b"abc"
        raise AssertionError("the end was awaited")

    with UploadBody("a", unready()) as body:
        assert next(iter(body)) == b"abc"
        assert body.checksum() == EMPTY


def test_only_another_md5_is_wrong() -> None:
    with UploadBody("a", [b"abc"], 3) as body:
        list(body)
        for stored in (MD5, MD5.upper(), "", f"{MD5}-1", "0x8DC", "c"):
            body.check(stored, "try again")
        with pytest.raises(Corrupt, match=f"path=a sent='{MD5}' stored={EMPTY}; try again"):
            body.check(EMPTY, "try again")


# ---- checksums in answers ------------------------------------------------------------------------

ENCRYPTED = "x-amz-server-side-encryption"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": f'"{MD5}-3"'},
        {"ETag": '"0x8DC3A1B2C3D4E5F"'},
        {"ETag": f'W/"{MD5}"'},
        {"ETag": f'"{MD5}"', ENCRYPTED: "aws:kms"},
        {"ETag": f'"{MD5}"', ENCRYPTED: "aws:kms:dsse"},
        {"ETag": f'"{MD5}"', f"{ENCRYPTED}-customer-algorithm": "AES256"},
        {"ETag": f'"{MD5}"', "x-goog-encryption-algorithm": "AES256"},
        {"ETag": f'"{MD5}"', "x-goog-encryption-kms-key-name": "k"},
    ],
)
def test_an_etag_that_is_no_md5_is_not_compared(headers: dict[str, str]) -> None:
    assert md5_of(HERE, headers) == ""


def test_the_etag_of_plain_content_is_its_md5() -> None:
    plain = {"ETag": f'"{MD5}"'}
    for more in ({}, {ENCRYPTED: "AES256"}):
        assert md5_of(HERE, plain | more) == MD5
    assert md5_of("https://b--x-s3.s3express-az1.eu-west-1.amazonaws.com/x", plain) == ""


@pytest.mark.parametrize(
    ("checksum", "headers", "expected"),
    [
        (MD5, {}, MD5),
        (MD5.upper(), {}, MD5),
        ("several-2", {}, ""),
        (MD5, {"ETag": f'"{MD5}"', ENCRYPTED: "AES256"}, MD5),
        (MD5, {"ETag": f'"{MD5}"', ENCRYPTED: "aws:kms"}, ""),
        (MD5, {"ETag": '"another"', ENCRYPTED: "aws:kms"}, MD5),
    ],
)
def test_the_etag_of_an_encrypted_object_is_no_md5_of_what_is_read(
    checksum: str, headers: dict[str, str], expected: str
) -> None:
    assert expected_md5(checksum, headers) == expected
