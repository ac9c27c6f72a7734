"""Conditions of requests: the same table for the API, the S3 gateway and signed URLs."""

import socket
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from typing import Final, NamedTuple

import pytest

from graveler.http.conditions import seconds_of
from tests.http.doors import DOORS, Door, doors, md5
from tests.waiting import PATIENCE_SECONDS

BODY: Final = b"0123456789"
ETAG: Final = md5(BODY)
OLD: Final = formatdate(1_000_000_000, usegmt=True)
NEW: Final = formatdate(4_000_000_000, usegmt=True)
MATCH: Final = "If-Match"
NONE_MATCH: Final = "If-None-Match"
MODIFIED: Final = "If-Modified-Since"
UNMODIFIED: Final = "If-Unmodified-Since"


class Row(NamedTuple):
    """The conditions, and the statuses of a read, of a write over the object, and of one without an
    object; 0: it succeeds."""

    headers: Mapping[str, str]
    read: int
    write: int
    write_absent: int


TABLE: Final = (
    Row({MATCH: f'"{ETAG}"'}, 0, 0, 412),
    Row({MATCH: ETAG}, 0, 0, 412),
    Row({MATCH: f'"x", "{ETAG}"'}, 0, 0, 412),
    Row({MATCH: "*"}, 0, 0, 412),
    Row({MATCH: '"x"'}, 412, 412, 412),
    Row({MATCH: f'W/"{ETAG}"'}, 412, 412, 412),
    Row({MATCH: f'"a,{ETAG}"'}, 412, 412, 412),
    Row({MATCH: ""}, 0, 400, 400),
    Row({NONE_MATCH: f'"{ETAG}"'}, 304, 412, 0),
    Row({NONE_MATCH: f'W/"{ETAG}"'}, 304, 412, 0),
    Row({NONE_MATCH: f',"x" ,{ETAG},'}, 304, 412, 0),
    Row({NONE_MATCH: f'"x", {ETAG[:-1]}'}, 0, 0, 0),
    Row({NONE_MATCH: "*"}, 304, 412, 0),
    Row({NONE_MATCH: ""}, 0, 400, 400),
    Row({NONE_MATCH: " , "}, 0, 400, 400),
    Row({NONE_MATCH: "'*'"}, 0, 400, 400),
    Row({NONE_MATCH: '"x", **'}, 0, 400, 400),
    Row({UNMODIFIED: OLD}, 412, 412, 0),
    Row({UNMODIFIED: NEW}, 0, 0, 0),
    Row({UNMODIFIED: "yesterday"}, 0, 0, 0),
    Row({MATCH: f'"{ETAG}"', UNMODIFIED: OLD}, 0, 0, 412),
    Row({MATCH: '"x"', NONE_MATCH: f'"{ETAG}"'}, 412, 412, 412),
    Row({MATCH: f'"{ETAG}"', NONE_MATCH: f'"{ETAG}"'}, 304, 412, 412),
    Row({UNMODIFIED: OLD, NONE_MATCH: f'"{ETAG}"'}, 412, 412, 0),
)
OF_READS: Final = (
    Row({MODIFIED: OLD}, 0, 0, 0),
    Row({MODIFIED: NEW}, 304, 0, 0),
    Row({MODIFIED: "yesterday"}, 0, 0, 0),
    Row({MODIFIED: "Mon, 01 Jan 2026 00:00:00 +99999999999999999999"}, 0, 0, 0),
    Row({NONE_MATCH: '"x"', MODIFIED: NEW}, 0, 0, 0),
    Row({UNMODIFIED: OLD, MODIFIED: NEW}, 412, 412, 0),
)


