"""Signature Version 4: AWS's examples are accepted, and what the canonical form distinguishes."""

import pytest

from graveler.gateway.claims import Form
from graveler.gateway.payload import ChunkSeal
from graveler.gateway.signatures import SigningKeys, text_to_sign
from tests.gateway.vectors import (
    EMPTY,
    GET,
    KEY,
    KEY_ID,
    LIFECYCLE,
    LIST,
    MOMENT,
    PRESIGNED,
    PUT,
    SCOPE,
    SECRET,
    SEED,
    TRAILER_SEED,
    RawRequest,
    base_headers,
    changed,
    header_request,
    is_accepted,
    parse,
    signed,
)

# ---- AWS's examples ------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [GET, PUT, LIFECYCLE, LIST, PRESIGNED])
def test_an_example_of_aws_is_accepted_and_no_other_signature(request_: RawRequest) -> None:
    assert is_accepted(request_)
    claim = parse(request_)
    assert claim.key_id == KEY_ID and claim.scope == SCOPE.encode()
    assert not is_accepted(request_._replace(method="HEAD"))
    assert not is_accepted(request_._replace(path=b"/test.tx"))


@pytest.mark.parametrize(
    ("form", "length", "further", "seed"),
    [
        (Form.CHUNKS, "66824", {}, SEED),
        (Form.CHUNKS_TRAILER, "", {"x-amz-trailer": "x-amz-checksum-crc32c"}, TRAILER_SEED),
    ],
)
def test_a_request_with_signed_chunks_gives_the_first_signature_of_their_chain(
    form: Form, length: str, further: dict[str, str], seed: bytes
) -> None:
    headers = base_headers(form.value, x_amz_storage_class="REDUCED_REDUNDANCY") | further
    headers |= {"host": "s3.amazonaws.com", "content-encoding": "aws-chunked"}
    headers |= {"x-amz-decoded-content-length": "66560"}
    if length:
        headers["content-length"] = length
    request = header_request("PUT", b"/examplebucket/chunkObject.txt", b"", headers, seed)
    assert is_accepted(request)
    claim = parse(request)
    assert (claim.payload.form, claim.signature) == (form, seed)


# ---- the canonical form --------------------------------------------------------------------------


def test_the_path_is_decoded_once_and_keeps_its_dots_and_slashes() -> None:
    def signature(path: bytes) -> bytes:
        return text_to_sign(parse(GET._replace(path=path)))

    assert signature(b"/a b") == signature(b"/a%20b")
    assert signature(b"/%61/~x") == signature(b"/a/%7ex")
    plain = {signature(path) for path in (b"/a/b", b"/a//b", b"/a/./b", b"/a/../b", b"/a+b",
                                          b"/a%20b", b"/a%2520b", b"/a%00b", b"/A/b")}  # fmt: skip
    assert len(plain) == 9
    assert signature(b"/a+b") == signature(b"/a%2Bb")
    assert signature(b"") == signature(b"/")


def test_the_query_is_sorted_and_a_plus_is_a_space() -> None:
    def signature(query: bytes) -> bytes:
        return text_to_sign(parse(LIST._replace(query=query)))

    assert signature(b"prefix=J&max-keys=2") == signature(b"max-keys=2&prefix=J")
    assert signature(b"prefix=a+b") == signature(b"prefix=a%20b") != signature(b"prefix=a%2Bb")
    assert signature(b"acl") == signature(b"acl=") != signature(b"acl=x")
    assert signature(b"a-=1&a=2") == signature(b"a=2&a-=1")
    assert signature(b"prefix=%c3%a4") == signature(b"prefix=%C3%A4")


def test_spaces_in_a_header_count_once_and_repeated_headers_are_joined() -> None:
    request = signed(header_request("GET", b"/", b"", base_headers(range="a b,c"), b"?"))
    assert is_accepted(changed(request, b"range", b"a b,c", b"  a   b,c "))
    for name, value in ((b"x-amz-date", MOMENT), (b"x-amz-content-sha256", EMPTY.encode())):
        assert is_accepted(changed(request, name, value, value + b" \t"))
    others = [pair for pair in request.headers if pair[0] != b"range"]
    assert is_accepted(request._replace(headers=(*others, (b"range", b"a b"), (b"range", b"c"))))
    swapped = request._replace(headers=(*others, (b"range", b"c"), (b"range", b"a b")))
    assert not is_accepted(swapped)


# ---- keys ----------------------------------------------------------------------------------------


def test_signing_keys_are_remembered_by_epoch_day_and_region_up_to_a_bound() -> None:
    keys, claim = SigningKeys(), parse(GET)
    assert keys.get(claim, SECRET, "e") == KEY
    assert keys.get(claim, "another", "e") == KEY  # the epoch names the secret
    assert keys.get(claim, "another", "f") != KEY
    for number in range(5_000):
        keys.get(claim, SECRET, f"e{number}")
    assert len(keys._keys) < 5_000


def test_no_secret_is_shown() -> None:
    seal = ChunkSeal(KEY, MOMENT, SCOPE.encode(), SEED)
    assert repr(KEY) not in repr(seal)
