"""Who sent a request: real keys, real signatures, and answers that say no more than they must."""

import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.auth import credentials
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, Refused
from graveler.gateway.claims import Form, scope
from graveler.gateway.errors import S3Error
from graveler.gateway.payload import ChunkSeal, Identity
from graveler.gateway.request import Pairs, S3Request, parameters, request_of
from graveler.gateway.signatures import Authentication, signing_key
from graveler.http.service import Service
from tests.auth.bench import Lake
from tests.auth.test_sealing import as_hash_alone
from tests.gateway.serving import DOMAIN, gateway
from tests.gateway.test_chunks import signatures

CRC_OF_CONTENT = b64encode(zlib.crc32(b"content").to_bytes(4, "big")).decode()


class World:
    """A lake with a key of ann, and a process that knows it."""

    def __init__(self, *, signature_v2: bool = False) -> None:
        self.lake = Lake()
        self.key, _ = credentials.create(self.lake.keeper(), "ann")
        self.auth = Authenticator(self.lake.keeper())
        self.ahead_ns = 0
        now = SystemClock().now_ns
        ports = SimpleNamespace(clock=SimpleNamespace(now_ns=lambda: now() + self.ahead_ns))
        self.service = cast(Service, SimpleNamespace(auth=self.auth, ports=ports))
        self.gate = Authentication((DOMAIN,), signature_v2=signature_v2)

    def identify(self, request: S3Request, address: str = "10.0.0.1") -> Identity:
        return self.gate.identify(self.service, request, lambda: address)

    def failure(self, request: S3Request, address: str = "10.0.0.1") -> str:
        try:
            self.identify(request, address)
        except S3Error as error:
            return error.s3_code
        except GravelerError as error:
            return type(error).__name__
        return ""


