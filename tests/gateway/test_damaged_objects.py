"""A file that is shorter or longer than its entry: no door serves it, or copies it, as good."""

import http.client
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.serving import Reply
from tests.gateway.serving import Gateway, code_of
from tests.waiting import until

SMALL, STREAMED, LARGE = 1_000, 100_000, 5 << 20


def damaged(gateway: Gateway, repo: str, size: int, path: str = "x") -> Iterator[tuple[int, Path]]:
    """An object of `size` bytes, whose file then has other sizes: shorter, longer, none.  It was
    read before, so that its file is open."""
    live = gateway.live
    assert live.client.upload(repo, path, os.urandom(size)).status == 201
    stats = live.client.send("GET", f"/repositories/{repo}/refs/main/objects/stat", {"path": path})
    (file,) = live.store.rglob(stats.json["physical_address"].rpartition("/")[2])
    content = file.read_bytes()
    assert len(content) == size
    where = f"/repositories/{repo}/refs/main/objects"
    assert live.client.send("GET", where, {"path": path}).body == content
    for other in (size - 1, size + 1, 0):
        os.truncate(file, other)
        yield other, file
    file.write_bytes(content)
    assert live.client.send("GET", where, {"path": path}).body == content


@pytest.mark.parametrize("size", [SMALL, STREAMED, LARGE])
def test_the_api_and_signed_urls_refuse_it(
    served_gateway: Gateway, repo: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = served_gateway.live.client
    where = f"/repositories/{repo}/refs/main/objects"
    ranges: tuple[dict[str, str], ...] = (
        {},
        {"Range": "bytes=0-9"},
        {"Range": f"bytes={size - 3}-"},
    )
    for other, file in damaged(served_gateway, repo, size):
        url = client.send("GET", where, {"path": "x", "presign": "true"}).headers["location"]
        target = re.sub(r"^https?://[^/]*", "", url)
        for headers in ranges:
            caplog.clear()
            replies = [
                client.send("GET", where, {"path": "x"}, headers=headers),
                client.raw("GET", target, headers={"Authorization": "", **headers}),
            ]
            for reply in replies:
                assert reply.status == 500, (other, headers)
                assert file.name in reply.message and f"expected={size}" in reply.message
                assert str(served_gateway.live.store) not in reply.message
            lines = [each for each in caplog.records if each.levelno >= logging.ERROR]
            assert len(lines) == 2
            for line in lines:  # one line, no stack
                assert line.exc_info is None and file.name in vars(line)["cause"]
        assert client.raw("HEAD", target, headers={"Authorization": ""}).status == 500


@pytest.mark.parametrize("size", [SMALL, STREAMED, LARGE])
def test_the_gateway_refuses_it(served_gateway: Gateway, repo: str, size: int) -> None:
    s3, key = served_gateway.s3, f"/{repo}/main/x"
    for other, _ in damaged(served_gateway, repo, size):
        for headers in ({}, {"range": "bytes=0-9"}, {"range": "bytes=-1"}):
            reply = s3.send("GET", key, headers=headers)
            assert (reply.status, code_of(reply)) == (500, "InternalError"), (other, headers)


def test_it_is_not_copied(served_gateway: Gateway, repo: str) -> None:
    """Through the API, the gateway, and as a part of an upload."""
    client, s3 = served_gateway.live.client, served_gateway.s3
    boto = served_gateway.boto()
    upload = boto.create_multipart_upload(Bucket=repo, Key="main/parts")["UploadId"]
    parts = {"partNumber": "1", "uploadId": upload}

    def copies(source: dict[str, str]) -> list[Reply]:
        where = f"/repositories/{repo}/branches/main/objects/copy"
        return [
            client.send("POST", where, {"dest_path": "copied"}, body={"src_path": "x"}),
            s3.send("PUT", f"/{repo}/main/copied", headers=source),
            s3.send("PUT", f"/{repo}/main/parts", parts, headers=source),
        ]

    source = {"x-amz-copy-source": f"/{repo}/main/x"}
    of_range = {**source, "x-amz-copy-source-range": "bytes=0-9"}
    for other, _ in damaged(served_gateway, repo, STREAMED):
        replies = copies(source) + copies(of_range)[2:]
        assert [reply.status for reply in replies] == [500] * 4, (other, replies)
        stat = f"/repositories/{repo}/refs/main/objects/stat"
        assert client.send("GET", stat, {"path": "copied"}).status == 404
    assert [reply.status // 100 for reply in copies(source)] == [2, 2, 2]


def test_an_empty_object_that_has_bytes_is_refused(served_gateway: Gateway, repo: str) -> None:
    live = served_gateway.live
    live.client.upload(repo, "x", b"")
    where = f"/repositories/{repo}/refs/main/objects"
    stats = live.client.send("GET", f"{where}/stat", {"path": "x"}).json
    assert live.client.send("GET", where, {"path": "x"}).body == b""
    (file,) = live.store.rglob(stats["physical_address"].rpartition("/")[2])
    file.write_bytes(b"x")
    assert live.client.send("GET", where, {"path": "x"}).status == 500
    assert served_gateway.s3.send("GET", f"/{repo}/main/x").status == 500


def test_the_stored_checksum_is_sent_when_it_is_asked_for(
    served_gateway: Gateway, repo: str
) -> None:
    """That of the upload: a client then finds a byte that changed on the disk."""
    client, s3 = served_gateway.live.client, served_gateway.s3
    body = os.urandom(LARGE)
    client.upload(repo, "x", body)
    known = client.send("GET", f"/repositories/{repo}/refs/main/objects", {"path": "x"}).headers
    mode = {"x-amz-checksum-mode": "ENABLED"}
    whole = s3.send("GET", f"/{repo}/main/x", headers=mode)
    assert whole.body == body
    assert whole.headers["x-amz-checksum-crc32c"] == known["x-amz-checksum-crc32c"]
    assert whole.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    for headers in ({}, {**mode, "range": "bytes=0-9"}):
        reply = s3.send("GET", f"/{repo}/main/x", headers=headers)
        assert reply.status in (200, 206) and "x-amz-checksum-crc32c" not in reply.headers


def test_a_file_that_is_cut_while_it_is_sent_ends_the_connection(
    served_gateway: Gateway, repo: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets fewer bytes than the answer announced, and the log one line, no stack."""
    live = served_gateway.live
    size = 64 << 20  # more than the sockets hold
    assert live.client.upload(repo, "x", bytes(size)).status == 201
    where = f"/repositories/{repo}/refs/main/objects"
    stats = live.client.send("GET", f"{where}/stat", {"path": "x"}).json
    (file,) = live.store.rglob(stats["physical_address"].rpartition("/")[2])
    connection = http.client.HTTPConnection(live.client.host, live.client.port, timeout=60)
    headers = {"Authorization": live.client.authorization}
    connection.request("GET", f"/api/v1{where}?path=x", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    os.truncate(file, 1)
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    connection.close()

    def lines() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.levelno >= logging.ERROR]

    until(lambda: bool(lines()), "the error is in the log")
    assert file.name in vars(lines()[0])["cause"]
    assert not any(line.exc_info for line in lines())
