"""Reading objects through a real server: ranges, conditions, headers, streams."""

import hashlib
from email.utils import formatdate, parsedate_to_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.gateway.serving import Gateway, S3Client, code_of

BODY = b"0123456789"
ETAG = hashlib.md5(BODY, usedforsecurity=False).hexdigest()

SHIELD = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


@pytest.fixture(scope="module")
def key(served_gateway: Gateway) -> str:
    """The address of an object of ten bytes."""
    live = served_gateway.live
    repo = live.fresh_repository()
    where = f"/repositories/{repo}/branches/main/objects"
    headers = {
        "Content-Type": "text/plain",
        "x-lakefs-meta-color": "blue",
        "x-lakefs-meta-name": "\u00fc\u4e2d".encode().decode("latin-1"),
    }
    reply = live.client.send("POST", where, {"path": "a b"}, body=BODY, headers=headers)
    assert reply.status == 201
    return f"/{repo}/main/a b"


def test_an_object_is_read_with_its_headers(s3: S3Client, key: str) -> None:
    whole = s3.send("GET", key)
    assert (whole.status, whole.body) == (200, BODY)
    head = s3.send("HEAD", key)
    assert (head.status, head.body) == (200, b"")
    apart = ("date", "x-request-id", "x-amz-request-id")
    for name in whole.headers.keys() - set(apart):
        assert head.headers[name] == whole.headers[name]
    assert whole.headers["etag"] == f'"{ETAG}"'
    assert whole.headers["content-length"] == "10"
    assert whole.headers["content-type"] == "text/plain"
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["content-security-policy"] == SHIELD
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["x-amz-meta-color"] == "blue"
    assert whole.headers["x-amz-meta-name"] == "=?UTF-8?B?w7zkuK0=?="


_OLD = formatdate(1_000_000_000, usegmt=True)


def test_the_time_of_an_object_is_one_of_whole_seconds(s3: S3Client, key: str) -> None:
    modified = s3.send("HEAD", key).headers["last-modified"]
    assert s3.send("GET", key, headers={"If-Modified-Since": modified}).status == 304
    assert s3.send("GET", key, headers={"If-Unmodified-Since": modified}).status == 200
    earlier = formatdate(parsedate_to_datetime(modified).timestamp() - 1, usegmt=True)
    assert s3.send("GET", key, headers={"If-Modified-Since": earlier}).status == 200
    partial = {"If-Range": modified, "Range": "bytes=1-2"}
    assert s3.send("GET", key, headers=partial).status == 206


def test_a_request_chooses_headers_of_its_answer(s3: S3Client, key: str) -> None:
    chosen = {
        "response-content-type": "application/x-a",
        "response-content-disposition": 'attachment; filename="a\u00fcb"',
        "response-cache-control": "no-store",
        "response-content-encoding": "gzip",
        "response-content-language": "de",
        "response-expires": _OLD,
    }
    headers = s3.send("GET", key, chosen).headers
    for name, value in chosen.items():
        assert headers[name.removeprefix("response-")] == value
    assert "b" not in headers
    assert s3.send("HEAD", key, chosen).headers["content-type"] == "application/x-a"


def test_a_browser_runs_no_content_on_the_origin_of_the_service(s3: S3Client, key: str) -> None:
    """Whatever type and disposition the request chooses, and whichever part it reads."""
    page = {"response-content-type": "text/html", "response-content-disposition": "inline"}
    requests: list[tuple[dict[str, str], dict[str, str]]] = [
        (page, {}),
        (page, {"Range": "bytes=0-1"}),
        (page | {"partNumber": "1"}, {}),
    ]
    for method in ("GET", "HEAD"):
        for query, headers in requests:
            reply = s3.send(method, key, query, headers=headers)
            assert reply.headers["content-type"] == "text/html"
            assert reply.headers["content-security-policy"] == SHIELD
            assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_first_part_is_the_whole_object(s3: S3Client, key: str) -> None:
    reply = s3.send("GET", key, {"partNumber": "1"})
    assert (reply.status, reply.body) == (206, BODY)
    assert code_of(s3.send("GET", key, {"partNumber": "2"})) == "InvalidPartNumber"
    for wrong in ("0", "10001", "x", "-1", "9" * 40, "000000001" + "0" * 5_000):
        assert code_of(s3.send("GET", key, {"partNumber": wrong})) == "InvalidArgument"
    both = s3.send("GET", key, {"partNumber": "1"}, headers={"Range": "bytes=0-1"})
    assert code_of(both) == "InvalidRequest"


def test_versions_and_customer_keys_are_refused(s3: S3Client, key: str) -> None:
    assert s3.send("GET", key, {"versionId": "null"}).status == 200
    assert code_of(s3.send("GET", key, {"versionId": "x"})) == "NoSuchVersion"
    customer = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
    reply = s3.send("GET", key, headers=customer)
    assert (reply.status, code_of(reply)) == (501, "NotImplemented")