def signed(
    key: NewCredential,
    method: str = "GET",
    target: str = "/lake/main/a",
    *,
    signer: Callable[..., Any] | None = None,
    host: str = DOMAIN,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> S3Request:
    """A request that botocore signs with a key, as the server has it."""
    request = AWSRequest(method, f"http://{host}{target}", headers=dict(headers or {}), data=body)
    given = Credentials(key.access_key_id, key.secret_access_key)
    request.auth_path = None
    (signer or in_header)(given).add_auth(request)
    return received(request)


def in_header(given: Credentials) -> S3SigV4Auth:
    return S3SigV4Auth(given, "s3", "us-east-1")


def in_query(given: Credentials) -> S3SigV4QueryAuth:
    return S3SigV4QueryAuth(given, "s3", "us-east-1", expires=60)


def received(request: AWSRequest) -> S3Request:
    host, _, target = request.url.partition("://")[2].partition("/")
    path, _, query = target.partition("?")
    lines = [(name.lower().encode(), str(value).encode()) for name, value in request.headers.items()
             if name != "Date" or "Signature=" not in query]  # fmt: skip
    return request_of(
        {
            "method": request.method,
            "raw_path": b"/" + path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", host.encode()), *lines],
        }
    )


def wrong(key: NewCredential) -> NewCredential:
    return NewCredential(key.access_key_id, "w" * 40)


def with_lines(request: S3Request, lines: Pairs) -> S3Request:
    """The request with other header lines."""
    return request_of(
        {
            "method": request.method,
            "raw_path": request.raw_path,
            "query_string": request.raw_query,
            "headers": lines,
        }
    )


def with_header(request: S3Request, name: bytes, value: bytes) -> S3Request:
    return with_lines(request, (*request.lines, (name, value)))


# ---- who sent it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("signer", [in_header, in_query, HmacV1QueryAuth])
def test_a_signed_request_is_that_of_its_user(signer: Callable[..., Any]) -> None:
    world = World()
    identity = world.identify(signed(world.key, signer=signer))
    assert identity.caller.user == "ann"
    assert world.failure(signed(wrong(world.key), signer=signer)) == "SignatureDoesNotMatch"
    unknown = NewCredential("GRVLUNKNOWN", world.key.secret_access_key)
    assert world.failure(signed(unknown, signer=signer)) == "InvalidAccessKeyId"


def test_a_request_without_a_signature_is_refused() -> None:
    world = World()
    request = signed(world.key)
    lines = [pair for pair in request.lines if pair[0] != b"authorization"]
    assert world.failure(with_lines(request, lines)) == "AccessDenied"


def test_what_is_wrong_without_a_secret_costs_no_request_and_counts_as_no_guess() -> None:
    world = World()
    request = with_header(signed(wrong(world.key)), b"x-amz-copy-source", b"/lake/main/secret")
    for _ in range(50):
        assert world.failure(request) == "AccessDenied"
    world.ahead_ns = 16 * 60 * 10**9
    assert world.failure(signed(world.key)) == "RequestTimeTooSkewed"
    world.ahead_ns = 0
    assert world.failure(signed(world.key)) == ""


def test_guesses_are_limited() -> None:
    world = World()
    guesses = [world.failure(signed(wrong(world.key))) for _ in range(11)]
    assert guesses == ["SignatureDoesNotMatch"] * 10 + ["Throttled"]
    assert world.failure(signed(world.key)) == "Throttled"
    assert world.failure(signed(world.key), "10.0.0.2") == ""


def test_a_key_whose_secret_is_stored_as_a_hash_gets_an_answer_that_says_so() -> None:
    world = World()
    as_hash_alone(world.lake, world.key)
    with pytest.raises(Refused, match="stored only as a hash"):
        world.identify(signed(world.key))


def test_a_key_that_has_ended_is_unknown() -> None:
    world = World()
    assert world.failure(signed(world.key)) == ""
    credentials.delete(world.lake.keeper(), "ann", world.key.access_key_id)
    world.auth.access.forget("ann")
    assert world.failure(signed(world.key)) == "InvalidAccessKeyId"


def test_the_same_request_again_is_the_same_caller() -> None:
    """A presigned URL may be used until it expires, and clients repeat a request."""
    world = World()
    for signer in (in_header, in_query):
        request = signed(world.key, signer=signer)
        assert [world.failure(request) for _ in range(3)] == ["", "", ""]


# ---- presigned URLs ------------------------------------------------------------------------------


def test_nobody_adds_a_source_of_a_copy_to_a_presigned_put() -> None:
    world = World()
    for signer in (in_query, HmacV1QueryAuth):
        world_of_v2 = World(signature_v2=True)
        request = signed(world_of_v2.key, "PUT", signer=signer)
        assert world_of_v2.failure(request) == ""
        forged = with_header(request, b"x-amz-copy-source", b"/lake/main/secret")
        assert world_of_v2.failure(forged) in ("AccessDenied", "SignatureDoesNotMatch")
    request = signed(world.key, "PUT", signer=in_query)
    query = request.raw_query + b"&x-amz-copy-source=/lake/main/secret"
    changed = request._replace(raw_query=query, pairs=parameters(query))
    assert world.failure(changed) == "SignatureDoesNotMatch"


def test_parameters_that_stand_for_headers_are_given_to_the_route() -> None:
    world = World()
    target = "/lake/main/b?x-amz-copy-source=%2Flake%2Fmain%2Fa&X-Amz-Meta-Color=red"
    identity = world.identify(signed(world.key, "PUT", target, signer=in_query))
    assert dict(identity.hoisted) == {
        b"x-amz-copy-source": b"/lake/main/a",
        b"x-amz-meta-color": b"red",
    }
    assert world.identify(signed(world.key)).hoisted == ()


_V2_TARGETS = ("/", "/lake/?prefix=a&delimiter=/", "/lake/?uploads", "/lake/?list-type=2",
    "/lake/main/a%20b", "/lake/main/a?uploadId=x%2By&partNumber=1",
    "/lake/main/a?response-content-type=text%2Fhtml")  # fmt: skip


@pytest.mark.parametrize("target", _V2_TARGETS)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_a_header_of_version_2_is_accepted_with_the_switch(method: str, target: str) -> None:
    world = World(signature_v2=True)
    headers = {"x-amz-meta-b": "2 3", "X-Amz-Meta-A": "1", "Content-Type": "text/plain"}
    request = signed(world.key, method, target, signer=HmacV1Auth, headers=headers)
    assert world.failure(request) == ""
    assert World().failure(request) == "InvalidRequest"
    for forged in (
        with_header(request, b"x-amz-copy-source", b"/lake/main/secret"),
        with_header(request, b"content-type", b"text/html"),
        request._replace(raw_path=request.raw_path + b"x"),
        request._replace(method="HEAD"),
        request._replace(pairs=(*request.pairs, (b"acl", b""))),
    ):
        assert world.failure(forged) == "SignatureDoesNotMatch"
    other = signed(wrong(world.key), method, target, signer=HmacV1Auth)
    assert world.failure(other) == "SignatureDoesNotMatch"


def test_a_header_of_version_2_has_a_date_of_now() -> None:
    world = World(signature_v2=True)
    request = signed(world.key, signer=HmacV1Auth)
    assert world.failure(request) == ""
    for minutes in (-16, 16):
        world.ahead_ns = minutes * 60 * 10**9
        assert world.failure(request) == "RequestTimeTooSkewed"
    undated = with_lines(request, [line for line in request.lines if line[0] != b"date"])
    assert world.failure(undated) == "AccessDenied"


def test_boto3_works_with_version_2_in_headers(tmp_path: Path) -> None:
    with gateway(tmp_path / "store", signature_v2=True) as running:
        repo = running.live.fresh_repository()
        boto = running.boto(signature_version="s3")
        boto.put_object(Bucket=repo, Key="main/a b+\u00fc", Body=b"x" * 70_000)
        assert boto.get_object(Bucket=repo, Key="main/a b+\u00fc")["ContentLength"] == 70_000
        page = boto.list_objects_v2(Bucket=repo, Prefix="main/", Delimiter="/")
        assert [line["Key"] for line in page["Contents"]] == ["main/a b+\u00fc"]
        batch = {"Objects": [{"Key": "main/a b+\u00fc"}]}
        assert "Errors" not in boto.delete_objects(Bucket=repo, Delete=batch)


@pytest.mark.parametrize("target", ["/", "/lake", "/lake/"])
def test_a_url_of_version_2_names_a_key(target: str) -> None:
    world = World()
    assert world.failure(signed(world.key, "GET", target, signer=HmacV1QueryAuth)) == (
        "InvalidRequest"
    )


def test_a_url_of_version_2_in_host_style_signs_its_bucket() -> None:
    world = World()
    auth = HmacV1QueryAuth(Credentials(world.key.access_key_id, world.key.secret_access_key))
    request = AWSRequest("GET", f"http://lake.{DOMAIN}/main/a", headers={})
    request.auth_path = "/lake/main/a"
    auth.add_auth(request)
    right = received(request)
    assert world.failure(right) == ""
    lines = [(name, b"pond." + DOMAIN.encode() if name == b"host" else value)
             for name, value in right.lines]  # fmt: skip
    other = with_lines(right, lines)
    assert world.failure(other) == "SignatureDoesNotMatch"


# ---- bodies --------------------------------------------------------------------------------------


def test_the_body_is_verified_by_its_hash_and_length() -> None:
    world = World()
    request = with_header(signed(world.key, "PUT", body=b"content"), b"content-length", b"7")
    identity = world.identify(request)
    assert identity.payload.length == 7
    assert b"".join(identity.payload.content([b"con", b"tent"])) == b"content"
    assert identity.payload.echo() == ()
    for body, code in ((b"kontent", "XAmzContentSHA256Mismatch"), (b"conten", "IncompleteBody")):
        with pytest.raises(S3Error) as caught:
            list(world.identify(request).payload.content([body]))
        assert caught.value.s3_code == code


def whole(world: World, request: S3Request, body: bytes) -> str:
    """`accepted`, or the code of the error of a body that arrived whole."""
    payload = world.identify(request).payload
    try:
        assert b"".join(payload.whole(body)) == (body and b"content")
    except S3Error as error:
        return error.s3_code
    return "accepted"


def test_a_body_that_arrived_whole_is_verified_as_one_that_streams() -> None:
    world, length = World(), (b"content-length", b"7")
    key = world.key
    hashed = with_header(signed(key, "PUT", body=b"content"), *length)
    empty = with_header(signed(key, "PUT"), b"content-length", b"0")
    unsigned = with_header(signed(key, "PUT", signer=in_query), *length)
    crc = {"x-amz-checksum-crc32": CRC_OF_CONTENT}
    checked = with_header(signed(key, "PUT", signer=in_query, headers=crc), *length)
    assert (
        whole(world, empty, b"") == "accepted"
        and whole(world, empty, b"content") == "IncompleteBody"
    )
    for request, of_other in (
        (hashed, "XAmzContentSHA256Mismatch"),
        (unsigned, ""),
        (checked, "BadDigest"),
    ):
        assert whole(world, request, b"content") == "accepted"
        assert whole(world, request, b"conten") == whole(world, request, b"") == "IncompleteBody"
        assert whole(world, request, b"contents") == "IncompleteBody"
        assert not of_other or whole(world, request, b"kontent") == of_other


def test_a_body_without_a_length_is_refused_before_it_is_read() -> None:
    world = World()
    payload = world.identify(signed(world.key, "PUT", body=b"content")).payload
    for read in (lambda: payload.length, lambda: payload.content(iter([]))):
        with pytest.raises(S3Error) as caught:
            read()
        assert caught.value.s3_code == "MissingContentLength"


def test_the_chunks_of_a_body_are_signed_with_the_key_of_the_request() -> None:
    world = World()
    for _ in range(2):  # the second time with what the process remembers
        stated = {"X-Amz-Decoded-Content-Length": "5"}
        request, seal = chunked_request(world.key, stated)
        names = signatures([b"hello", b""], seal)
        body = b"5;chunk-signature=%s\r\nhello\r\n0;chunk-signature=%s\r\n\r\n" % tuple(names)
        length = b"%d" % len(body)
        identity = world.identify(with_header(request, b"content-length", length))
        assert b"".join(identity.payload.content([body])) == b"hello"
        identity = world.identify(with_header(request, b"content-length", length))
        assert b"".join(identity.payload.whole(body)) == b"hello"
        identity = world.identify(with_header(request, b"content-length", length))
        with pytest.raises(S3Error) as caught:
            list(identity.payload.content([body.replace(b"hello", b"jello")]))
        assert caught.value.s3_code == "SignatureDoesNotMatch"


class _Chunked(S3SigV4Auth):
    """Signs a request whose chunks are signed."""

    def payload(self, request: AWSRequest) -> str:
        return Form.CHUNKS.value


def chunked_request(key: NewCredential, headers: Mapping[str, str]) -> tuple[S3Request, ChunkSeal]:
    """A request for signed chunks, and what signs them."""

    def signer(given: Credentials) -> _Chunked:
        return _Chunked(given, "s3", "us-east-1")

    request = signed(key, "PUT", signer=signer, headers=headers)
    moment = request.headers[b"x-amz-date"]
    signature = request.headers[b"authorization"].rpartition(b"Signature=")[2]
    signing_key_ = signing_key(key.secret_access_key, moment[:8], b"us-east-1")
    return request, ChunkSeal(signing_key_, moment, scope(moment[:8], b"us-east-1"), signature)


def test_a_checksum_is_repeated_in_the_answer() -> None:
    world = World()
    crc = {"x-amz-checksum-crc32": CRC_OF_CONTENT}
    request = signed(world.key, "PUT", body=b"content", headers=crc)
    identity = world.identify(with_header(request, b"content-length", b"7"))
    list(identity.payload.content([b"content"]))
    assert identity.payload.echo() == ((b"x-amz-checksum-crc32", CRC_OF_CONTENT.encode()),)


def test_a_checksum_of_an_object_is_not_one_of_the_list_of_its_parts() -> None:
    world = World()
    crc = {"x-amz-checksum-crc32": "AAAAAA=="}
    for target, code in (("/lake/main/a?uploadId=x", ""), ("/lake?delete", "BadDigest")):
        request = signed(world.key, "POST", target, body=b"content", headers=crc)
        payload = world.identify(with_header(request, b"content-length", b"7")).payload
        try:
            list(payload.content([b"content"]))
        except S3Error as error:
            assert error.s3_code == code
        else:
            assert code == ""
