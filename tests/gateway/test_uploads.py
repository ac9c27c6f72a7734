"""Multipart uploads: boto3's transfers, raw requests, restarts, lists, answers that take long."""

import hashlib
import http.client
import threading
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import google_crc32c
import pytest

from graveler.audit.trail import AUDIT_FOLDER, FileTrail, Question, Trail
from graveler.core.clock import SystemClock
from graveler.core.errors import StorageFull, Unavailable
from graveler.gateway.operation import Ending
from graveler.gateway.route import S3Route
from graveler.gateway.signatures import Authentication
from graveler.http.checksums import extend_crc64
from graveler.http.service import Service, ServiceSettings
from tests.api.serving import ANY_NUMBER, Served, served
from tests.engine.overridden import Overridden
from tests.gateway.serving import DOMAIN, Gateway, S3Client, code_of, gateway
from tests.gateway.test_writes import content, etag, is_there, refused, stat
from tests.waiting import PATIENCE_SECONDS, until

MIB = 1024 * 1024
LONG = b"5" * (5 * MIB)
Blocks = Callable[[Any], Any]


def joined_etag(*bodies: bytes) -> str:
    joined = b"".join(hashlib.md5(body).digest() for body in bodies)
    return f'"{hashlib.md5(joined).hexdigest()}-{len(bodies)}"'


def begun(boto: Any, repo: str, key: str = "main/a", **more: Any) -> dict[str, str]:
    id = boto.create_multipart_upload(Bucket=repo, Key=key, **more)["UploadId"]
    return {"Bucket": repo, "Key": key, "UploadId": id}


def sent(boto: Any, upload: dict[str, str], *bodies: bytes) -> dict[str, Any]:
    """The argument that completes the upload with these parts."""
    numbered = enumerate(bodies, start=1)
    etags = {n: boto.upload_part(**upload, PartNumber=n, Body=b)["ETag"] for n, b in numbered}
    return {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in etags.items()]}


def completion(tag: str) -> bytes:
    """The body of a request that completes an upload of one part."""
    part = f"<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
    return f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()


