"""Requests on a socket: their bytes, in how many calls of the system, and what is never sent."""

from collections.abc import Iterator
from http.client import InvalidURL
from typing import Any

import pytest

from graveler.client import request_lines
from graveler.client.request_lines import BodyFailed


class Sent:
    """A socket that keeps what is sent, one entry a call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def sendall(self, data: bytes, /) -> None:
        self.calls.append(bytes(data))


def sent(method: str, body: Any, headers: dict[str, str], target: str = "/p") -> list[bytes]:
    sink = Sent()
    request_lines.write(sink, method, target, headers, body)
    return sink.calls


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"x" * 10, 1),
        (iter([b"a" * 10]), 1),
        (iter([b"a" * 10, b"b" * 10]), 2),
        (iter([]), 1),
        (b"x" * (1 << 20), 1),
    ],
    ids=["none", "bytes", "a piece", "two pieces", "no piece", "large"],
)
def test_the_head_goes_with_the_first_piece(body: Any, count: int) -> None:
    """One call of the system, and one arrival at the server, for a small object."""
    calls = sent("PUT", body, {"Content-Length": "20"})
    assert len(calls) == count and calls[0].startswith(b"PUT /p HTTP/1.1\r\n")
    assert b"".join(calls).count(b"\r\n\r\n") == 1


def test_the_head_says_how_long_the_body_is() -> None:
    assert sent("GET", b"", {"A": "1"}) == [b"GET /p HTTP/1.1\r\nA: 1\r\n\r\n"]
    assert sent("GET", b"x", {}) == [b"GET /p HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"]
    for method in ("POST", "PUT", "DELETE"):
        assert sent(method, b"", {})[0].endswith(b" /p HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    known = sent("PUT", iter([b"ab", b"c"]), {"Content-Length": "3"})
    assert known == [b"PUT /p HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", b"c"]


def test_a_body_of_unknown_length_goes_in_chunks() -> None:
    calls = sent("PUT", iter([b"a" * 17, b"", b"c"]), {})
    head = b"PUT /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert calls == [head + b"11\r\n" + b"a" * 17 + b"\r\n", b"1\r\nc\r\n", b"0\r\n\r\n"]
    assert sent("PUT", iter([]), {}) == [head + b"0\r\n\r\n"]


@pytest.mark.parametrize("target", ["", "/a b", "/a\rb", "/a\nb", "/a\0b", "/\x7f", "/ü"])
def test_a_target_that_would_end_its_line_is_not_sent(target: str) -> None:
    with pytest.raises(InvalidURL):
        sent("GET", b"", {}, target)


@pytest.mark.parametrize(
    "headers",
    [
        {"A": "1\r\nB: 2"},
        {"A": "1\n"},
        {"A": "1\r"},
        {"A": "1\r\n 2"},
        {"A\r\nB": "1"},
        {"A\nB": "1"},
        {"A: 1\r\nB": "1"},
        {"": "1"},
        {" A": "1"},
        {"A:B": "1"},
        {"A": "\u20ac"},
        {"Transfer-Encoding": "chunked"},
        {"Transfer-Encoding ": "chunked"},
        {"transfer-encoding": "identity"},
        {"Content-Length": "3", "content-length": "4"},
    ],
)
def test_a_header_that_would_end_its_line_is_not_sent(headers: dict[str, str]) -> None:
    sink = Sent()
    with pytest.raises(ValueError):
        request_lines.write(sink, "GET", "/p", headers, b"")
    assert sink.calls == []


def test_nothing_is_sent_before_the_first_piece_is_there() -> None:
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * (1 // size) for size in (0,)]

    sink = Sent()
    with pytest.raises(BodyFailed) as failed:
        request_lines.write(sink, "PUT", "/p", {"Content-Length": "3"}, pieces())
    assert sink.calls == [] and isinstance(failed.value.error, ZeroDivisionError)


@pytest.mark.parametrize("body", [b"abc", [b"abc"]])
def test_a_length_counts_however_its_name_is_written(body: bytes | list[bytes]) -> None:
    found = sent("PUT", body if isinstance(body, bytes) else iter(body), {"content-length": "3"})
    assert found == [b"PUT /p HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"]
