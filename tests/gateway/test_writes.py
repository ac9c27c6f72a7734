"""Writes of one object: PUT with a body, with conditions, and copies."""

import base64
import hashlib
import socket
from typing import Any

import pytest
from botocore.exceptions import ClientError

from graveler.core.errors import NotFound
from graveler.core.records import Entry
from graveler.engine import names
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import repository
from tests.api.serving import Reply
from tests.gateway.serving import Gateway, S3Client, code_of


def opened(served_gateway: Gateway, repo: str) -> OpenRepository:
    ports = served_gateway.live.service.ports
    return open_repository(ports, repository.get(ports, repo))


def stat(served_gateway: Gateway, repo: str, path: str, ref: str = "main") -> Entry:
    return read.stat(opened(served_gateway, repo), ref, path)


def content(served_gateway: Gateway, repo: str, path: str) -> bytes:
    there = opened(served_gateway, repo)
    entry = read.stat(there, "main", path)
    return b"".join(read.open_body(there, entry).chunks)


def is_there(served_gateway: Gateway, repo: str, path: str) -> bool:
    try:
        stat(served_gateway, repo, path)
    except NotFound:
        return False
    return True


def refused(call: Any, **arguments: Any) -> tuple[int, str]:
    """Status and code of a call of boto3 that fails."""
    with pytest.raises(ClientError) as failure:
        call(**arguments)
    response = failure.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


# ---- PUT -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"one", b"x" * 3_000_000], ids=["empty", "short", "long"])
def test_an_object_is_put_as_it_was_sent(
    served_gateway: Gateway, boto: Any, repo: str, body: bytes
) -> None:
    done = boto.put_object(
        Bucket=repo,
        Key="main/in/ü &+%.txt",
        Body=body,
        ContentType="text/csv",
        Metadata={"Colour": "Blue"},
        CacheControl="no-cache",
        StorageClass="STANDARD",
    )
    assert done["ETag"] == etag(body)
    entry = stat(served_gateway, repo, "in/ü &+%.txt")
    assert (entry.size, f'"{entry.checksum}"') == (len(body), etag(body))
    assert entry.content_type == "text/csv"
    assert entry.metadata == {"X-Amz-Meta-colour": "Blue", "Cache-Control": "no-cache"}
    assert content(served_gateway, repo, "in/ü &+%.txt") == body


def test_a_put_replaces(served_gateway: Gateway, s3: S3Client, repo: str) -> None:
    for body in (b"one", b"two"):
        reply = s3.send("PUT", f"/{repo}/main/a", body=body)
        assert (reply.status, reply.body) == (200, b"")
        assert reply.headers["etag"] == etag(body)
    assert content(served_gateway, repo, "a") == b"two"


def test_a_put_on_a_condition(served_gateway: Gateway, boto: Any, repo: str) -> None:
    def put(body: bytes, **condition: str) -> Any:
        return boto.put_object(Bucket=repo, Key="main/a", Body=body, **condition)

    def fails(**condition: str) -> tuple[int, str]:
        return refused(boto.put_object, Bucket=repo, Key="main/a", Body=b"no", **condition)

    assert fails(IfMatch=etag(b"one")) == (404, "NoSuchKey")
    first = put(b"one", IfNoneMatch="*")["ETag"]
    assert fails(IfNoneMatch="*") == (412, "PreconditionFailed")
    assert fails(IfMatch=etag(b"two")) == (412, "PreconditionFailed")
    put(b"two", IfMatch=first)
    put(b"three", IfMatch=etag(b"two").strip('"'))
    assert fails(IfMatch=etag(b"three"), IfNoneMatch="*") == (412, "PreconditionFailed")
    for condition in ({"IfMatch": ""}, {"IfNoneMatch": ""}):  # an unset variable of the client
        assert fails(**condition) == (400, "InvalidArgument")
    assert content(served_gateway, repo, "a") == b"three"


def test_what_is_no_branch_is_not_written(served_gateway: Gateway, s3: S3Client, repo: str) -> None:
    there = opened(served_gateway, repo)
    names.create_tag(there, "v1", "main")
    for ref, status, code in (
        ("v1", 405, "MethodNotAllowed"),
        ("main@", 405, "MethodNotAllowed"),
        ("main~1", 405, "MethodNotAllowed"),
        ("none", 404, "NoSuchBucket"),
    ):
        for query in (None, {"uploads": ""}):
            method = "POST" if query else "PUT"
            reply = s3.send(method, f"/{repo}/{ref}/a", query, body=b"" if query else b"x")
            assert (reply.status, code_of(reply)) == (status, code)


