"""Signed URLs of S3, and reading by them: right, re-used, and without a client."""

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from graveler.block import s3_uploads
from graveler.block.adapter import Part, PartOf, PutTerms, Target
from graveler.block.address import split
from graveler.block.s3 import S3Blocks, S3Options
from graveler.block.s3_calls import Places, Regions, S3Calls
from graveler.block.s3_urls import S3Urls, Signable, Signature, presigned
from graveler.core.aws import AwsSession, AwsSettings, CallPolicy, Client, Credentials
from graveler.core.clock import SystemClock
from graveler.core.errors import Invalid, NotFound, Unavailable, Unsupported
from graveler.core.limits import SECOND_NS
from graveler.core.requests import RetryPolicy
from tests.aws.buckets import create_bucket, keep_versions
from tests.aws.conftest import PATIENT_S3
from tests.support.block_clauses import content

NOW_NS = 1_795_000_000 * SECOND_NS
KEYS = ("a", "a b+c", "é/日本", "%2F?x=y&z#q", "~-._/", "quote'\"", "data/0/1", "line\nbreak")


class StoppedClock(SystemClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ns = NOW_NS

    def now_ns(self) -> int:
        return self.ns


class WithoutClients(AwsSession):
    """A session that must not be asked for a client."""

    def client(
        self,
        service: str,
        policy: CallPolicy | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Client:
        raise AssertionError(f"a client was made: {service}")


# ---- the signature -------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "a+token/="])
@pytest.mark.parametrize("key", KEYS)
def test_signatures_are_those_of_the_sdk(
    key: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = datetime.fromtimestamp(NOW_NS // SECOND_NS, UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    query = {"partNumber": "7", "uploadId": "x/y=", "response-content-type": "text/plain; a=b"}
    headers = {"content-type": "text/csv"}
    signable = Signable("PUT", "https://lake.s3.eu-west-1.amazonaws.com", key, query, headers)
    credentials = Credentials("AKID", "secret/key", token)
    ours = presigned(signable, Signature(credentials, "eu-west-1", NOW_NS, 600))
    unsigned = ours.partition("&X-Amz-")[0].partition("?")[0]
    request = botocore.awsrequest.AWSRequest("PUT", unsigned, headers, params=query)
    known = botocore.credentials.Credentials("AKID", "secret/key", token or None)
    botocore.auth.S3SigV4QueryAuth(known, "s3", "eu-west-1", 600).add_auth(request)
    assert sorted(_pairs(ours)) == sorted(_pairs(request.url))


def _pairs(url: str) -> list[list[str]]:
    return [pair.split("=", 1) for pair in url.split("?")[1].split("&")]


@pytest.mark.parametrize(
    ("bucket", "region", "origin"),
    [
        ("lake", "us-east-1", "https://lake.s3.us-east-1.amazonaws.com"),
        ("my.lake", "eu-west-1", "https://s3.eu-west-1.amazonaws.com/my.lake"),
        ("lake", "cn-north-1", "https://lake.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_buckets_have_their_own_hosts_but_for_dots(bucket: str, region: str, origin: str) -> None:
    assert Places([bucket], "").origin(bucket, region) == origin


# ---- one URL for many reads ----------------------------------------------------------------------


def test_a_url_is_used_until_shortly_before_it_expires() -> None:
    session = WithoutClients(AwsSettings("us-east-1", "", "AKID", "secret"))
    clock = StoppedClock()
    places = Places(["lake"], "")
    urls = S3Urls(session, places, clock, Regions(session, places, lambda origin: ""))
    first = urls.reading("s3://lake/a", "GET")
    assert urls.reading("s3://lake/a", "HEAD") != first != urls.reading("s3://lake/b", "GET")
    clock.ns += 700 * SECOND_NS
    assert urls.reading("s3://lake/a", "GET") == first
    clock.ns += 100 * SECOND_NS
    second = urls.reading("s3://lake/a", "GET")
    assert second != first
    urls.forget("s3://lake/a")
    clock.ns += SECOND_NS
    assert urls.reading("s3://lake/a", "GET") != second
    for number in range(5_000):
        urls.reading(f"s3://lake/{number}", "GET")
    with pytest.raises(Invalid):
        urls.reading("s3://other/a", "GET")


def test_reading_makes_no_client(
    session: AwsSession, settings: AwsSettings, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    create_bucket(session, name)
    address = f"s3://{name}/a b/é"
    S3Blocks(session, SystemClock(), [name], PATIENT_S3).put(address, [b"0123456789"])
    reading = S3Blocks(WithoutClients(settings), SystemClock(), [name])
    assert content(reading, address) == b"0123456789"
    assert reading.read(address, -4, 2) == b"67"
    assert reading.head(address).size == 10
    with pytest.raises(NotFound):
        reading.head(f"s3://{name}/missing")


def test_what_does_not_answer_is_unavailable() -> None:
    nowhere = AwsSettings("us-east-1", "http://127.0.0.1:9", "test", "test")
    blocks = S3Blocks(AwsSession(nowhere), SystemClock(), ["lake"])
    for call in (
        lambda: blocks.read("s3://lake/a", 0, 1),
        lambda: blocks.head("s3://lake/a"),
        lambda: blocks.put("s3://lake/a", [b"x"]),
        lambda: blocks.list("s3://lake/", "", 1),
    ):
        with pytest.raises(Unavailable):
            call()


def test_a_bucket_that_is_only_read_is_never_sent_a_write() -> None:
    nowhere = AwsSettings("us-east-1", "http://127.0.0.1:9", "test", "test")
    options = S3Options(read_only=("source",))
    blocks = S3Blocks(AwsSession(nowhere), SystemClock(), ["lake", "source"], options)
    address = "s3://source/a"
    for call in (
        lambda: blocks.put(address, [b"x"]),
        lambda: blocks.copy("s3://lake/a", address),
        lambda: blocks.delete(address),
        lambda: blocks.delete(address, "version"),
        lambda: blocks.delete_all([Target(address)]),
        lambda: blocks.presign(address, "PUT", 60, ""),
        lambda: blocks.presign(address, "PUT", 60, "", PartOf("upload", 1)),
        lambda: blocks.create_upload(address),
        lambda: blocks.put_part(address, "upload", 1, [b"x"]),
        lambda: blocks.complete_upload(address, "upload", (Part(1, "etag"),)),
        lambda: blocks.abort_upload(address, "upload"),
    ):
        with pytest.raises(Invalid, match="name it in ExistingBuckets"):
            call()
    assert "source" in blocks.presign(address, "GET", 60, "").url
    with pytest.raises(Unavailable):  # sent, and nobody is there
        blocks.copy(address, "s3://lake/a")


# ---- URLs for others -----------------------------------------------------------------------------


def send(
    method: str, url: str, body: bytes = b"", kind: str = "", *, absent: bool = False
) -> tuple[int, bytes, str]:
    """Status, body and content type or etag of an answer; `absent`: only if nothing is there."""
    request = urllib.request.Request(url, body or None, method=method)
    if method == "PUT":
        request.add_header("content-type", kind)
    if absent:
        request.add_header("if-none-match", "*")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read(), answer.headers["etag"].strip('"')
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b"", ""


@pytest.fixture
def lake(session: AwsSession, fresh_name: Callable[[], str]) -> tuple[S3Blocks, str]:
    name = fresh_name()
    create_bucket(session, name)
    return S3Blocks(session, SystemClock(), [name], PATIENT_S3), f"s3://{name}"


def test_b9_a_url_is_good_for_what_it_was_made_for(lake: tuple[S3Blocks, str]) -> None:
    blocks, stem = lake
    address = f"{stem}/some/é b"
    put = blocks.presign(address, "PUT", 60, "text/csv").url
    assert send("PUT", put, b"bytes", "text/csv")[0] == 200
    assert content(blocks, address) == b"bytes"
    get = blocks.presign(address, "GET", 60, "text/csv").url
    assert send("GET", get)[:2] == (200, b"bytes")
    forged = get.replace("some", "other")
    for method, url, kind in (
        ("PUT", get, ""),
        ("PUT", put, "text/html"),
        ("GET", forged, ""),
        ("GET", get[:-4] + "0000", ""),
    ):
        assert send(method, url, b"x" if method == "PUT" else b"", kind)[0] == 403, url
    assert content(blocks, address) == b"bytes"


def test_b9_a_url_that_only_creates_binds_its_condition(lake: tuple[S3Blocks, str]) -> None:
    blocks, stem = lake
    address = f"{stem}/new"
    url = blocks.presign(address, "PUT", 60, "", terms=PutTerms(only_create=True)).url
    signed = dict(parse_qsl(urlsplit(url).query))["X-Amz-SignedHeaders"]
    assert signed == "host;if-none-match"
    assert send("PUT", url, b"first", absent=True)[0] == 200
    assert send("PUT", url, b"other", absent=True)[0] == 412
    assert send("PUT", url, b"other")[0] == 403  # the condition cannot be left out
    assert content(blocks, address) == b"first"


def test_b9_a_url_of_a_size_binds_it(lake: tuple[S3Blocks, str]) -> None:
    blocks, stem = lake
    address = f"{stem}/new"
    terms = PutTerms(only_create=True, size=5)
    url = blocks.presign(address, "PUT", 60, "", terms=terms).url
    signed = dict(parse_qsl(urlsplit(url).query))["X-Amz-SignedHeaders"]
    assert signed == "content-length;host;if-none-match"
    for other in (b"firs", b"first."):
        assert send("PUT", url, other, absent=True)[0] == 403
    assert send("PUT", url, b"first", absent=True)[0] == 200
    assert content(blocks, address) == b"first"


def test_parts_can_be_sent_by_urls(lake: tuple[S3Blocks, str]) -> None:
    blocks, stem = lake
    address = f"{stem}/joined"
    upload = blocks.create_upload(address)
    parts = []
    for number, body in ((1, b"a" * (5 << 20)), (2, b"end")):
        url = blocks.urls.presign_part(address, upload, number, 60).url
        status, _, etag = send("PUT", url, body, "application/octet-stream")
        assert status == 200
        parts.append(Part(number, etag))
    head = blocks.complete_upload(address, upload, tuple(parts))
    assert head.size == (5 << 20) + 3
    assert blocks.read(address, -4, 4) == b"aend"
    for number in (0, 10_001):
        with pytest.raises(Invalid):
            blocks.urls.presign_part(address, upload, number, 60)
    with pytest.raises(NotFound):
        blocks.urls.presign_part(address, "", 1, 60)


# ---- what else S3 is -----------------------------------------------------------------------------


def test_long_bodies_go_up_in_parts_and_keep_their_conditions(lake: tuple[S3Blocks, str]) -> None:
    blocks, stem = lake
    address = f"{stem}/long"
    chunk = bytes(range(256)) * 4_096
    head = blocks.put(address, (chunk for _ in range(20)))
    assert head.size == 20 << 20
    assert head.etag.endswith("-3")
    assert blocks.read(address, (8 << 20) - 2, 4) == b"\xfe\xff\x00\x01"
    assert blocks.head(address).version == head.version
    copied = blocks.copy(address, address)
    assert copied.size == head.size
    assert copied.version != head.version


def test_a_long_object_is_copied_in_parts(lake: tuple[S3Blocks, str], session: AwsSession) -> None:
    blocks, stem = lake
    source, target = f"{stem}/long", f"{stem}/copy"
    found = blocks.put(source, [bytes([number]) * (1 << 20) for number in range(12)])
    calls = S3Calls(session, CallPolicy(read_seconds=20))
    lengths = s3_uploads.Lengths(8 << 20, 5 << 20)
    once = s3_uploads.Resending(SystemClock(), RetryPolicy(attempts=1))
    head = s3_uploads.copy(calls, split(source), found, split(target), once, lengths)
    assert head.etag.endswith("-3")
    assert head.version == blocks.head(target).version
    assert content(blocks, target) == content(blocks, source)
    with pytest.raises(NotFound):
        gone = found._replace(version="0" * 32)
        s3_uploads.copy(calls, split(source), gone, split(target), once, lengths)


def test_a_bucket_without_versions_serves_all_but_their_deletion(
    session: AwsSession, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    create_bucket(session, name, versioned=False)
    blocks = S3Blocks(session, SystemClock(), [name], PATIENT_S3)
    head = blocks.put(f"s3://{name}/a", [b"x"])
    [line] = blocks.list(f"s3://{name}/", "", 10).lines
    assert line.head.version == head.version == blocks.head(f"s3://{name}/a").version
    blocks.copy(f"s3://{name}/a", f"s3://{name}/b")
    for refused in (
        lambda: blocks.check_versions(f"s3://{name}/a"),
        lambda: blocks.delete(f"s3://{name}/a", head.version),
        lambda: blocks.delete_all([Target(f"s3://{name}/a", head.version)]),
    ):
        with pytest.raises(Unsupported, match=f"put-bucket-versioning --bucket {name}"):
            refused()
    blocks.delete(f"s3://{name}/a")
    assert [line.address for line in blocks.list(f"s3://{name}/", "", 9).lines] == [
        f"s3://{name}/b"
    ]


def test_what_was_stored_before_versions_were_kept_is_deleted_exactly(
    session: AwsSession, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    create_bucket(session, name, versioned=False)
    blocks = S3Blocks(session, SystemClock(), [name], PATIENT_S3)
    names = [f"s3://{name}/{key}" for key in "abcd"]
    before = {each: blocks.put(each, [b"same"]) for each in names}
    keep_versions(session, name)
    blocks.check_versions(names[0])
    again = {each: blocks.put(each, [b"same"]) for each in (names[0], names[2])}
    for each in names[:2]:
        blocks.delete(each, before[each].version)
    blocks.delete_all([Target(each, before[each].version) for each in names[2:]])
    lines = blocks.list(f"s3://{name}/", "", 9).lines
    assert {line.address: line.head.version for line in lines} == {
        each: head.version for each, head in again.items()
    }
    keep_versions(session, name, status="Suspended")
    with pytest.raises(Unsupported):
        blocks.check_versions(names[0])


def test_replaced_versions_are_listed_past_and_deleted_with_their_successor(
    lake: tuple[S3Blocks, str], session: AwsSession
) -> None:
    blocks, stem = lake
    for number in range(12):
        blocks.put(f"{stem}/a", [b"%d" % number])
        blocks.put(f"{stem}/b", [b"%d" % number])
    page = blocks.list(f"{stem}/", "", 1)
    assert [line.address for line in page.lines] == [f"{stem}/a"]
    assert page.more
    assert [line.address for line in blocks.list(f"{stem}/", f"{stem}/a", 1).lines] == [f"{stem}/b"]
    blocks.delete(f"{stem}/a", page.lines[0].head.version)
    with pytest.raises(NotFound):
        blocks.head(f"{stem}/a")
    client = session.client("s3", options={"s3": {"addressing_style": "path"}})
    left = client.list_object_versions(Bucket=urlsplit(stem).netloc).get("Versions", [])
    assert {version["Key"] for version in left} == {"b"}
    client.close()
