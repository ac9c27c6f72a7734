"""Random requests that botocore signs are accepted, and none with one covered byte changed."""

import os
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.gateway import signatures
from graveler.gateway.errors import S3Error
from tests import draws
from tests.gateway.vectors import KEY_ID, SECOND, SECRET, RawRequest, is_accepted, opened

CREDENTIALS = Credentials(KEY_ID, SECRET)
_LETTERS = b"abcdxyzBKQ0149"
_KEYS = ("a", "Z", "0", " ", "+", "%", "/", "//", ".", "..", "~", "=", "&", "?", "#", ";", ":",
         "@", "ü", "日", "\N{GRINNING FACE}", "'", '"', "<", "\t", "\x7f", "%2F", "$")  # fmt: skip
_NAMES = ("acl", "prefix", "delimiter", "list-type", "uploadId", "partNumber", "x-id", "a b", "ü+",
          "response-content-type", "A", "a", "a-", "start-after")  # fmt: skip
_HEADERS = ("x-amz-meta-color", "x-amz-meta-b", "x-amz-copy-source", "content-type", "range",
            "content-md5", "if-match", "x-amz-acl", "x-amz-storage-class")  # fmt: skip


class Sent(NamedTuple):
    """A signed request, and the names of its headers that are signed."""

    request: RawRequest
    covered: tuple[bytes, ...]


def text(draw: random.Random, most: int) -> str:
    return "".join(draw.choices(_KEYS, k=draw.randrange(most)))


def unsigned(draw: random.Random) -> AWSRequest:
    host = draw.choice(("localhost:8000", "s3.lake.test", "lake.s3.lake.test:9000", "127.0.0.1"))
    url = f"http://{host}/" + quote(text(draw, 12), safe="/~")
    names = draw.sample(_NAMES, draw.randrange(4))
    parameters = {name: text(draw, 5) for name in names}
    headers = {name: header_value(draw) for name in draw.sample(_HEADERS, draw.randrange(4))}
    method = draw.choice(("GET", "HEAD", "PUT", "POST", "DELETE"))
    query = "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in parameters.items())
    if query:
        url += "?" + query
    return AWSRequest(method, url, headers=headers, data=draw.randbytes(draw.randrange(20)))


def header_value(draw: random.Random) -> str:
    return "".join(draw.choices("ab Z09/=;,\"'%+  -", k=draw.randrange(1, 12))).strip() or "v"


def sent(request: AWSRequest) -> tuple[str, bytes, bytes, dict[bytes, bytes]]:
    """Method, path, query and headers as a client puts them on the wire."""
    parts = urlsplit(request.url)
    headers = {
        name.lower().encode(): str(value).encode() for name, value in request.headers.items()
    }
    headers.setdefault(b"host", parts.netloc.encode())
    return request.method, parts.path.encode(), parts.query.encode(), headers


def in_header(draw: random.Random) -> Sent:
    request = unsigned(draw)
    region = draw.choice(("us-east-1", "eu-central-1", "garage", "US"))
    S3SigV4Auth(CREDENTIALS, "s3", region).add_auth(request)
    method, path, query, headers = sent(request)
    listed = headers[b"authorization"].partition(b"SignedHeaders=")[2].partition(b",")[0]
    now_ns = nanoseconds(headers[b"x-amz-date"].decode())
    lines = tuple(headers.items())
    covered = (*listed.split(b";"), b"authorization")
    return Sent(RawRequest(method, path, query, lines, now_ns), covered)


def in_query(draw: random.Random) -> Sent:
    request = unsigned(draw)
    request.data = b""  # whoever presigns does not know it
    signer = S3SigV4QueryAuth(CREDENTIALS, "s3", "us-east-1", expires=draw.randrange(1, 604_801))
    signer.add_auth(request)
    method, path, query, headers = sent(request)
    parameters = parse_qs(query.decode())
    covered = tuple(name.encode() for name in parameters["X-Amz-SignedHeaders"][0].split(";"))
    now_ns = nanoseconds(parameters["X-Amz-Date"][0])
    return Sent(RawRequest(method, path, query, tuple(headers.items()), now_ns), covered)


