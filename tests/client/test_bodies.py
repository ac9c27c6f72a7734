"""Bodies of uploads: what is digested, what is compared, and when."""

from collections.abc import Iterator
from hashlib import md5

import pytest

from graveler.client.bodies import UploadBody, expected_md5, md5_of
from graveler.errors import Corrupt, Invalid

LARGE = [b"x" * (1 << 20)] * 5  # digested by a thread
MD5 = "900150983cd24fb0d6963f7d28e17f72"  # of abc


def digest(pieces: list[bytes]) -> str:
    return md5(b"".join(pieces), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("pieces", [[], [b""], [b"abc"], [b"a", b"", b"bc"], LARGE])
@pytest.mark.parametrize("is_length_known", [True, False])
def test_a_body_that_is_sent_again_is_digested_anew(
    pieces: list[bytes], is_length_known: bool
) -> None:
    length = sum(map(len, pieces)) if is_length_known else -1
    with UploadBody("a", pieces, length) as body:
        first = iter(body)
        if any(pieces):
            next(first)
        assert not body.ended
        for _ in range(2):
            assert b"".join(body) == b"".join(pieces)
            assert body.ended
        assert body.checksum() == digest(pieces)


@pytest.mark.parametrize("pieces", [[], [b"abd"], [b"ab", b"d"], LARGE])
@pytest.mark.parametrize("more", [-1, 1])
def test_the_last_piece_of_another_length_is_not_handed_out(pieces: list[bytes], more: int) -> None:
    length = sum(map(len, pieces)) + more
    out = b""
    with UploadBody("a/b", pieces, max(length, 0) or 1) as body:
        with pytest.raises(Invalid, match="changed"):
            for piece in body:
                out += piece
        assert len(out) < (max(length, 0) or 1)
        assert not body.ended


def test_a_piece_is_handed_out_before_it_is_digested() -> None:
    def unready() -> Iterator[bytes]:
        yield b"abc"
        raise AssertionError("the end was awaited")

    with UploadBody("a", unready()) as body:
        assert next(iter(body)) == b"abc"
        assert body.checksum() == digest([])


def test_only_another_md5_is_wrong() -> None:
    with UploadBody("a", [b"abc"], 3) as body:
        list(body)
        for stored in (MD5, MD5.upper(), "", f"{MD5}-1", "0x8DC", "c"):
            body.check(stored, "try again")
        with pytest.raises(Corrupt, match=f"path=a sent='{MD5}' stored={digest([])}; try again"):
            body.check(digest([]), "try again")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": f'"{MD5}-3"'},
        {"ETag": '"0x8DC3A1B2C3D4E5F"'},
        {"ETag": f'W/"{MD5}"'},
        {"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "aws:kms"},
        {"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "aws:kms:dsse"},
        {"ETag": f'"{MD5}"', "x-amz-server-side-encryption-customer-algorithm": "AES256"},
        {"ETag": f'"{MD5}"', "x-goog-encryption-algorithm": "AES256"},
        {"ETag": f'"{MD5}"', "x-goog-encryption-kms-key-name": "k"},
    ],
)
def test_an_etag_that_is_no_md5_is_not_compared(headers: dict[str, str]) -> None:
    assert md5_of("https://b.s3.eu-west-1.amazonaws.com/x", headers) == ""


def test_the_etag_of_plain_content_is_its_md5() -> None:
    plain = {"ETag": f'"{MD5}"'}
    for more in ({}, {"x-amz-server-side-encryption": "AES256"}):
        assert md5_of("https://b.s3.eu-west-1.amazonaws.com/x", plain | more) == MD5
    assert md5_of("https://b--x-s3.s3express-az1.eu-west-1.amazonaws.com/x", plain) == ""


@pytest.mark.parametrize(
    ("checksum", "headers", "expected"),
    [
        (MD5, {}, MD5),
        (MD5.upper(), {}, MD5),
        ("several-2", {}, ""),
        (MD5, {"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "AES256"}, MD5),
        (MD5, {"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "aws:kms"}, ""),
        (MD5, {"ETag": '"another"', "x-amz-server-side-encryption": "aws:kms"}, MD5),
    ],
)
def test_the_etag_of_an_encrypted_object_is_no_md5_of_what_is_read(
    checksum: str, headers: dict[str, str], expected: str
) -> None:
    assert expected_md5(checksum, headers) == expected