@pytest.fixture(scope="module")
def all_doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    with doors(tmp_path_factory.mktemp("doors") / "store") as served:
        yield served


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("row", TABLE + OF_READS, ids=lambda row: str(dict(row.headers)))
def test_a_read_on_conditions(all_doors: dict[str, Door], name: str, row: Row) -> None:
    door = all_doors[name]
    path = door.make(BODY)
    etag = door.send("HEAD", path, {}).headers["etag"]
    headers = {key: value.replace(ETAG, etag.strip('"')) for key, value in row.headers.items()}
    for ranges, success in (
        ({}, 200),
        ({"Range": "bytes=1-2"}, 206),
        ({"Range": "bytes=99-"}, 416),
    ):
        reply = door.send("GET", path, headers | ranges)
        head = door.send("HEAD", path, headers | ranges)
        assert reply.status == head.status == (row.read or success)
        if row.read == 304:
            assert (reply.body, reply.headers["etag"]) == (b"", etag)
    assert door.send("GET", path + "none", headers).status == 404


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(dict(row.headers)))
def test_a_write_on_conditions(all_doors: dict[str, Door], name: str, row: Row) -> None:
    """A signed URL never replaces bytes: there, a write over the object sends the same ones."""
    door = all_doors[name]
    path = door.make(BODY)
    etag = door.send("HEAD", path, {}).headers["etag"]
    headers = {key: value.replace(ETAG, etag.strip('"')) for key, value in row.headers.items()}
    if not (name == "signed" and headers == {NONE_MATCH: "*"}):  # it is the retry of this request
        body = BODY if name == "signed" else b"changed"
        reply = door.send("PUT", path, headers, body)
        assert reply.status == (row.write or (201 if name == "api" else 200))
        assert door.send("GET", path, {}).body == (BODY if row.write else body)
    path = door.make(None)
    reply = door.send("PUT", path, headers, b"new")
    assert reply.status == (_absent(name, row) or (201 if name == "api" else 200))
    assert door.send("GET", path, {}).status == (404 if row.write_absent else 200)


@pytest.mark.parametrize("name", ["api", "s3"])
@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(dict(row.headers)))
def test_a_deletion_on_conditions(all_doors: dict[str, Door], name: str, row: Row) -> None:
    door = all_doors[name]
    path = door.make(BODY)
    assert door.send("DELETE", path, dict(row.headers)).status == (row.write or 204)
    assert door.send("GET", path, {}).status == (200 if row.write else 404)
    path = door.make(None)
    assert door.send("DELETE", path, dict(row.headers)).status == (_absent(name, row) or 204)


def _absent(name: str, row: Row) -> int:
    """S3 answers 404 to `If-Match` without an object."""
    is_missing = name == "s3" and MATCH in row.headers and row.write_absent == 412
    return 404 if is_missing else row.write_absent


def test_other_writes_of_the_api_have_conditions(all_doors: dict[str, Door]) -> None:
    door = all_doors["api"]
    source, client = door.make(BODY), door.running.live.client
    where = f"/repositories/{door.repo}/branches/main/objects"
    copy = {"src_path": source}
    for headers, status in (
        ({MATCH: '"x"'}, 412),
        ({NONE_MATCH: "*"}, 412),
        ({NONE_MATCH: ""}, 400),
        ({MATCH: ETAG}, 201),
    ):
        target = {"dest_path": source}
        reply = client.send("POST", where + "/copy", target, body=copy, headers=headers)
        assert reply.status == status
        pairs = client.send(
            "PUT",
            where + "/stat/user_metadata",
            {"path": source},
            body={"set": {"k": "v"}},
            headers=headers,
        )
        assert pairs.status == (204 if status == 201 else status)


def test_a_batch_of_s3_deletes_what_has_the_etag(all_doors: dict[str, Door]) -> None:
    door = all_doors["s3"]
    one, other, none = door.make(BODY), door.make(BODY), door.make(None)
    items = "".join(
        f"<Object><Key>main/{path}</Key><ETag>{tag}</ETag></Object>"
        for path, tag in ((one, f'"{ETAG}"'), (other, "x"), (none, ETAG))
    )
    reply = door.running.s3.send(
        "POST", f"/{door.repo}", {"delete": ""}, body=f"<Delete>{items}</Delete>".encode()
    )
    assert reply.status == 200
    assert f"<Deleted><Key>main/{one}</Key>".encode() in reply.body
    for path, code in ((other, "PreconditionFailed"), (none, "NoSuchKey")):
        assert f"<Key>main/{path}</Key><Code>{code}</Code>".encode() in reply.body
    assert [door.send("HEAD", path, {}).status for path in (one, other)] == [404, 200]


def test_a_body_is_not_read_if_its_condition_is_empty(all_doors: dict[str, Door]) -> None:
    client = all_doors["api"].running.live.client
    where = f"/api/v1/repositories/{all_doors['api'].repo}/branches/main/objects?path=a"
    with socket.create_connection((client.host, client.port), PATIENCE_SECONDS) as raw:
        head = (
            f"POST {where} HTTP/1.1\r\nHost: x\r\nAuthorization: {client.authorization}\r\n"
            "If-None-Match:\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
        )
        raw.sendall(head.encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "date",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
)
def test_a_date_of_http_has_three_forms(date: str) -> None:
    assert seconds_of(date) == 784_111_777