def test_a_long_file_is_uploaded_and_copied_by_the_transfers_of_boto3(
    served_gateway: Gateway, boto: Any, repo: str, tmp_path: Path
) -> None:
    body = bytes(range(256)) * (20 * MIB // 256)
    (tmp_path / "long").write_bytes(body)
    extra = {"ContentType": "text/csv", "Metadata": {"x": "1"}}
    boto.upload_file(str(tmp_path / "long"), repo, "main/long", ExtraArgs=extra)
    entry = stat(served_gateway, repo, "long")
    pieces = [body[at : at + 8 * MIB] for at in range(0, len(body), 8 * MIB)]
    assert f'"{entry.checksum}"' == joined_etag(*pieces)
    assert (entry.size, entry.content_type) == (len(body), "text/csv")
    assert entry.metadata == {"X-Amz-Meta-x": "1"}
    assert content(served_gateway, repo, "long") == body
    boto.copy({"Bucket": repo, "Key": "main/long"}, repo, "main/copied")
    assert content(served_gateway, repo, "copied") == body
    copied = boto.head_object(Bucket=repo, Key="main/copied")
    assert copied["ETag"] == joined_etag(*pieces)


def test_parts_become_one_object_with_one_etag(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    upload = begun(boto, repo, ContentType="text/csv", Metadata={"Colour": "blue"})
    parts = sent(boto, upload, LONG, b"tail")
    listed = boto.list_parts(**upload)
    assert [(part["PartNumber"], part["Size"], part["ETag"]) for part in listed["Parts"]] == [
        (1, len(LONG), etag(LONG)),
        (2, 4, etag(b"tail")),
    ]
    assert not is_there(served_gateway, repo, "a")
    done = boto.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert done["ETag"] == joined_etag(LONG, b"tail")
    assert (done["Bucket"], done["Key"]) == (repo, "main/a")
    assert done["Location"].endswith(f"/{repo}/main/a")
    entry = stat(served_gateway, repo, "a")
    assert f'"{entry.checksum}"' == done["ETag"]
    assert (entry.content_type, entry.metadata) == ("text/csv", {"X-Amz-Meta-colour": "blue"})
    assert content(served_gateway, repo, "a") == LONG + b"tail"
    again = boto.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert again["ETag"] == done["ETag"]
    named = {"Bucket": repo, "Key": "main/a"}
    assert boto.head_object(**named)["ETag"] == done["ETag"]
    assert boto.get_object(**named, IfMatch=done["ETag"])["ETag"] == done["ETag"]
    (line,) = boto.list_objects_v2(Bucket=repo, Prefix="main/")["Contents"]
    assert (line["Key"], line["ETag"]) == ("main/a", done["ETag"])
    for call in (boto.list_parts, boto.abort_multipart_upload):
        assert refused(call, **upload) == (404, "NoSuchUpload")
    assert refused(boto.upload_part, **upload, PartNumber=1, Body=b"x") == (404, "NoSuchUpload")


def test_parts_that_do_not_fit_are_refused(served_gateway: Gateway, boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    one, two = sent(boto, upload, b"short", b"2")["Parts"]

    def fails(*parts: Any) -> tuple[int, str]:
        return refused(
            boto.complete_multipart_upload, **upload, MultipartUpload={"Parts": list(parts)}
        )

    assert fails(one, two) == (400, "EntityTooSmall")
    assert fails(two, one) == (400, "InvalidPartOrder")
    assert fails({**one, "ETag": etag(b"other")}) == (400, "InvalidPart")
    assert fails({**one, "PartNumber": 9}) == (400, "InvalidPart")
    for number in (0, 10_001):
        failure = refused(boto.upload_part, **upload, PartNumber=number, Body=b"x")
        assert failure == (400, "InvalidArgument")
    boto.complete_multipart_upload(**upload, MultipartUpload={"Parts": [two]})
    assert content(served_gateway, repo, "a") == b"2"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<CompleteMultipartUpload/>",
        b"<CompleteMultipartUpload><Part><PartNumber>x</PartNumber><ETag>e</ETag></Part>"
        b"</CompleteMultipartUpload>",
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part>"
        b"</CompleteMultipartUpload>",
        b"<Other/>",
    ],
)
def test_a_completion_that_names_no_parts_is_malformed(
    s3: S3Client, boto: Any, repo: str, body: bytes
) -> None:
    upload = begun(boto, repo)
    query = {"uploadId": upload["UploadId"]}
    reply = s3.send("POST", f"/{repo}/main/a", query, body=body)
    assert (reply.status, code_of(reply)) == (400, "MalformedXML")


def test_an_etag_may_come_without_quotes(
    served_gateway: Gateway, s3: S3Client, boto: Any, repo: str
) -> None:
    upload = begun(boto, repo)
    sent(boto, upload, b"one")
    body = completion(etag(b"one").strip('"'))
    query = {"uploadId": upload["UploadId"]}
    assert s3.send("POST", f"/{repo}/main/a", query, body=body).status == 200
    assert content(served_gateway, repo, "a") == b"one"


def test_a_completion_on_a_condition(served_gateway: Gateway, boto: Any, repo: str) -> None:
    boto.put_object(Bucket=repo, Key="main/a", Body=b"there")
    upload = begun(boto, repo)
    parts = {"MultipartUpload": sent(boto, upload, b"one")}
    complete = boto.complete_multipart_upload
    assert refused(complete, **upload, **parts, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert refused(complete, **upload, **parts, IfMatch=etag(b"x")) == (412, "PreconditionFailed")
    assert content(served_gateway, repo, "a") == b"there"
    complete(**upload, **parts, IfMatch=etag(b"there"))
    assert content(served_gateway, repo, "a") == b"one"


def test_an_empty_part_is_a_part(served_gateway: Gateway, boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    parts = sent(boto, upload, b"")
    boto.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert content(served_gateway, repo, "a") == b""


def test_an_aborted_upload_is_gone(served_gateway: Gateway, boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    parts = sent(boto, upload, b"one")
    boto.abort_multipart_upload(**upload)
    assert refused(boto.abort_multipart_upload, **upload) == (404, "NoSuchUpload")
    assert refused(boto.complete_multipart_upload, **upload, MultipartUpload=parts) == (
        404,
        "NoSuchUpload",
    )
    other = {**upload, "Key": "main/b"}
    assert refused(boto.list_parts, **other) == (404, "NoSuchUpload")
    assert refused(boto.list_parts, **{**upload, "Key": "main@/b"}) == (404, "NoSuchUpload")
    assert not is_there(served_gateway, repo, "a")


def test_an_abort_on_a_condition_is_refused(s3: S3Client, boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    headers = {"x-amz-if-match-initiated-time": "Mon, 23 Nov 2026 10:00:00 GMT"}
    reply = s3.send("DELETE", f"/{repo}/main/a", {"uploadId": upload["UploadId"]}, headers=headers)
    assert (reply.status, code_of(reply)) == (501, "NotImplemented")
    assert uploads_of(boto, repo)[0]["UploadId"] == upload["UploadId"]


def test_a_part_is_copied(served_gateway: Gateway, boto: Any, s3: S3Client, repo: str) -> None:
    other = served_gateway.live.fresh_repository()
    boto.put_object(Bucket=other, Key="main/a", Body=b"0123456789")
    upload = begun(boto, repo)
    source = f"{other}/main/a"

    def copy(number: int, **more: Any) -> Any:
        return boto.upload_part_copy(**upload, PartNumber=number, CopySource=source, **more)

    done = copy(1, CopySourceRange="bytes=3-6", CopySourceIfMatch=etag(b"0123456789"))
    assert done["CopyPartResult"]["ETag"] == etag(b"3456")
    query = {"uploadId": upload["UploadId"], "partNumber": "2"}
    for text in ("bytes=3-10", "bytes=6-3", "3-6", "bytes=3-", "bytes=0-1,3-4", "bytes=10-10"):
        headers = {"x-amz-copy-source": source, "x-amz-copy-source-range": text}
        reply = s3.send("PUT", f"/{repo}/main/a", query, headers=headers)
        assert (reply.status, code_of(reply)) == (400, "InvalidArgument"), text
    failure = refused(
        boto.upload_part_copy,
        **upload,
        PartNumber=2,
        CopySource=source,
        CopySourceIfMatch=etag(b"x"),
    )
    assert failure == (412, "PreconditionFailed")
    assert copy(3)["CopyPartResult"]["ETag"] == etag(b"0123456789")
    parts = {"Parts": [{"PartNumber": 3, "ETag": etag(b"0123456789")}]}
    boto.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert content(served_gateway, repo, "a") == b"0123456789"


# ---- lists ---------------------------------------------------------------------------------------


def test_uploads_are_listed_by_key(boto: Any, s3: S3Client, repo: str) -> None:
    keys = ["main/a b", "main/a b", "main/d/1", "main/d/2", "main/e+f", "main/ü"]
    ids = {begun(boto, repo, key)["UploadId"]: key for key in keys}
    page = boto.list_multipart_uploads(Bucket=repo)
    assert [upload["Key"] for upload in page["Uploads"]] == keys
    assert {upload["UploadId"]: upload["Key"] for upload in page["Uploads"]} == ids
    assert page["Uploads"][0]["StorageClass"] == "STANDARD" and not page["IsTruncated"]
    below = boto.list_multipart_uploads(Bucket=repo, Prefix="main/", Delimiter="/")
    assert [each["Prefix"] for each in below["CommonPrefixes"]] == ["main/d/"]
    assert len(below["Uploads"]) == 4
    inside = boto.list_multipart_uploads(Bucket=repo, Prefix="main/d/")
    assert [upload["Key"] for upload in inside["Uploads"]] == ["main/d/1", "main/d/2"]
    found: list[str] = []
    pages = boto.get_paginator("list_multipart_uploads").paginate(
        Bucket=repo, Delimiter="/", Prefix="main/", PaginationConfig={"PageSize": 1}
    )
    for page in pages:
        found += [upload["Key"] for upload in page.get("Uploads", ())]
        found += [each["Prefix"] for each in page.get("CommonPrefixes", ())]
    assert found == ["main/a b", "main/a b", "main/d/", "main/e+f", "main/ü"]
    plain = s3.send("GET", f"/{repo}", {"uploads": "", "max-uploads": "0"})
    root = ElementTree.fromstring(plain.body)
    texts = {child.tag.rpartition("}")[2]: child.text for child in root}
    assert (texts["IsTruncated"], texts["MaxUploads"]) == ("false", "0")
    encoded = s3.send("GET", f"/{repo}", {"uploads": "", "encoding-type": "url"}).body.decode()
    assert "<Key>main/a+b</Key>" in encoded and "<Key>main/e%2Bf</Key>" in encoded
    wrong = s3.send("GET", f"/{repo}", {"uploads": "", "encoding-type": "x"})
    assert (wrong.status, code_of(wrong)) == (400, "InvalidArgument")


def test_parts_are_listed_page_by_page(boto: Any, s3: S3Client, repo: str) -> None:
    upload = begun(boto, repo)
    sent(boto, upload, b"1", b"2", b"3")
    found: list[int] = []
    pages = boto.get_paginator("list_parts").paginate(**upload, PaginationConfig={"PageSize": 2})
    for page in pages:
        found += [part["PartNumber"] for part in page["Parts"]]
    assert found == [1, 2, 3]
    query = {"uploadId": upload["UploadId"], "max-parts": "0"}
    reply = s3.send("GET", f"/{repo}/main/a", query)
    assert b"<IsTruncated>false</IsTruncated>" in reply.body and b"<Part>" not in reply.body


def test_the_top_of_a_branch_takes_no_upload(s3: S3Client, repo: str) -> None:
    for method, query in (
        ("POST", {"uploads": ""}),
        ("PUT", {"uploadId": "x", "partNumber": "1"}),
        ("DELETE", {"uploadId": "x"}),
        ("GET", {"uploadId": "x"}),
    ):
        reply = s3.send(method, f"/{repo}/main/", query)
        assert (reply.status, code_of(reply)) == (404, "NoSuchKey")


# ---- restarts, long joins ------------------------------------------------------------------------


def test_an_upload_survives_a_restart_between_parts_join_and_row(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with gateway(store) as first:
        repo, boto = first.live.fresh_repository(), first.boto()
        upload = begun(boto, repo)
        sent(boto, upload, LONG)
    with gateway(store) as second:
        boto = second.boto()
        assert [each["UploadId"] for each in uploads_of(boto, repo)] == [upload["UploadId"]]
        boto.upload_part(**upload, PartNumber=2, Body=b"tail")
        listed = boto.list_parts(**upload)["Parts"]
        parts = {
            "Parts": [{name: part[name] for name in ("PartNumber", "ETag")} for part in listed]
        }

    def unstaged(kv: Any) -> Any:
        def set_if(*arguments: Any, **more: Any) -> Any:
            if arguments[0].startswith(b"s/"):
                raise Unavailable("stopped before the row")
            return kv.set_if(*arguments, **more)

        return Overridden(kv, set_if=set_if)

    with other_ports(store, kv=unstaged) as (_, boto):
        failure = refused(boto.complete_multipart_upload, **upload, MultipartUpload=parts)
        assert failure[0] == 503
    with gateway(store) as last:
        boto = last.boto()
        done = boto.complete_multipart_upload(**upload, MultipartUpload=parts)
        assert done["ETag"] == joined_etag(LONG, b"tail")
        assert content(last, repo, "a") == LONG + b"tail"


def uploads_of(boto: Any, repo: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = boto.list_multipart_uploads(Bucket=repo).get("Uploads", [])
    return found


def same(port: Any) -> Any:
    return port


@contextmanager
def other_ports(
    store: Path, kv: Blocks = same, blocks: Blocks = same, seconds: float = 10, threads: int = 16
) -> Iterator[tuple[Served, Any]]:
    """A server whose gateway works on other ports, and boto3's client of it."""

    def route(service: Service) -> S3Route:
        ports = service.ports
        ports = replace(ports, kv=kv(ports.kv), blocks=blocks(ports.blocks))
        return S3Route(replace(service, ports=ports), (DOMAIN,), Authentication((DOMAIN,)))

    settings = ServiceSettings(
        failed_logins=ANY_NUMBER, blank_seconds=seconds, writer_threads=threads
    )
    with served(store, settings=settings, further=route) as live:
        s3 = S3Client(live.client.host, live.client.port)
        yield live, Gateway(live, s3).boto()


def test_a_store_that_is_full_changes_nothing(tmp_path: Path) -> None:
    """Neither by a body, nor by a part, nor by a join."""
    is_full = threading.Event()

    def limited(blocks: Any) -> Any:
        def guarded(write: Callable[..., Any]) -> Callable[..., Any]:
            def guard(*arguments: Any) -> Any:
                if is_full.is_set():
                    raise StorageFull("no space")
                return write(*arguments)

            return guard

        writes = ("put", "create_many", "put_part", "complete_upload")
        return Overridden(blocks, **{name: guarded(getattr(blocks, name)) for name in writes})

    with other_ports(tmp_path / "store", blocks=limited) as (live, boto):
        repo = live.fresh_repository()
        named = {"Bucket": repo, "Key": "main/a"}
        boto.put_object(**named, Body=b"before")
        upload = begun(boto, repo)
        parts = sent(boto, upload, b"one")
        is_full.set()
        full = (507, "StorageFull")
        assert refused(boto.put_object, **named, Body=b"after") == full
        assert refused(boto.put_object, **named, Body=LONG) == full
        assert refused(boto.upload_part, **upload, PartNumber=2, Body=b"two") == full
        assert refused(boto.complete_multipart_upload, **upload, MultipartUpload=parts) == full
        assert boto.get_object(**named)["Body"].read() == b"before"
        assert [part["PartNumber"] for part in boto.list_parts(**upload)["Parts"]] == [1]
        is_full.clear()
        boto.complete_multipart_upload(**upload, MultipartUpload=parts)
        assert boto.get_object(**named)["Body"].read() == b"one"


class Join(NamedTuple):
    """A completion whose answer has begun.  The join waits for `goes_on`."""

    live: Served
    repo: str
    connection: http.client.HTTPConnection
    answer: http.client.HTTPResponse
    goes_on: threading.Event


@contextmanager
def joining(store: Path, *, fails: bool, threads: int = 16) -> Iterator[Join]:
    """A server that joins the part of `main/a`."""
    goes_on = threading.Event()

    def slow(blocks: Any) -> Any:
        def complete(*arguments: Any) -> Any:
            goes_on.wait()
            if fails:
                raise Unavailable("no join")
            return blocks.complete_upload(*arguments)

        return Overridden(blocks, complete_upload=complete)

    with other_ports(store, blocks=slow, seconds=0.01, threads=threads) as (live, boto):
        try:
            repo = live.fresh_repository()
            upload = begun(boto, repo)
            sent(boto, upload, b"one")
            with (
                closing(signed(live, repo, upload, completion(etag(b"one")))) as connection,
                closing(connection.getresponse()) as answer,
            ):
                assert answer.status == 200
                yield Join(live, repo, connection, answer, goes_on)
        finally:
            goes_on.set()


@pytest.mark.parametrize("fails", [False, True])
def test_a_join_that_takes_long_is_answered_with_blanks_first(tmp_path: Path, fails: bool) -> None:
    """The answer begins as a success; its document says how the join ended.  The join has the only
    thread of its kind, and other writes go on."""
    store = tmp_path / "store"
    with joining(store, fails=fails, threads=1) as join:
        live, answer = join.live, join.answer
        begin = answer.read(60)
        assert begin.startswith(b"<?xml") and begin.endswith(b"  ")
        where = f"/repositories/{join.repo}/branches/main/objects"
        assert live.client.send("DELETE", where, {"path": "other"}).status == 204
        join.goes_on.set()
        rest = answer.read()
        assert len(begin + rest) == int(answer.headers["Content-Length"])
        root = ElementTree.fromstring(begin + rest)
        if fails:
            assert root.tag == "Error" and root.findtext("Code") == "SlowDown"
        else:
            assert root.tag.endswith("CompleteMultipartUploadResult")
        status = 503 if fails else 200
        assert recorded(live) == [("failed" if fails else "done", status)]
        counted = f'operation="s3:CompleteMultipartUpload",status="{status}"'
        until(lambda: any(counted in line for line in live.service.metrics.lines()), "counted")
    with gateway(store) as later:
        assert is_there(later, join.repo, "a") is not fails


def recorded(live: Served) -> list[tuple[str, int]]:
    """Outcome and status of the completions in the audit trail."""
    return completions_in(live.service.trail)


def completions_in(trail: Trail) -> list[tuple[str, int]]:
    question = Question(0, 2**62, operation="s3:CompleteMultipartUpload")
    lines = trail.read(question, "", 100).lines
    return [(line.outcome, line.status) for line in lines]


@pytest.mark.parametrize("fails", [False, True])
def test_a_join_whose_client_goes_away_is_recorded_with_its_end(
    tmp_path: Path, fails: bool
) -> None:
    with joining(tmp_path / "store", fails=fails) as join:
        assert join.answer.read(60) and recorded(join.live) == []
        join.answer.close()
        join.connection.close()
        join.goes_on.set()
        end = ("failed", 503) if fails else ("done", 200)
        until(lambda: recorded(join.live) == [end], "recorded")


def test_a_join_that_outlives_its_server_is_recorded_once(tmp_path: Path) -> None:
    """When the server gives its requests up; the end of the work comes later."""
    store = tmp_path / "store"
    with joining(store, fails=False) as join:
        assert join.answer.read(60) and recorded(join.live) == []
        join.live.server.config.timeout_graceful_shutdown = 0
        join.live.server.should_exit = True
        until(lambda: recorded(join.live), "recorded")
        assert recorded(join.live) == [("unknown", 0)]
    with closing(FileTrail(store / AUDIT_FOLDER, SystemClock())) as trail:
        assert completions_in(trail) == [("unknown", 0)]
    with gateway(store) as later:
        assert is_there(later, join.repo, "a")


def test_a_completion_of_other_parts_conflicts_with_one_that_has_begun(tmp_path: Path) -> None:
    joins, goes_on = threading.Event(), threading.Event()

    def slow(blocks: Any) -> Any:
        def complete(*arguments: Any) -> Any:
            joins.set()
            goes_on.wait()
            return blocks.complete_upload(*arguments)

        return Overridden(blocks, complete_upload=complete)

    with (
        other_ports(tmp_path / "store", blocks=slow, seconds=PATIENCE_SECONDS) as (live, boto),
        ThreadPoolExecutor(1) as pool,
    ):
        upload = begun(boto, live.fresh_repository())
        one, two = sent(boto, upload, b"one", b"two")["Parts"]
        call = {**upload, "MultipartUpload": {"Parts": [one]}}
        other = {**upload, "MultipartUpload": {"Parts": [two]}}
        try:
            first = pool.submit(boto.complete_multipart_upload, **call)
            assert joins.wait(PATIENCE_SECONDS)
            failure = refused(boto.complete_multipart_upload, **other)
            assert failure == (409, "ConditionalRequestConflict")
        finally:
            goes_on.set()
        assert first.result(PATIENCE_SECONDS)["ETag"] == joined_etag(b"one")
        got = boto.get_object(Bucket=upload["Bucket"], Key=upload["Key"])
        assert got["Body"].read() == b"one"


def test_an_end_is_told_once_whatever_comes_first() -> None:
    for ends_first in (False, True):
        told: list[Exception | None] = []
        ending, error = Ending(), Unavailable("none")
        if ends_first:
            ending.end(error)
        ending.on_end(told.append)
        ending.end(error)
        ending.end(None)
        assert told == [error] and not ending.give_up()
    ending = Ending()
    ending.on_end(told.append)
    assert ending.give_up()
    ending.end(None)
    assert told == [error]


def test_a_completion_of_another_size_is_refused_and_the_upload_remains(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    upload = begun(boto, repo)
    parts = sent(boto, upload, LONG, b"tail")
    call = {**upload, "MultipartUpload": parts}
    wrong = {**call, "MpuObjectSize": 4}
    assert refused(boto.complete_multipart_upload, **wrong) == (400, "InvalidRequest")
    assert not is_there(served_gateway, repo, "a")
    one = {**upload, "MultipartUpload": {"Parts": parts["Parts"][1:]}, "MpuObjectSize": 4}
    boto.complete_multipart_upload(**one)
    assert content(served_gateway, repo, "a") == b"tail"
    assert refused(boto.complete_multipart_upload, **{**one, "MpuObjectSize": 5}) == (
        400,
        "InvalidRequest",
    )
    boto.complete_multipart_upload(**one)


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "SHA1", "SHA256"])
def test_a_composite_checksum_of_a_completion_is_verified_and_repeated(
    served_gateway: Gateway, boto: Any, repo: str, algorithm: str
) -> None:
    upload, name = begun(boto, repo), f"Checksum{algorithm}"
    first, last = (
        boto.upload_part(**upload, PartNumber=number, Body=body, **{name: of(algorithm, body)})
        for number, body in ((1, LONG), (7, b"tail"))
    )
    digest = composite(algorithm, first[name], last[name])
    swapped = composite(algorithm, last[name], first[name])
    parts = [{"PartNumber": 1, "ETag": first["ETag"]}, {"PartNumber": 7, "ETag": last["ETag"]}]
    call = {**upload, "MultipartUpload": {"Parts": parts}}
    complete = boto.complete_multipart_upload

    for text in (f"{swapped}-2", swapped, f"{digest}-3", f"{first[name]}-2"):
        assert refused(complete, **call, **{name: text}) == (400, "BadDigest")
    for text in ("x-2", f"{digest}-", f"{digest}-x", f"{digest}-2-2", f"{digest[1:]}-2"):
        assert refused(complete, **call, **{name: text}) == (400, "InvalidRequest")
    other = "SHA1" if algorithm != "SHA1" else "SHA256"
    absent = {f"Checksum{other}": f"{composite(other)}-2"}
    assert refused(complete, **call, **absent) == (400, "InvalidPart"), "none of it arrived"
    assert not is_there(served_gateway, repo, "a")
    for more in ({name: f"{digest}-2", "ChecksumType": "COMPOSITE"}, {name: digest}):
        done = complete(**call, **more)  # the second time, it is a repetition
        assert (done[name], done["ChecksumType"]) == (f"{digest}-2", "COMPOSITE")
        assert done["ETag"] == joined_etag(LONG, b"tail")
    assert content(served_gateway, repo, "a") == LONG + b"tail"
    assert refused(complete, **call, **{name: swapped}) == (400, "BadDigest")


def composite(algorithm: str, *parts: str) -> str:
    """The checksum of the checksums of parts, by its definition in S3."""
    return of(algorithm, b"".join(map(b64decode, parts)))


def of(algorithm: str, raw: bytes) -> str:
    """A checksum in Base64."""
    digests = {
        "CRC32": lambda: zlib.crc32(raw).to_bytes(4, "big"),
        "CRC32C": lambda: google_crc32c.value(raw).to_bytes(4, "big"),
        "CRC64NVME": lambda: extend_crc64(0, raw).to_bytes(8, "big"),
        "SHA1": lambda: hashlib.sha1(raw).digest(),
        "SHA256": lambda: hashlib.sha256(raw).digest(),
    }
    return b64encode(digests[algorithm]()).decode()


def test_a_completion_has_one_composite_checksum(s3: S3Client, boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    tag = sent(boto, upload, b"one")["Parts"][0]["ETag"]
    query, body = {"uploadId": upload["UploadId"]}, completion(tag)
    crc = composite("CRC32", of("CRC32", b"one"))
    good = {"x-amz-checksum-crc32": f"{crc}-1"}
    for more in ({"x-amz-checksum-crc32c": f"{crc}-1"}, {"x-amz-sdk-checksum-algorithm": "SHA1"}):
        reply = s3.send("POST", f"/{repo}/main/a", query, body=body, headers=good | more)
        assert (reply.status, code_of(reply)) == (400, "InvalidRequest")
    unknown = {"x-amz-checksum-new": f"{crc}-1"}
    reply = s3.send("POST", f"/{repo}/main/a", query, body=body, headers=unknown)
    assert (reply.status, code_of(reply)) == (501, "NotImplemented")
    reply = s3.send("POST", f"/{repo}/main/a", query, body=body, headers=good)
    assert reply.status == 200


def test_checksums_of_parts_are_no_checksum_of_the_whole_object(
    served_gateway: Gateway, boto: Any, repo: str, tmp_path: Path
) -> None:
    (tmp_path / "long").write_bytes(b"x" * (9 * MIB))
    stated = {"ChecksumAlgorithm": "SHA256", "ChecksumType": "COMPOSITE"}  # in both requests
    boto.upload_file(str(tmp_path / "long"), repo, "main/a", ExtraArgs=stated)
    assert content(served_gateway, repo, "a") == b"x" * (9 * MIB)


def test_a_completion_names_the_checksums_that_arrived_with_the_parts(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    upload = begun(boto, repo)
    first = boto.upload_part(**upload, PartNumber=1, Body=LONG, ChecksumAlgorithm="SHA256")
    last = boto.upload_part(**upload, PartNumber=2, Body=b"tail", ChecksumAlgorithm="SHA1")
    one = {"PartNumber": 1, "ETag": first["ETag"], "ChecksumSHA256": first["ChecksumSHA256"]}
    two = {"PartNumber": 2, "ETag": last["ETag"], "ChecksumSHA1": last["ChecksumSHA1"]}

    def order(*parts: Any) -> dict[str, Any]:
        return {**upload, "MultipartUpload": {"Parts": list(parts)}}

    complete = boto.complete_multipart_upload

    wrong = [
        {**one, "ChecksumSHA256": b64encode(bytes(32)).decode()},
        {**one, "ChecksumSHA256": "x"},
        {**one, "ChecksumCRC32": last["ChecksumSHA1"]},  # none of this algorithm arrived
        {**one, "ChecksumCRC32": ""},
    ]
    for part in wrong:
        assert refused(complete, **order(part, two)) == (400, "InvalidPart")
    swapped = {**two, "ChecksumSHA256": first["ChecksumSHA256"]}
    assert refused(complete, **order(one, swapped)) == (400, "InvalidPart")
    assert not is_there(served_gateway, repo, "a")
    done = complete(**order(one, two))
    assert done["ETag"] == joined_etag(LONG, b"tail")
    assert content(served_gateway, repo, "a") == LONG + b"tail"
    assert complete(**order(one, two))["ETag"] == done["ETag"], "a repetition is compared as well"
    assert refused(complete, **order(wrong[0], two)) == (400, "InvalidPart")


def test_a_part_that_is_sent_again_has_the_checksum_of_its_bytes(boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    old = boto.upload_part(**upload, PartNumber=1, Body=b"old")
    new = boto.upload_part(**upload, PartNumber=1, Body=b"new")
    part = {"PartNumber": 1, "ETag": new["ETag"], "ChecksumCRC32": old["ChecksumCRC32"]}
    call = {**upload, "MultipartUpload": {"Parts": [part]}}
    assert refused(boto.complete_multipart_upload, **call) == (400, "InvalidPart")
    part["ChecksumCRC32"] = new["ChecksumCRC32"]
    assert boto.complete_multipart_upload(**call)["ETag"] == joined_etag(b"new")


def test_a_checksum_of_an_algorithm_that_is_not_served_is_not_passed_over(
    s3: S3Client, boto: Any, repo: str
) -> None:
    upload = begun(boto, repo)
    tag = sent(boto, upload, b"one")["Parts"][0]["ETag"]
    query = {"uploadId": upload["UploadId"]}
    body = completion(tag).replace(b"</Part>", b"<ChecksumNEW>AA==</ChecksumNEW></Part>")
    reply = s3.send("POST", f"/{repo}/main/a", query, body=body)
    assert (reply.status, code_of(reply)) == (501, "NotImplemented")
    assert s3.send("POST", f"/{repo}/main/a", query, body=completion(tag)).status == 200


def test_a_stated_size_must_be_a_number(s3: S3Client, boto: Any, repo: str) -> None:
    upload = begun(boto, repo)
    query = {"uploadId": upload["UploadId"]}
    for text in ("x", "-1", "9" * 30):
        reply = s3.send("POST", f"/{repo}/main/a", query, headers={"x-amz-mp-object-size": text})
        assert (reply.status, code_of(reply)) == (400, "InvalidArgument")


@pytest.mark.parametrize("conditional", [False, True])
def test_a_copy_onto_itself_describes_what_a_put_at_the_same_time_stored(
    tmp_path: Path, conditional: bool
) -> None:
    """Unless the request has a condition, which the new object does not satisfy."""
    puts: list[Callable[[], object]] = []

    def racing(kv: Any) -> Any:
        def set_if(*arguments: Any, **more: Any) -> Any:
            if puts:
                puts.pop()()
            return kv.set_if(*arguments, **more)

        return Overridden(kv, set_if=set_if)

    with other_ports(tmp_path / "store", kv=racing) as (live, boto):
        repo = live.fresh_repository()
        itself = {"Bucket": repo, "Key": "main/a", "CopySource": f"{repo}/main/a"}
        itself |= {"MetadataDirective": "REPLACE", "ContentType": "text/csv"}
        boto.put_object(Bucket=repo, Key="main/a", Body=b"one")
        puts.append(lambda: live.client.upload(repo, "a", b"newer"))
        if conditional:
            itself["CopySourceIfMatch"] = etag(b"one")
            assert refused(boto.copy_object, **itself) == (412, "PreconditionFailed")
        else:
            assert boto.copy_object(**itself)["CopyObjectResult"]["ETag"] == etag(b"newer")
            head = boto.head_object(Bucket=repo, Key="main/a")
            assert (head["ContentType"], head["ETag"]) == ("text/csv", etag(b"newer"))
        assert not puts
        assert boto.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"newer"


def signed(
    live: Served, repo: str, upload: dict[str, str], body: bytes
) -> http.client.HTTPConnection:
    """A connection with a request that completes an upload, to be answered."""
    host, port = live.client.host, live.client.port
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    target = f"/{repo}/main/a?uploadId={upload['UploadId']}"
    client = S3Client(host, port)
    connection.request("POST", target, body, client.signed("POST", target, body=body))
    return connection
