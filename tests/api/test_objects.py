"""Bytes in and out: uploads of every kind, ranges, conditions, signed URLs."""

import base64
import hashlib
import http.client
import os
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import google_crc32c
import pytest

from graveler.block.adapter import TO_END, Body
from graveler.block.local import LocalBlocks
from tests.api.serving import API, Client, Served
from tests.block.test_file_checksums import kept_attributes
from tests.waiting import PATIENCE_SECONDS, until

BODY = bytes(range(256)) * 8
MEGABYTE = 1024 * 1024
CRC32C = "x-amz-checksum-crc32c"


def _files(store: Path) -> set[Path]:
    return {path for path in (store / "objects").rglob("*") if path.is_file()}


def _get(client: Client, repo: str, path: str, **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    where = f"/repositories/{repo}/refs/main/objects"
    reply = client.send("GET", where, {"path": path}, headers=named)
    return reply.status, reply.body


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 300_000, 3 * MEGABYTE])
def test_what_is_uploaded_comes_back(client: Client, repo: str, size: int) -> None:
    body = os.urandom(size)
    reply = client.upload(repo, "a", body)
    assert reply.status == 201
    assert reply.json["checksum"] == hashlib.md5(body).hexdigest()
    assert reply.json["size_bytes"] == size
    assert _get(client, repo, "a") == (200, body)


@pytest.mark.parametrize(("is_etag", "expected"), [(True, "aws:kms"), (False, None)])
@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=3-9"}])
def test_the_etag_of_an_encrypted_object_is_said_to_be_no_md5(
    client: Client,
    repo: str,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    is_etag: bool,
    expected: str | None,
) -> None:
    """As of an object in a bucket; only where the store gave the etag that is shown."""
    etag, get = client.upload(repo, "a", bytes(100_000)).json["checksum"], LocalBlocks.get

    def encrypted(self: LocalBlocks, address: str, start: int = 0, end: int = TO_END) -> Body:
        body = get(self, address, start, end)
        shown = etag if is_etag else "another"
        return body._replace(head=body.head._replace(etag=shown, encryption="aws:kms"))

    monkeypatch.setattr(LocalBlocks, "get", encrypted)
    where = f"/repositories/{repo}/refs/main/objects"
    reply = client.send("GET", where, {"path": "a"}, headers=headers)
    assert reply.status == (206 if headers else 200)
    assert reply.headers.get("x-amz-server-side-encryption") == expected


def _crc32c(body: bytes) -> str:
    return base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("size", [100_000, 5 * MEGABYTE])
def test_an_upload_tells_the_crc32c_of_what_it_stored(client: Client, repo: str, size: int) -> None:
    assert client.send("GET", "/config").headers["x-graveler-checksums"] == "crc32c"
    body = os.urandom(size)
    assert client.upload(repo, "a", body).headers[CRC32C] == _crc32c(body)
    form = b"--x\r\nContent-Disposition: form-data; name=content\r\n\r\n%b\r\n--x--\r\n" % body
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    where = f"/repositories/{repo}/branches/main/objects"
    sent = client.send("POST", where, {"path": "b"}, body=form, headers=kind)
    assert (sent.status, sent.headers[CRC32C]) == (201, _crc32c(body))


