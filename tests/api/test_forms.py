"""multipart/form-data as a stream, however its bytes are cut into pieces."""

import random
from collections.abc import Iterator

import pytest

from graveler.api.forms import boundary_of, open_part
from graveler.errors import Invalid
from tests import draws

CRLF = b"\r\n"


def _message(*parts: tuple[str, bytes], boundary: bytes = b"b0undary", end: bool = True) -> bytes:
    pieces = []
    for headers, body in parts:
        pieces += [b"--", boundary, CRLF, headers.encode(), CRLF, CRLF, body, CRLF]
    return b"".join([*pieces, b"--", boundary, b"--\r\n" if end else b""])


def _content(body: bytes) -> tuple[str, bytes]:
    return 'Content-Disposition: form-data; name="content"; filename="f"', body


def _cut(whole: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


BODIES = [
    b"",
    b"x",
    b"\r\n",
    b"--b0undary",  # not at the start of a line of its own
    b"\r\n--b0undar",
    b"\r\n--",
    b"\r\n\r\n--b0undarx\r\n",
    bytes(range(256)) * 3,
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.parametrize("body", [body for body in BODIES if body != b"--b0undary"], ids=repr)
def test_the_body_comes_out_however_it_is_cut(body: bytes, size: int) -> None:
    whole = _message(("X: y", b"other"), _content(body), ("X: z", b"later"))
    part = open_part(_cut(whole, size), b"b0undary", "content")
    assert b"".join(part.chunks) == body


def test_random_messages() -> None:
    seed = draws.seed()
    chance = random.Random(seed)
    for _ in range(300):
        alphabet = b"\r\n-b0undaryX"
        body = bytes(chance.choice(alphabet) for _ in range(chance.randrange(200)))
        if b"\r\n--b0undary" in b"\r\n" + body:
            continue
        whole = b"preamble\r\n" * chance.randrange(2) + _message(_content(body))
        part = open_part(_cut(whole, chance.randrange(1, 50)), b"b0undary", "content")
        assert b"".join(part.chunks) == body


def test_the_type_of_the_part_is_its_own() -> None:
    headers = "content-type:  text/csv \r\ncontent-DISPOSITION: form-data; name=content"
    part = open_part([_message((headers, b"a,b"))], b"b0undary", "content")
    assert part.content_type == "text/csv"
    assert open_part([_message(_content(b""))], b"b0undary", "content").content_type == ""


@pytest.mark.parametrize("length", range(len(_message(_content(b"some bytes"))) - 4))
def test_a_cut_message_is_never_taken_for_a_whole_one(length: int) -> None:
    whole = _message(_content(b"some bytes"))
    with pytest.raises(Invalid, match="multipart"):
        part = open_part([whole[:length]], b"b0undary", "content")
        for _ in part.chunks:
            pass


def test_a_message_without_the_part_is_refused() -> None:
    for whole in (_message(("X: y", b"other")), b"--b0undary--", _message()):
        with pytest.raises(Invalid, match='part "content" is missing'):
            open_part([whole], b"b0undary", "content")


def test_headers_and_skipped_parts_are_bounded() -> None:
    endless = (b"h" * 1_000 for _ in iter(int, 1))
    with pytest.raises(Invalid, match="too long"):
        open_part(endless, b"b0undary", "content")
    headers = (chunk for chunk in [b"--b0undary\r\n", *[b"h: " + b"x" * 1_000] * 1_000])
    with pytest.raises(Invalid, match="headers of a part"):
        open_part(headers, b"b0undary", "content")
    with pytest.raises(Invalid, match="unused part"):
        open_part([_message(("X: y", b"z" * 2_000_000))], b"b0undary", "content")


def test_the_window_stays_small_however_long_the_body() -> None:
    held = 0
    sent = 0

    def source() -> Iterator[bytes]:
        nonlocal sent
        yield b'--b0undary\r\ncontent-disposition: form-data; name="content"\r\n\r\n'
        for _ in range(1_000):
            sent += 10_000
            yield b"x" * 10_000
        yield b"\r\n--b0undary--"

    read = 0
    for chunk in open_part(source(), b"b0undary", "content").chunks:
        read += len(chunk)
        held = max(held, sent - read)
    assert read == 10_000_000
    assert held < 20_000


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('Multipart/Form-Data; charset=x; BOUNDARY="a b"', b"a b"),
        ("application/octet-stream", b""),
        ("multipart/mixed; boundary=abc", b""),
        ("", b""),
    ],
)
def test_the_boundary_stands_in_the_content_type(content_type: str, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary="])
def test_a_missing_boundary_is_refused(content_type: str) -> None:
    with pytest.raises(Invalid, match="boundary"):
        boundary_of(content_type)