def test_an_object_has_no_tags(boto: Any, key: str) -> None:
    _, repo, name = key.split("/", 2)
    assert boto.get_object_tagging(Bucket=repo, Key=name)["TagSet"] == []
    with pytest.raises(ClientError, match="NoSuchKey"):
        boto.get_object_tagging(Bucket=repo, Key="main/none")


@pytest.mark.parametrize(
    "name",
    [
        *("main", "main/", "main/none", "none/a", "/a", "ma in/a", "main~99/a", "main$@/a", "%/a"),
        *("main/a b/", "main//a b", "main/../main/a b"),
    ],
)
def test_what_does_not_exist_is_not_found(s3: S3Client, key: str, name: str) -> None:
    repo = key.split("/")[1]
    reply = s3.send("GET", f"/{repo}/{name}")
    assert (reply.status, code_of(reply)) == (404, "NoSuchKey")
    head = s3.send("HEAD", f"/{repo}/{name}")
    assert (head.status, head.body) == (404, b"")


def test_an_empty_object_and_a_long_one_are_read(served_gateway: Gateway, s3: S3Client) -> None:
    live = served_gateway.live
    repo = live.fresh_repository()
    long = bytes(range(256)) * 2048
    live.client.upload(repo, "empty", b"")
    live.client.upload(repo, "long", long)
    assert s3.send("GET", f"/{repo}/main/empty").body == b""
    assert s3.send("GET", f"/{repo}/main/empty", {"partNumber": "1"}).status == 200
    assert s3.send("GET", f"/{repo}/main/empty", headers={"Range": "bytes=0-"}).status == 416
    assert s3.send("GET", f"/{repo}/main/long").body == long
    part = s3.send("GET", f"/{repo}/main/long", headers={"Range": "bytes=1000-300000"})
    assert part.body == long[1000:300001]


def test_bytes_that_are_gone_are_a_version_that_is_gone(
    served_gateway: Gateway, s3: S3Client
) -> None:
    live = served_gateway.live
    repo = live.fresh_repository()
    live.client.upload(repo, "gone", b"x")
    stats = live.client.send(
        "GET", f"/repositories/{repo}/refs/main/objects/stat", {"path": "gone"}
    )
    live.embedded.ports.blocks.delete(stats.json["physical_address"])
    reply = s3.send("GET", f"/{repo}/main/gone")
    assert (reply.status, code_of(reply)) == (404, "NoSuchVersion")


def test_the_attributes_of_an_object_are_told(boto: Any, repo: str) -> None:
    def attributes(key: str, *names: str) -> dict[str, Any]:
        found = boto.get_object_attributes(Bucket=repo, Key=key, ObjectAttributes=list(names))
        assert found.pop("LastModified") == boto.head_object(Bucket=repo, Key=key)["LastModified"]
        del found["ResponseMetadata"]
        return dict(found)

    everything = ("ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize")
    etag = boto.put_object(Bucket=repo, Key="main/a", Body=b"abc")["ETag"].strip('"')
    assert attributes("main/a", *everything) == {
        "ETag": etag,
        "StorageClass": "STANDARD",
        "ObjectSize": 3,
    }
    assert attributes("main/a", "ObjectSize") == {"ObjectSize": 3}
    upload = boto.create_multipart_upload(Bucket=repo, Key="main/b")["UploadId"]
    where = {"Bucket": repo, "Key": "main/b", "UploadId": upload}
    parts = [
        {"ETag": boto.upload_part(**where, PartNumber=number, Body=body)["ETag"],
         "PartNumber": number}
        for number, body in ((1, bytes(5 * 1024 * 1024)), (2, b"x"))
    ]  # fmt: skip
    boto.complete_multipart_upload(**where, MultipartUpload={"Parts": parts})
    assert attributes("main/b", "ObjectParts")["ObjectParts"] == {"TotalPartsCount": 2}
    with pytest.raises(boto.exceptions.NoSuchKey):
        boto.get_object_attributes(Bucket=repo, Key="main/none", ObjectAttributes=["ETag"])


@pytest.mark.parametrize("names", ["", "Size", "ETag,,Size"])
def test_attributes_that_do_not_exist_are_refused(s3: S3Client, repo: str, names: str) -> None:
    headers = {"x-amz-object-attributes": names} if names else {}
    reply = s3.send("GET", f"/{repo}/main/a", {"attributes": ""}, headers=headers)
    assert (reply.status, code_of(reply)) == (400, "InvalidArgument")


def test_a_header_that_no_answer_can_have_is_not_chosen(s3: S3Client, repo: str) -> None:
    assert s3.send("PUT", f"/{repo}/main/a", body=b"x").status == 200
    name = "response-content-disposition"
    for value in ("\u20ac", "a\r\nX: y"):
        reply = s3.send("GET", f"/{repo}/main/a", {name: value})
        assert (reply.status, code_of(reply)) == (400, "InvalidArgument")
        assert b"ISO-8859-1" in reply.body