def test_a_protected_branch_is_not_written(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    client = served_gateway.live.client
    rules = f"/repositories/{repo}/settings/branch_protection"
    assert client.send("PUT", rules, body=[{"pattern": "main"}]).status == 204
    reply = s3.send("PUT", f"/{repo}/main/a", body=b"x")
    assert (reply.status, code_of(reply)) == (403, "ErrWriteToProtectedBranch")
    assert not is_there(served_gateway, repo, "a")


def test_the_top_of_a_branch_is_no_object(served_gateway: Gateway, s3: S3Client, repo: str) -> None:
    reply = s3.send("PUT", f"/{repo}/main/", headers={"Content-Length": "0"})
    assert (reply.status, reply.headers["etag"]) == (200, etag(b""))
    for path, body in ((f"/{repo}/main/", b"x"), (f"/{repo}/main", b"x")):
        reply = s3.send("PUT", path, body=body)
        assert (reply.status, code_of(reply)) == (404, "NoSuchKey")
    listed = read.list_objects(opened(served_gateway, repo), "main", read.ListQuery()).lines
    assert listed == []
    assert s3.send("PUT", f"/{repo}/main//x", body=b"1").status == 200
    assert content(served_gateway, repo, "/x") == b"1"
    assert s3.send("PUT", f"/{repo}/main/a/", headers={"Content-Length": "0"}).status == 200
    assert content(served_gateway, repo, "a/") == b""


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"x-amz-storage-class": "no class"}, 400, "InvalidStorageClass"),
        ({"x-amz-meta-a": "x" * 2_100}, 400, "MetadataTooLarge"),
        ({"x-amz-server-side-encryption-customer-key": "x"}, 501, "NotImplemented"),
        ({"x-amz-server-side-encryption": "aws:kms"}, 501, "NotImplemented"),
        ({"x-amz-write-offset-bytes": "1"}, 501, "NotImplemented"),
        ({"x-amz-object-lock-mode": "GOVERNANCE"}, 400, "InvalidRequest"),
        ({"If-Modified-Since": "Mon, 23 Nov 2026 10:00:00 GMT"}, 501, "NotImplemented"),
        ({"x-amz-copy-source": "nothing"}, 400, "InvalidArgument"),
    ],
)
def test_headers_that_ask_for_what_is_not_served_are_refused(
    served_gateway: Gateway,
    s3: S3Client,
    repo: str,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    reply = s3.send("PUT", f"/{repo}/main/a", body=b"x", headers=headers)
    assert (reply.status, code_of(reply)) == (status, code)
    assert not is_there(served_gateway, repo, "a")


def unfinished(s3: S3Client, target: str, headers: str, body: bytes) -> bytes:
    """What is answered before the connection ends, to a request whose body stops."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in s3.signed("PUT", target).items())
    head = f"PUT {target} HTTP/1.1\r\nHost: {s3.host}:{s3.port}\r\n{lines}{headers}\r\n"
    with socket.create_connection((s3.host, s3.port)) as connection:
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").read()


def test_a_body_whose_client_goes_away_leaves_nothing(
    served_gateway: Gateway, s3: S3Client, repo: str
) -> None:
    answer = unfinished(s3, f"/{repo}/main/a", "Content-Length: 3000000\r\n", b"x" * 1_000_000)
    assert b" 200 " not in answer[:20]
    assert not is_there(served_gateway, repo, "a")


@pytest.mark.parametrize("size", [3, 3_000_000], ids=["short", "long"])
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Content-MD5", base64.b64encode(bytes(16)).decode()),
        ("x-amz-checksum-crc32", base64.b64encode(bytes(4)).decode()),
        ("x-amz-checksum-sha256", base64.b64encode(bytes(32)).decode()),
    ],
)
def test_a_body_with_another_checksum_changes_nothing(
    served_gateway: Gateway, boto: Any, s3: S3Client, repo: str, size: int, header: str, value: str
) -> None:
    boto.put_object(Bucket=repo, Key="main/a", Body=b"before")
    id = boto.create_multipart_upload(Bucket=repo, Key="main/b")["UploadId"]
    part = {"uploadId": id, "partNumber": "1"}
    for path, query in ((f"/{repo}/main/a", None), (f"/{repo}/main/b", part)):
        reply = s3.send("PUT", path, query, body=b"x" * size, headers={header: value})
        assert (reply.status, code_of(reply)) == (400, "BadDigest")
    assert content(served_gateway, repo, "a") == b"before"
    assert "Parts" not in boto.list_parts(Bucket=repo, Key="main/b", UploadId=id)


def test_a_checksum_that_was_verified_is_echoed(boto: Any, repo: str) -> None:
    body = b"123456789"
    done = boto.put_object(Bucket=repo, Key="main/a", Body=body, ChecksumAlgorithm="CRC32")
    assert done["ChecksumCRC32"] == base64.b64encode(bytes.fromhex("cbf43926")).decode()


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (f"Content-Length: {5 * 2**30 + 1}\r\n", b"EntityTooLarge"),
        ("Transfer-Encoding: chunked\r\n", b"MissingContentLength"),
    ],
)
def test_a_length_that_is_missing_or_too_great_is_refused_before_the_body(
    s3: S3Client, repo: str, headers: str, code: bytes
) -> None:
    assert b"<Code>" + code in unfinished(s3, f"/{repo}/main/a", headers, b"")


# ---- copies --------------------------------------------------------------------------------------


def test_a_copy_keeps_or_replaces_the_description(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    boto.put_object(
        Bucket=repo, Key="main/a", Body=b"one", ContentType="text/csv", Metadata={"x": "1"}
    )
    source = {"Bucket": repo, "Key": "main/a"}
    done = boto.copy_object(Bucket=repo, Key="main/b", CopySource=source)
    copied = stat(served_gateway, repo, "b")
    assert done["CopyObjectResult"]["ETag"] == etag(b"one")
    assert (copied.content_type, copied.metadata) == ("text/csv", {"X-Amz-Meta-x": "1"})
    assert copied.address != stat(served_gateway, repo, "a").address
    boto.copy_object(
        Bucket=repo,
        Key="main/c",
        CopySource=source,
        MetadataDirective="REPLACE",
        Metadata={"y": "2"},
        ContentType="image/png",
    )
    copied = stat(served_gateway, repo, "c")
    assert (copied.content_type, copied.metadata) == ("image/png", {"X-Amz-Meta-y": "2"})
    assert content(served_gateway, repo, "c") == b"one"


def test_a_copy_comes_from_another_repository_and_from_any_ref(
    served_gateway: Gateway, boto: Any, s3: S3Client, repo: str
) -> None:
    other = served_gateway.live.fresh_repository()
    boto.put_object(Bucket=other, Key="main/a b+c", Body=b"one")
    commit = f"/repositories/{other}/branches/main/commits"
    assert served_gateway.live.client.send("POST", commit, body={"message": "m"}).status == 201
    boto.put_object(Bucket=other, Key="main/a b+c", Body=b"two")
    for ref, body in (("main", b"two"), ("main@", b"one")):
        boto.copy_object(Bucket=repo, Key="main/a", CopySource=f"{other}/{ref}/a b+c")
        assert content(served_gateway, repo, "a") == body
    raw = {"x-amz-copy-source": f"/{other}/main/a%20b%2Bc?versionId=null"}
    assert s3.send("PUT", f"/{repo}/main/b", headers=raw).status == 200
    assert content(served_gateway, repo, "b") == b"two"
    for source, status, code in (
        (f"{other}/main/none", 404, "NoSuchKey"),
        (f"{other}/none/a", 404, "NoSuchKey"),
        (f"{other}/main~x/a", 404, "NoSuchKey"),
        ("nowhere/main/a", 404, "NoSuchBucket"),
        ("UPPER/main/a", 404, "NoSuchBucket"),
        (f"{other}/main/", 400, "InvalidArgument"),
        (f"{other}/main/a?versionId=1", 404, "NoSuchVersion"),
    ):
        reply = s3.send("PUT", f"/{repo}/main/c", headers={"x-amz-copy-source": source})
        assert (reply.status, code_of(reply)) == (status, code), source
    reply = s3.send("PUT", f"/{repo}/main/", headers=raw)
    assert (reply.status, code_of(reply)) == (404, "NoSuchKey")


def test_a_copy_on_conditions(served_gateway: Gateway, boto: Any, repo: str) -> None:
    boto.put_object(Bucket=repo, Key="main/a", Body=b"one")
    boto.put_object(Bucket=repo, Key="main/b", Body=b"two")
    early, late = "Mon, 23 Nov 2020 10:00:00 GMT", "Mon, 23 Nov 2099 10:00:00 GMT"

    def fails(**condition: Any) -> tuple[int, str]:
        source = f"{repo}/main/a"
        return refused(boto.copy_object, Bucket=repo, Key="main/b", CopySource=source, **condition)

    for condition in (
        {"IfNoneMatch": "*"},
        {"IfMatch": etag(b"one")},
        {"CopySourceIfMatch": etag(b"two")},
        {"CopySourceIfNoneMatch": etag(b"one")},
        {"CopySourceIfUnmodifiedSince": early},
        {"CopySourceIfModifiedSince": late},
    ):
        assert fails(**condition) == (412, "PreconditionFailed")
    for name in ("CopySourceIfMatch", "CopySourceIfNoneMatch"):  # of a variable that is not set
        assert fails(**{name: ""}) == (400, "InvalidArgument")
    assert content(served_gateway, repo, "b") == b"two"
    boto.copy_object(
        Bucket=repo,
        Key="main/b",
        CopySource=f"{repo}/main/a",
        IfMatch=etag(b"two"),
        CopySourceIfMatch=etag(b"one"),
        CopySourceIfUnmodifiedSince=early,
    )
    assert content(served_gateway, repo, "b") == b"one"


def test_a_copy_onto_itself_replaces_the_description_alone(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    boto.put_object(Bucket=repo, Key="main/a", Body=b"one", Metadata={"x": "1"})
    before = stat(served_gateway, repo, "a")
    itself: dict[str, Any] = {"Bucket": repo, "Key": "main/a", "CopySource": f"{repo}/main/a"}
    boto.copy_object(**itself, MetadataDirective="REPLACE", Metadata={"y": "2"})
    after = stat(served_gateway, repo, "a")
    assert after.metadata == {"X-Amz-Meta-y": "2"}
    assert (after.address, after.checksum) == (before.address, before.checksum)
    assert refused(boto.copy_object, **itself) == (400, "InvalidRequest")
    done = boto.copy_object(**itself, StorageClass="STANDARD")
    assert done["CopyObjectResult"]["ETag"] == etag(b"one")
    assert stat(served_gateway, repo, "a") == after
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": etag(b"two")}):
        failure = refused(boto.copy_object, **itself, StorageClass="STANDARD", **condition)
        assert failure == (412, "PreconditionFailed")
    boto.copy_object(**itself, StorageClass="STANDARD", IfMatch=etag(b"one"))
    stale = {"CopySourceIfMatch": etag(b"two"), "MetadataDirective": "REPLACE"}
    assert refused(boto.copy_object, **itself, **stale) == (412, "PreconditionFailed")
    absent = {"IfNoneMatch": "*", "MetadataDirective": "REPLACE"}
    assert refused(boto.copy_object, **itself, **absent) == (412, "PreconditionFailed")


@pytest.mark.parametrize(
    ("storage_class", "failure"),
    [("GLACIER", (501, "NotImplemented")), ("no class", (400, "InvalidStorageClass"))],
)
def test_a_copy_of_another_storage_class_is_refused(
    served_gateway: Gateway, boto: Any, repo: str, storage_class: str, failure: tuple[int, str]
) -> None:
    """Because the copy would have the usual one."""
    boto.put_object(Bucket=repo, Key="main/a", Body=b"one", Metadata={"x": "1"})
    before = stat(served_gateway, repo, "a")
    for key, directive in (("main/b", "COPY"), ("main/b", "REPLACE"), ("main/a", "COPY")):
        call = {"Bucket": repo, "Key": key, "CopySource": f"{repo}/main/a"}
        call |= {"MetadataDirective": directive, "StorageClass": storage_class}
        assert refused(boto.copy_object, **call) == failure
    assert stat(served_gateway, repo, "a") == before
    assert not is_there(served_gateway, repo, "b")
    boto.copy_object(**{**call, "Key": "main/b", "StorageClass": "STANDARD"})
    assert is_there(served_gateway, repo, "b")


def test_a_new_description_may_name_the_storage_class(
    served_gateway: Gateway, boto: Any, repo: str
) -> None:
    """rclone sets times so.  No bytes are written, so the object keeps its class."""
    boto.put_object(Bucket=repo, Key="main/a", Body=b"one")
    itself = {"Bucket": repo, "Key": "main/a", "CopySource": f"{repo}/main/a"}
    more = {"MetadataDirective": "REPLACE", "StorageClass": "GLACIER", "Metadata": {"mtime": "1"}}
    boto.copy_object(**itself, **more)
    assert boto.head_object(Bucket=repo, Key="main/a")["Metadata"] == {"mtime": "1"}


def test_a_directive_is_one_of_two(s3: S3Client, repo: str) -> None:
    headers = {"x-amz-copy-source": f"{repo}/main/a", "x-amz-metadata-directive": "MERGE"}
    reply: Reply = s3.send("PUT", f"/{repo}/main/b", headers=headers)
    assert (reply.status, code_of(reply)) == (400, "InvalidArgument")
