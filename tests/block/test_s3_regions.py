"""Buckets are asked for their region: once, without a signature, whatever S3 answers."""

from collections.abc import Iterator

import pytest

from graveler.block.ranged_get import region_told
from graveler.block.s3_calls import Places, Regions
from graveler.block.s3_urls import S3Urls
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemClock
from tests.http_server import QuietHandler, http_server

HERE, ELSEWHERE = "us-east-1", "eu-central-1"


def session(endpoint: str = "") -> AwsSession:
    return AwsSession(AwsSettings(HERE, endpoint, "key", "secret"))


def test_a_bucket_is_asked_once_and_signed_for_where_it_is() -> None:
    origins: list[str] = []

    def ask(origin: str) -> str:
        origins.append(origin)
        return ELSEWHERE

    places = Places(["far"], "")
    urls = S3Urls(session(), places, SystemClock(), Regions(session(), places, ask))
    for url in (
        urls.reading("s3://far/key", "GET"),
        urls.reading("s3://far/key", "HEAD"),
        urls.presign("s3://far/key", "PUT", 60, "").url,
        urls.presign_part("s3://far/key", "upload", 1, 60).url,
    ):
        assert url.startswith(f"https://far.s3.{ELSEWHERE}.amazonaws.com/key?")
        assert f"%2F{ELSEWHERE}%2Fs3%2F" in url
    assert origins == [f"https://far.s3.{HERE}.amazonaws.com"]


def test_where_nobody_answers_the_sessions_region_is_assumed_for_now() -> None:
    answers = iter(["", ELSEWHERE])
    regions = Regions(session(), Places(["far"], ""), lambda origin: next(answers))
    assert [regions.of("far") for _ in range(3)] == [HERE, ELSEWHERE, ELSEWHERE]


def test_another_endpoint_is_not_asked() -> None:
    def ask(origin: str) -> str:
        raise AssertionError(origin)

    endpoint = "http://127.0.0.1:9"
    assert Regions(session(endpoint), Places(["far"], endpoint), ask).of("far") == HERE


@pytest.fixture
def origin() -> Iterator[str]:
    """Answers like S3 to whoever may not know more: 403, and the region."""

    class Handler(QuietHandler):
        def do_HEAD(self) -> None:
            self.send_response(403)
            self.send_header("x-amz-bucket-region", ELSEWHERE)
            self.end_headers()

    with http_server(Handler) as url:
        yield url


def test_the_answers_status_does_not_matter(origin: str) -> None:
    assert region_told(origin) == ELSEWHERE


def test_no_answer_is_none() -> None:
    assert region_told("http://127.0.0.1:9") == ""
