"""Reads from a service that speaks S3 and leaves out what S3 always says."""

from collections.abc import Callable, Iterator

import pytest

from graveler.block.s3 import S3Blocks
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemClock
from graveler.core.errors import Unavailable
from tests.http_server import QuietHandler, http_server

ADDRESS = "s3://lake/a"
BODY = b"0123456789"

Answers = Callable[[int, dict[str, str]], S3Blocks]


@pytest.fixture
def answers() -> Iterator[Answers]:
    """A store behind which every request gets one answer, with `BODY`."""
    planned: list[tuple[int, dict[str, str]]] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            status, headers = planned[-1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(BODY)

        do_HEAD = do_GET

    with http_server(Handler) as url:
        settings = AwsSettings("us-east-1", url, "test", "test")
        blocks = S3Blocks(AwsSession(settings), SystemClock(), ["lake"])

        def answer(status: int, headers: dict[str, str]) -> S3Blocks:
            planned.append((status, headers))
            return blocks

        yield answer


@pytest.mark.parametrize("named", [{}, {"Content-Range": "bytes */10"}, {"Content-Range": "0-9"}])
def test_a_part_without_its_range_is_not_taken_for_another(
    answers: Answers, named: dict[str, str]
) -> None:
    blocks = answers(206, {**named, "Content-Length": "10"})
    with pytest.raises(Unavailable, match="no Content-Range"):
        blocks.read(ADDRESS, 0, 10)


@pytest.mark.parametrize("named", [{}, {"Content-Length": "ten"}])
def test_an_object_without_a_length_is_unavailable(answers: Answers, named: dict[str, str]) -> None:
    with pytest.raises(Unavailable):
        answers(200, named).head(ADDRESS)


@pytest.mark.parametrize("date", [{}, {"Last-Modified": "yesterday"}])
def test_an_object_without_a_date_is_of_no_time(answers: Answers, date: dict[str, str]) -> None:
    head = answers(200, {"Content-Length": "10", **date}).head(ADDRESS)
    assert (head.size, head.modified_ns, head.etag) == (10, 0, "")


def test_a_body_that_ends_early_is_unavailable(answers: Answers) -> None:
    body = answers(200, {"Content-Length": "11"}).get(ADDRESS)
    with pytest.raises(Unavailable):
        list(body.chunks)


def test_a_refusal_has_its_status(answers: Answers) -> None:
    blocks = answers(403, {"Content-Length": "10"})
    for _ in range(2):  # its URL is signed anew
        with pytest.raises(Unavailable, match="status=403"):
            blocks.read(ADDRESS, 0, 10)
    sound = answers(206, {"Content-Range": "bytes 0-9/10", "Content-Length": "10"})
    assert sound.read(ADDRESS, 0, 10) == BODY
