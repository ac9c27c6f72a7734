"""Ranges of bytes: the same table for the API, the S3 gateway and signed URLs."""

from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

import pytest

from tests.http.doors import DOORS, Door, doors

BODY: Final = b"0123456789"
WHOLE: Final = (200, BODY)
OUTSIDE: Final = (416, b"")
# The range; the answer for ten bytes; the status for an empty object.
TABLE: Final = (
    ("bytes=0-0", (206, b"0"), 416),
    ("bytes=3-", (206, b"3456789"), 416),
    ("bytes=3-99", (206, b"3456789"), 416),
    ("bytes=-4", (206, b"6789"), 200),
    ("bytes=-99", (206, BODY), 200),
    ("bytes=-0", OUTSIDE, 416),
    ("bytes=10-", OUTSIDE, 416),
    ("bytes=99-100", OUTSIDE, 416),
    ("Bytes=1-2", (206, b"12"), 416),
    ("bytes=1-2,", (206, b"12"), 416),
    ("bytes=0-1, 3-4", WHOLE, 416),
    ("bytes=0-1,20-30", (206, b"01"), 416),
    ("bytes=20-30,40-", OUTSIDE, 416),
    ("bytes=5-2", WHOLE, 200),
    ("bytes=0-1,5-2", WHOLE, 200),
    ("bytes=-", WHOLE, 200),
    ("bytes=,", WHOLE, 200),
    ("bytes=", WHOLE, 200),
    ("bytes=x", WHOLE, 200),
    ("bytes=0-1;", WHOLE, 200),
    ("bytes", WHOLE, 200),
    ("lines=1-2", WHOLE, 200),
    ("bytes=" + "0-1," * 60, WHOLE, 200),
    ("bytes=" + "9" * 5_000 + "-", WHOLE, 200),
)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Door, str, str]]]:
    """For each door, an object of ten bytes, and an empty one."""
    with doors(tmp_path_factory.mktemp("ranges") / "store") as served:
        yield {name: (door, door.make(BODY), door.make(b"")) for name, door in served.items()}


def _check(door: Door, path: str, headers: dict[str, str], expected: tuple[int, bytes]) -> None:
    status, body = expected
    size = int(door.send("HEAD", path, {}).headers["content-length"])
    reply, head = door.send("GET", path, headers), door.send("HEAD", path, headers)
    assert reply.status == head.status == status
    start = BODY.find(body)
    covered = {206: f"bytes {start}-{start + len(body) - 1}/{size}", 416: f"bytes */{size}"}
    assert reply.headers.get("content-range") == covered.get(status)
    assert head.headers.get("content-range") == covered.get(status)
    if status != 416:
        assert reply.body == body
        assert head.headers["content-length"] == str(len(body))


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize(
    ("text", "expected", "of_empty"), TABLE, ids=[row[0][:20] for row in TABLE]
)
def test_a_range(
    objects: dict[str, tuple[Door, str, str]],
    name: str,
    text: str,
    expected: tuple[int, bytes],
    of_empty: int,
) -> None:
    door, path, empty = objects[name]
    _check(door, path, {"Range": text}, expected)
    _check(door, empty, {"Range": text}, (of_empty, b""))


@pytest.mark.parametrize("name", DOORS)
def test_a_range_of_the_version_that_the_client_has(
    objects: dict[str, tuple[Door, str, str]], name: str
) -> None:
    door, path, _ = objects[name]
    head = door.send("HEAD", path, {}).headers
    etag, modified = head["etag"], head["last-modified"]
    earlier = formatdate(parsedate_to_datetime(modified).timestamp() - 1, usegmt=True)
    for value, holds in (
        (etag, True),
        (etag.strip('"'), True),
        (modified, True),
        ("W/" + etag, False),
        ('"x"', False),
        (f'"x", {etag}', False),
        ("*", False),
        (earlier, False),
    ):
        headers = {"If-Range": value, "Range": "bytes=1-2"}
        _check(door, path, headers, (206, b"12") if holds else WHOLE)
        if not holds:
            _check(door, path, headers | {"Range": "bytes=99-"}, WHOLE)