def test_a_read_of_a_large_object_tells_its_crc32c(
    client: Client, repo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_attributes(tmp_path, monkeypatch)
    body = os.urandom(5 * MEGABYTE)
    client.upload(repo, "a", body)
    where = f"/repositories/{repo}/refs/main/objects"
    signed = client.send("GET", where, {"path": "a", "presign": "true"}).headers["location"]
    some = {"Range": "bytes=1-"}
    for read in (
        lambda headers: client.send("GET", where, {"path": "a"}, headers=headers),
        lambda headers: client.raw("GET", _path(signed), headers=headers),
    ):
        for headers in ({}, {"If-None-Match": '"other"'}):
            assert read(headers).headers[CRC32C] == _crc32c(body)
        assert CRC32C not in read(some).headers  # it is that of all bytes


def test_a_chunked_upload(client: Client, repo: str) -> None:
    pieces = [os.urandom(70_000) for _ in range(20)]
    where = f"{API}/repositories/{repo}/branches/main/objects?path=a"
    connection = http.client.HTTPConnection(client.host, client.port, timeout=PATIENCE_SECONDS)
    headers = {"Authorization": client.authorization, "Transfer-Encoding": "chunked"}
    connection.request("POST", where, iter(pieces), headers, encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()
    assert _get(client, repo, "a") == (200, b"".join(pieces))


@pytest.mark.parametrize("size", [0, 10, 2 * MEGABYTE])
def test_a_multipart_upload(client: Client, repo: str, size: int) -> None:
    body = os.urandom(size)
    head = (
        '--xyz\r\nContent-Disposition: form-data; name="content"; filename="f.csv"\r\n'
        "Content-Type: text/csv\r\n\r\n"
    )
    whole = head.encode() + body + b"\r\n--xyz--\r\n"
    where = f"/repositories/{repo}/branches/main/objects"
    headers = {"Content-Type": "multipart/form-data; boundary=xyz"}
    reply = client.send("POST", where, {"path": "a"}, body=whole, headers=headers)
    assert reply.status == 201
    assert reply.json["content_type"] == "text/csv"
    assert _get(client, repo, "a") == (200, body)


def test_a_body_whose_reader_stops_at_its_beginning_is_answered(live: Served, repo: str) -> None:
    """The rest of the body is dropped: it waits for no reader."""
    client, body = live.client, b"x" * 8 * MEGABYTE
    where = f"/repositories/{repo}/branches/main/objects"
    headers = {"Content-Type": "multipart/form-data; boundary=xyz"}
    reply = client.send("POST", where, {"path": "a"}, body=body, headers=headers)
    assert reply.status == 400 and "multipart" in reply.message
    address, signer = f"local://{repo}/x/data/signed", live.embedded.signer
    url = signer.presign(address, "PUT", 60, "", size=10).url
    reply = client.raw("PUT", url, body)
    assert reply.status == 400 and "size=10" in reply.body.decode()
    assert _get(client, repo, "a")[0] == 404
    assert not any(path.name == "signed" for path in _files(live.store))


def test_the_branch_is_checked_before_the_body_is_read(client: Client, repo: str) -> None:
    with socket.create_connection((client.host, client.port), timeout=PATIENCE_SECONDS) as raw:
        head = (
            f"POST {API}/repositories/{repo}/branches/none/objects?path=a HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {client.authorization}\r\nContent-Length: {10**9}\r\n"
            "Expect: 100-continue\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("sent", [0, MEGABYTE, 3 * MEGABYTE])
def test_a_client_that_goes_away_leaves_nothing(live: Served, repo: str, sent: int) -> None:
    before = _files(live.store)
    with socket.create_connection(
        (live.client.host, live.client.port), timeout=PATIENCE_SECONDS
    ) as raw:
        head = (
            f"POST {API}/repositories/{repo}/branches/main/objects?path=a HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {live.client.authorization}\r\nContent-Length: {10**9}\r\n\r\n"
        )
        raw.sendall(head.encode() + b"x" * sent)
        until(lambda: live.server.server_state.tasks, "the request has begun")
        if sent:
            until(lambda: _files(live.store) != before, "its file is being written")
    where = f"/repositories/{repo}/refs/main/objects/stat"
    until(lambda: not live.server.server_state.tasks, "the request has ended")
    until(lambda: _files(live.store) == before, "its file is gone")
    assert live.client.send("GET", where, {"path": "a"}).status == 404
    assert live.client.upload(repo, "a", b"still fine").status == 201


def test_a_long_upload_and_download_use_little_memory(live: Served, repo: str) -> None:
    client, count = live.client, 96
    piece = os.urandom(MEGABYTE)
    digest = hashlib.md5()

    def pieces() -> Iterator[bytes]:
        for _ in range(count):
            digest.update(piece)
            yield piece

    where = f"{API}/repositories/{repo}/branches/main/objects?path=long"
    connection = http.client.HTTPConnection(client.host, client.port, timeout=PATIENCE_SECONDS)
    headers = {"Authorization": client.authorization, "Transfer-Encoding": "chunked"}
    tracemalloc.start()
    try:
        connection.request("POST", where, pieces(), headers, encode_chunked=True)
        assert connection.getresponse().status == 201
        connection.close()
        where = f"{API}/repositories/{repo}/refs/main/objects?path=long"
        connection.request("GET", where, headers={"Authorization": client.authorization})
        answer = connection.getresponse()
        found = hashlib.md5()
        while chunk := answer.read(MEGABYTE):
            found.update(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        connection.close()
    assert found.digest() == digest.digest()
    assert peak < 24 * MEGABYTE, peak


def test_a_reader_that_stops_listening_holds_nobody_up(live: Served, repo: str) -> None:
    client = live.client
    client.upload(repo, "long", b"x" * 20 * MEGABYTE)
    where = f"{API}/repositories/{repo}/refs/main/objects?path=long"
    for _ in range(24):  # more than there are threads for streams
        raw = socket.create_connection((client.host, client.port), timeout=PATIENCE_SECONDS)
        head = f"GET {where} HTTP/1.1\r\nHost: x\r\nAuthorization: {client.authorization}\r\n\r\n"
        raw.sendall(head.encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
        raw.close()
    assert _get(client, repo, "long")[1] == b"x" * 20 * MEGABYTE


def test_conditional_uploads(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/objects"

    def put(body: bytes, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.send("POST", where, {"path": "a"}, body=body, headers=named).status

    assert put(b"1", If_None_Match="*") == 201
    assert put(b"2", If_None_Match="*") == 412
    assert _get(client, repo, "a") == (200, b"1")


def test_metadata_of_the_headers(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/objects"
    headers = {"X-LakeFS-Meta-Colour": "Blue", "x-lakefs-internal-mtime": "7", "X-Other": "no"}
    reply = client.send("POST", where, {"path": "a"}, body=b"x", headers=headers)
    assert reply.json["metadata"] == {"colour": "Blue", "::lakefs::mtime": "7"}


def test_ranges_of_small_and_long_objects(client: Client, repo: str) -> None:
    long = os.urandom(MEGABYTE)
    client.upload(repo, "small", BODY)
    client.upload(repo, "long", long)
    for path, body in (("small", BODY), ("long", long)):
        for first, last in ((0, 0), (1, 1000), (len(body) - 1, len(body) - 1), (10, len(body) - 1)):
            found = _get(client, repo, path, Range=f"bytes={first}-{last}")
            assert found == (206, body[first : last + 1])
        assert _get(client, repo, path, Range=f"bytes={len(body)}-")[0] == 416


def test_no_object_can_run_in_a_browser(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/objects"
    for kind, how in (
        ("text/html", "attachment"),
        ("image/svg+xml", "attachment"),
        ("text/xml; charset=utf-8", "attachment"),
        ("text/plain; charset=utf-8", "inline"),
        ("image/png", "inline"),
    ):
        body, query = b"<script>alert(1)</script>", {"path": "a"}
        client.send("POST", where, query, body=body, headers={"Content-Type": kind})
        reply = client.send("GET", f"/repositories/{repo}/refs/main/objects", query)
        assert reply.headers["content-disposition"] == how
        assert reply.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_bytes_that_are_gone_are_410(live: Served, repo: str) -> None:
    before = _files(live.store)
    live.client.upload(repo, "a", BODY)
    for path in _files(live.store) - before:
        path.unlink()
    assert _get(live.client, repo, "a")[0] == 410


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def test_a_signed_read(client: Client, repo: str) -> None:
    client.upload(repo, "a", BODY)
    where = f"/repositories/{repo}/refs/main/objects"
    reply = client.send("GET", where, {"path": "a", "presign": "True"})
    assert reply.status == 302
    anonymous = Client(client.host, client.port, "")
    url = _path(reply.headers["location"])
    found = anonymous.raw("GET", url)
    assert (found.status, found.body) == (200, BODY)
    assert "sandbox" in found.headers["content-security-policy"]
    part = anonymous.raw("GET", url, headers={"Range": "bytes=1-2"})
    assert (part.status, part.body) == (206, BODY[1:3])
    assert part.headers["content-range"] == f"bytes 1-2/{len(BODY)}"
    head = anonymous.raw("HEAD", url)
    assert (head.status, head.headers["content-length"]) == (200, str(len(BODY)))
    stat = client.send("GET", where + "/stat", {"path": "a", "presign": "true"}).json
    assert anonymous.raw("GET", _path(stat["physical_address"])).body == BODY
    assert stat["physical_address_expiry"] > 0
    listed = client.send("GET", where + "/ls", {"presign": "true"}).json["results"][0]
    assert anonymous.raw("GET", _path(listed["physical_address"])).body == BODY


@pytest.mark.parametrize("size", [10, 3 * MEGABYTE])
def test_a_signed_write_is_linked(client: Client, repo: str, size: int) -> None:
    body = os.urandom(size)
    where = f"/repositories/{repo}/branches/main/staging/backing"
    given = client.send("GET", where, {"path": "a", "presign": "True"}).json
    anonymous = Client(client.host, client.port, "")
    put = anonymous.raw("PUT", _path(given["presigned_url"]), body)
    assert put.status == 200
    assert put.headers["etag"] == f'"{hashlib.md5(body).hexdigest()}"'
    link = {"staging": given, "checksum": put.headers["etag"], "size_bytes": size}
    assert client.send("PUT", where, {"path": "other"}, body=link).status == 400
    for _ in range(2):  # the second is a retry
        linked = client.send("PUT", where, {"path": "a"}, body=link)
        assert linked.status == 200
        assert linked.json["checksum"] == hashlib.md5(body).hexdigest()
    assert _get(client, repo, "a") == (200, body)
    headers = {"If-None-Match": "*"}
    fresh = client.send("GET", where, {"path": "a", "presign": "True"}).json
    assert anonymous.raw("PUT", _path(fresh["presigned_url"]), b"x").status == 200
    again = {"staging": fresh, "checksum": "c", "size_bytes": 1}
    for there in (again, link):  # what was linked without a condition is not an earlier attempt
        assert client.send("PUT", where, {"path": "a"}, body=there, headers=headers).status == 412


@pytest.mark.parametrize("size", [0, 10, 3 * MEGABYTE])
def test_a_signed_write_creates_and_never_replaces(client: Client, repo: str, size: int) -> None:
    body = os.urandom(size)
    others = (body + b"x", os.urandom(size)) if size else (b"x",)
    where = f"/repositories/{repo}/branches/main/staging/backing"
    given = client.send("GET", where, {"path": "a", "presign": "True"}).json
    url, anonymous = _path(given["presigned_url"]), Client(client.host, client.port, "")
    link = {"staging": given, "checksum": hashlib.md5(body).hexdigest(), "size_bytes": size}
    assert client.send("PUT", where, {"path": "a"}, body=link).status == 400  # nothing is there
    first = anonymous.raw("PUT", url, body)
    wrong = link | {"size_bytes": size + 1}
    assert client.send("PUT", where, {"path": "a"}, body=wrong).status == 400
    assert client.send("PUT", where, {"path": "a"}, body=link).status == 200
    again = anonymous.raw("PUT", url, body)  # its answer was lost
    assert (first.status, first.headers["etag"]) == (again.status, again.headers["etag"])
    assert [anonymous.raw("PUT", url, other).status for other in others] == [412] * len(others)
    assert _get(client, repo, "a") == (200, body)


@pytest.mark.parametrize("size", [0, 10, 3 * MEGABYTE])
def test_a_signed_write_of_a_size_stores_that_size_alone(
    live: Served, repo: str, size: int
) -> None:
    client, body = live.client, os.urandom(size)
    where = f"/repositories/{repo}/branches/main/staging/backing"
    asked = {"path": "a", "presign": "True", "size_bytes": str(size)}
    given = client.send("GET", where, asked).json
    url, anonymous = _path(given["presigned_url"]), Client(client.host, client.port, "")
    before = _files(live.store)
    for other in (body + b"x", body + os.urandom(MEGABYTE), body[:-1]):
        if other != body:
            refused = anonymous.raw("PUT", url, other)
            assert (refused.status, "size" in refused.message) == (400, True)
            pieces = b"%x\r\n%b\r\n0\r\n\r\n" % (len(other), other) if other else b"0\r\n\r\n"
            chunked = {"Transfer-Encoding": "chunked"}  # and no Content-Length
            assert anonymous.raw("PUT", url, pieces, chunked).status == 400
    until(lambda: _files(live.store) == before, "a thread has removed what had arrived")
    assert anonymous.raw("PUT", url, body).status == 200
    link = {"staging": given, "checksum": hashlib.md5(body).hexdigest(), "size_bytes": size}
    assert client.send("PUT", where, {"path": "a"}, body=link).status == 200
    assert _get(client, repo, "a") == (200, body)


def test_a_size_that_no_object_has_is_refused(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/staging/backing"
    for size in ("-2", "x", "", str(1 << 60)):
        asked = {"path": "a", "presign": "True", "size_bytes": size}
        assert client.send("GET", where, asked).status == 400, size


def test_a_conditional_link_may_be_repeated_until_another_writes_there(
    live: Served, repo: str
) -> None:
    client = live.client
    where = f"/repositories/{repo}/branches/main/staging/backing"
    link = {
        "staging": client.send("GET", where, {"path": "a"}).json,
        "checksum": "c",
        "size_bytes": 1,
    }
    live.embedded.ports.blocks.put(link["staging"]["physical_address"], [b"x"])

    def linked() -> int:
        headers = {"If-None-Match": "*"}
        return client.send("PUT", where, {"path": "a"}, body=link, headers=headers).status

    assert (linked(), linked()) == (200, 200)
    pairs = f"/repositories/{repo}/branches/main/objects/stat/user_metadata"
    assert client.send("PUT", pairs, {"path": "a"}, body={"set": {"k": "v"}}).status == 204
    assert linked() == 412


def test_a_signature_is_good_for_its_request_only(client: Client, repo: str) -> None:
    client.upload(repo, "a", BODY)
    where = f"/repositories/{repo}/refs/main/objects"
    url = _path(client.send("GET", where, {"path": "a", "presign": "1"}).headers["location"])
    anonymous = Client(client.host, client.port, "")
    assert anonymous.raw("PUT", url, b"evil").status == 401
    assert anonymous.raw("DELETE", url).status == 401
    assert anonymous.raw("GET", url.partition("?")[0]).status == 401
    at = url.index("/_presigned/") + 20
    changed = "A" if url[at] != "A" else "B"
    assert anonymous.raw("GET", url[:at] + changed + url[at + 1 :]).status in (400, 401)
    for field in ("expires", "signature", "method"):
        spoiled = url.replace(f"{field}=", f"{field}=9")
        assert anonymous.raw("GET", spoiled).status == 401
    assert _get(client, repo, "a") == (200, BODY)