def nanoseconds(moment: str) -> int:
    at = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return int(at.timestamp()) * SECOND


def with_one_byte_changed(draw: random.Random, original: Sent) -> RawRequest:
    """The request with one byte changed that the signature covers, or that is of the signature."""
    request = original.request
    places: list[Any] = ["method", "path", *original.covered]
    if request.query:
        places.append("query")
    place = draw.choice(places)
    if place == "method":
        return request._replace(method=changed(draw, request.method.encode()).decode())
    if place == "path":
        return request._replace(path=b"/" + changed(draw, request.path[1:] or b"x"))
    if place == "query":
        return request._replace(query=changed(draw, request.query))
    headers = [
        (name, changed(draw, value) if name == place else value) for name, value in request.headers
    ]
    return request._replace(headers=headers)


def changed(draw: random.Random, raw: bytes) -> bytes:
    """One byte is another letter: not the same one in another case, as in `%2f` for `%2F`."""
    at = draw.randrange(len(raw))
    letters = [letter for letter in _LETTERS if bytes([letter]).lower() != raw[at : at + 1].lower()]
    return raw[:at] + bytes([draw.choice(letters)]) + raw[at + 1 :]


def accepted(check: Callable[[RawRequest], bool], request: RawRequest) -> bool:
    try:
        return check(request)
    except S3Error:
        return False


def seeded(name: str, default: int) -> tuple[random.Random, int]:
    """A random source, whose seed is printed, and how many requests to make."""
    seed = draws.seed()
    return random.Random(seed), int(os.environ.get(name, default))


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "share"), [(in_header, 6), (in_query, 4)])
def test_what_botocore_signs_is_accepted_and_nothing_else(
    sign: Callable[[random.Random], Sent], share: int
) -> None:
    """GRAVELER_ORACLE_REQUESTS: how many, of both mechanisms."""
    draw, count = seeded("GRAVELER_ORACLE_REQUESTS", 10_000)
    for _ in range(count * share // 10):
        original = sign(draw)
        assert accepted(is_accepted, original.request), original
        forged = with_one_byte_changed(draw, original)
        assert not accepted(is_accepted, forged), (original, forged)


def is_accepted_v2(request: RawRequest) -> bool:
    seen = opened(request)
    if seen.how != "query of version 2":
        return False
    claim = signatures.claim_of_url_v2(seen, "", has_key=True, writes=False)
    return claim.key_id == KEY_ID and signatures.is_signed_v2(claim, SECRET)


def test_what_botocore_signs_in_version_2_is_accepted_and_nothing_else() -> None:
    draw, count = seeded("GRAVELER_ORACLE_REQUESTS_V2", 500)
    for _ in range(count):
        method = draw.choice(("GET", "HEAD"))
        key = quote("lake/main/" + text(draw, 12), safe="/~")
        request = AWSRequest(method, f"http://localhost:8000/{key}", headers={})
        request.auth_path = None
        HmacV1QueryAuth(CREDENTIALS, expires=draw.randrange(1, 604_000)).add_auth(request)
        method, path, query, headers = sent(request)
        now_ns = (int(parse_qs(query.decode())["Expires"][0]) - 1) * SECOND
        headers.pop(b"date", None)
        original = Sent(RawRequest(method, path, query, tuple(headers.items()), now_ns), ())
        assert accepted(is_accepted_v2, original.request), original
        forged = with_one_byte_changed(draw, original)
        assert not accepted(is_accepted_v2, forged), (original, forged)


def test_the_oracle_covers_what_it_says() -> None:
    draw = random.Random(1)
    requests = [in_header(draw).request for _ in range(300)]
    assert {request.method for request in requests} == {"GET", "HEAD", "PUT", "POST", "DELETE"}
    joined: Mapping[str, bytes] = {
        "path": b"".join(request.path for request in requests),
        "query": b"".join(request.query for request in requests),
    }
    for escape in (b"%20", b"%2B", b"%25", b"%C3%BC", b"//", b"..", b"%09", b"%252F"):
        assert escape in joined["path"]
    assert b"%20" in joined["query"] and b"%2B" in joined["query"]
