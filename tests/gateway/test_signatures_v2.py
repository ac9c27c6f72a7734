"""Signature Version 2 in URLs: only for keys, only without other parameters.  In headers: only with
the switch."""

import base64
import hmac

import pytest

from graveler.gateway import signatures
from graveler.gateway.claims import Form, StatedPayload
from graveler.gateway.errors import S3Error
from tests.gateway.vectors import EMPTY, KEY_ID, NOW_NS, SECOND, SECRET, RawRequest, opened

NOW = NOW_NS // SECOND
HOST = (b"host", b"lake.s3.lake.test")


def request(
    method: str = "GET",
    path: bytes = b"/lake/main/a%20b",
    *,
    expires: int | str = NOW + 60,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    signed_path: bytes = b"",
    amz: str = "",
) -> RawRequest:
    """A request whose URL has the right signature."""
    text = f"{method}\n\n\n{expires}\n{amz}".encode() + (signed_path or path)
    signature = base64.b64encode(hmac.digest(SECRET.encode(), text, "sha1")).decode()
    encoded = signature.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    query = f"AWSAccessKeyId={KEY_ID}&Signature={encoded}&Expires={expires}"
    return RawRequest(method, path, query.encode(), (HOST, *headers), NOW_NS)


def outcome(
    request: RawRequest, bucket: str = "", *, has_key: bool = True, writes: bool = False
) -> str:
    """`accepted`, `forged`, or the code of the error."""
    try:
        claim = signatures.claim_of_url_v2(opened(request), bucket, has_key=has_key, writes=writes)
    except S3Error as error:
        return error.s3_code
    return "accepted" if signatures.is_signed_v2(claim, SECRET) else "forged"


def test_a_url_reads_a_key() -> None:
    assert outcome(request()) == outcome(request("HEAD")) == "accepted"
    claim = signatures.claim_of_url_v2(opened(request()), "", has_key=True, writes=False)
    assert claim.key_id == KEY_ID and not signatures.is_signed_v2(claim, SECRET + "x")


def test_a_url_writes_a_key_only_with_the_switch() -> None:
    assert outcome(request("PUT")) == "InvalidRequest"
    assert outcome(request("PUT"), writes=True) == "accepted"
    for method in ("POST", "DELETE", "OPTIONS"):
        assert outcome(request(method), writes=True) == "InvalidRequest"


def test_a_url_names_a_key_and_nothing_else() -> None:
    assert outcome(request(path=b"/lake"), has_key=False) == "InvalidRequest"
    forged = request()._replace(query=request().query + b"&response-content-type=text/html")
    assert outcome(forged) == "forged"
    for further in (b"&acl", b"&versionId=x", b"&response-x=y", b"&x-amz-a=b"):
        sent = request()
        assert outcome(sent._replace(query=sent.query + further)) == "InvalidRequest"
    for missing in (b"Expires", b"Signature", b"AWSAccessKeyId"):
        sent = request()
        left = b"&".join(each for each in sent.query.split(b"&") if not each.startswith(missing))
        assert outcome(sent._replace(query=left)) == "InvalidRequest"


def test_a_url_expires_and_lives_at_most_7_days() -> None:
    week = 7 * 24 * 3600
    for expires, expected in (
        (NOW, "AccessDenied"),
        (NOW + 1, "accepted"),
        (NOW + week, "accepted"),
        (NOW + week + 1, "AuthorizationQueryParametersError"),
        ("", "AccessDenied"),
        ("-1", "AccessDenied"),
        ("1e9", "AccessDenied"),
        ("9" * 40, "AccessDenied"),
    ):
        assert outcome(request(expires=expires)) == expected


def test_the_bucket_of_the_host_is_signed() -> None:
    sent = request(path=b"/main/a", signed_path=b"/lake/main/a")
    assert outcome(sent, "lake") == "accepted"
    assert outcome(sent, "pond") == outcome(sent) == "forged"


def test_the_path_is_signed_as_it_was_sent() -> None:
    for other in (b"/lake/main/a+b", b"/lake/main/a%2520b", b"/lake/main//a%20b", b"/pond/main/a"):
        assert outcome(request()._replace(path=other)) == "forged"


def test_headers_that_instruct_are_signed() -> None:
    copy = (b"x-amz-copy-source", b"/lake/main/secret")
    assert outcome(request("PUT", headers=(copy,)), writes=True) == "forged"
    amz = "x-amz-acl:private\nx-amz-copy-source:/lake/main/secret\n"
    both = ((b"x-amz-acl", b"private"), copy)
    assert outcome(request("PUT", headers=both, amz=amz), writes=True) == "accepted"
    for name in (b"content-type", b"content-md5"):
        assert outcome(request(headers=((name, b"text/html"),))) == "forged"


def test_there_are_no_temporary_credentials() -> None:
    assert outcome(request(headers=((b"x-amz-security-token", b"x"),))) == "InvalidToken"


@pytest.mark.parametrize("scheme", [b"AWS", b"AWS " + KEY_ID.encode() + b":c2ln"])
def test_a_header_of_version_2_is_refused(scheme: bytes) -> None:
    sent = RawRequest("GET", b"/lake/main/a", b"", (HOST, (b"authorization", scheme)), NOW_NS)
    assert outcome(sent) == "InvalidRequest"


@pytest.mark.parametrize("value", [b"AWS", b"AWS x", b"AWS :c2ln", b"AWS " + b"k" * 129 + b":c2ln"])
def test_a_malformed_header_of_version_2_is_refused(value: bytes) -> None:
    sent = RawRequest("GET", b"/lake/main/a", b"", (HOST, (b"authorization", value)), NOW_NS)
    with pytest.raises(S3Error) as error:
        signatures.claim_of_header_v2(opened(sent), "", allowed=True)
    assert error.value.s3_code == "AuthorizationHeaderMalformed"


def test_a_body_has_the_hash_that_is_signed_and_no_frames() -> None:
    def sent(stated: str) -> RawRequest:
        header = (b"x-amz-content-sha256", stated.encode())
        return request("PUT", headers=(header,), amz=f"x-amz-content-sha256:{stated}\n")

    claim = signatures.claim_of_url_v2(opened(sent(EMPTY)), "", has_key=True, writes=True)
    assert signatures.is_signed_v2(claim, SECRET)
    assert claim.payload == StatedPayload(Form.HASH, EMPTY)
    for form in (Form.UNSIGNED_TRAILER, Form.CHUNKS, Form.CHUNKS_TRAILER):
        assert outcome(sent(form.value), writes=True) == "AccessDenied"
    assert outcome(sent(Form.UNSIGNED.value), writes=True) == "accepted"
