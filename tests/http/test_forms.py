"""multipart/form-data as a stream, however its bytes are cut into pieces."""

import email
import email.policy
import random
from collections.abc import Iterable, Iterator

import pytest

from graveler.core.errors import Invalid
from graveler.http.intake import FormPart, boundary_of
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


def _taken(source: Iterable[bytes]) -> tuple[bytes, str]:
    """The bytes of the part and its content type."""
    part = FormPart(b"b0undary", "content")
    return b"".join(part.content(source)), part.content_type


def _taken_by_email(whole: bytes) -> bytes:
    """The bytes of the part as Python's own parser finds them."""
    head = b"Content-Type: multipart/form-data; boundary=b0undary\r\n\r\n"
    message = email.message_from_bytes(head + whole, policy=email.policy.HTTP)
    for part in message.iter_parts():
        if part.get_param("name", header="content-disposition") == "content":
            taken = part.get_payload(decode=True)
            assert isinstance(taken, bytes)
            return taken
    raise AssertionError("the part is missing")


BODIES = [
    b"",
    b"x",
    b"\r\n",
    b"--b0undary",  # not at the start of a line of its own
    b"\r\n--b0undar",
    b"\r\n--",
    b"\r\n\r\n--b0undarx\r\n",
    b"a\r\n--b0undaryX\r\nb",
    b"a\r\n--b0undary X\r\n--b0undary-\r\n--b0undary--X\r\n--b0undary\nb",
    b"a\r\n--b0undary--\r--b0undary\r\r\nb",
    b"\r\n--b0undaryb" * 3 + b"\r\n--b0undary--b" * 3,
    bytes(range(256)) * 3,
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.parametrize("body", [body for body in BODIES if body != b"--b0undary"], ids=repr)
def test_the_body_comes_out_however_it_is_cut(body: bytes, size: int) -> None:
    whole = _message(("X: y", b"other"), _content(body), ("X: z", b"later"))
    assert _taken(_cut(whole, size))[0] == body


def test_random_messages_are_read_as_by_another_parser() -> None:
    """Also where a line of the body begins like a boundary, or is one."""
    chance = random.Random(draws.seed())
    tokens = (CRLF, b"\r\n--b0undary", b"--b0undary", b"--", b"-", b" ", b"\t", b"X", b"b0undary")
    for _ in range(500):
        body = b"".join(chance.choices(tokens, k=chance.randrange(12)))
        before = [("X: y", b"other")] * chance.randrange(2)
        whole = b"preamble\r\n" * chance.randrange(2) + _message(*before, _content(body))
        try:
            taken = _taken(_cut(whole, chance.randrange(1, 50)))[0]
        except Invalid:  # a line that is a boundary ends the body, and the rest is no form
            assert b"\r\n--b0undary" in b"\r\n" + body
            continue
        assert taken == _taken_by_email(whole), whole


def test_an_empty_chunk_is_passed_on_and_cuts_nothing() -> None:
    whole = _message(("X: y", b"other"), _content(b"some bytes")) + b"epilogue"
    part = FormPart(b"b0undary", "content")
    starved = part.content(chunk for byte in whole for chunk in (bytes([byte]), b""))
    chunks = list(starved)
    assert b"".join(chunks) == b"some bytes" and chunks.count(b"") >= len(whole)


def test_the_type_of_the_part_is_its_own() -> None:
    headers = "content-type:  text/csv \r\ncontent-DISPOSITION: form-data; name=content"
    assert _taken([_message((headers, b"a,b"))]) == (b"a,b", "text/csv")
    assert _taken([_message(_content(b""))]) == (b"", "")


@pytest.mark.parametrize("length", range(len(_message(_content(b"some bytes"))) - 4))
def test_a_cut_message_is_never_taken_for_a_whole_one(length: int) -> None:
    whole = _message(_content(b"some bytes"))
    with pytest.raises(Invalid, match="multipart"):
        _taken([whole[:length]])


def test_a_message_without_the_part_is_refused() -> None:
    for whole in (_message(("X: y", b"other")), b"--b0undary--", _message()):
        with pytest.raises(Invalid, match='part "content" is missing'):
            _taken([whole])


def test_the_part_is_there_once() -> None:
    """The bytes of another one would be lost."""
    with pytest.raises(Invalid, match="is there twice"):
        _taken([_message(_content(b"one"), ("X: y", b"other"), _content(b"two"))])


def test_a_message_needs_its_last_boundary_behind_the_part_as_well() -> None:
    whole = _message(_content(b"some bytes"), ("X: z", b"later"))
    for length in range(whole.index(b"some bytes") + 10, len(whole) - 2):
        with pytest.raises(Invalid, match="before its last boundary"):
            _taken(_cut(whole[:length], 7))
    long = _message(_content(b"some bytes"), ("X: z", b"later" * 1_000_000))
    assert _taken(_cut(long, 100_000))[0] == b"some bytes"


@pytest.mark.parametrize("coding", ["base64", "quoted-printable", "Base64", "x-gzip"])
def test_a_coding_of_a_part_is_refused(coding: str) -> None:
    """Its bytes would be stored coded."""
    headers, body = _content(b"aGVsbG8=")
    with pytest.raises(Invalid, match=coding):
        _taken([_message((f"{headers}\r\nContent-Transfer-Encoding: {coding}", body))])
    plain = f"{headers}\r\nContent-Transfer-Encoding: Binary"
    assert _taken([_message((plain, body))])[0] == body


def test_headers_and_skipped_parts_are_bounded() -> None:
    endless = (b"h" * 1_000 for _ in iter(int, 1))
    with pytest.raises(Invalid, match="too long"):
        _taken(endless)
    headers = (chunk for chunk in [b"--b0undary\r\n", *[b"h: " + b"x" * 1_000] * 1_000])
    with pytest.raises(Invalid, match="headers of a part"):
        _taken(headers)
    with pytest.raises(Invalid, match="unused part"):
        _taken([_message(("X: y", b"z" * 2_000_000))])


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
    for chunk in FormPart(b"b0undary", "content").content(source()):
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
