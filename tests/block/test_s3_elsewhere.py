"""Writes to a bucket of another region than the session's: S3 names the region, and each call is
sent there, once, with its whole body."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from graveler.block.adapter import CREATE, Target
from graveler.block.s3 import S3Blocks
from graveler.block.s3_uploads import PART_LENGTH
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemClock
from tests.http_server import QuietHandler, http_server

HERE, ELSEWHERE = "us-east-1", "eu-central-1"
SCOPE = re.compile(r"Credential=[^/]+/[0-9]+/([^/]+)/s3/aws4_request")
ANSWERS = {
    "POST uploads": "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
    "</InitiateMultipartUploadResult>",
    "POST uploadId": '<CompleteMultipartUploadResult><ETag>"e-2"</ETag>'
    "</CompleteMultipartUploadResult>",
    "POST delete": "<DeleteResult></DeleteResult>",
    "GET versions": "<ListVersionsResult><IsTruncated>false</IsTruncated><Version><Key>a</Key>"
    '<VersionId>v</VersionId><IsLatest>true</IsLatest><ETag>"e"</ETag><Size>5</Size>'
    "<LastModified>2026-11-27T01:00:00.000Z</LastModified></Version></ListVersionsResult>",
}


class Far:
    """What arrived at the region of the bucket: each operation, and the bytes of its body."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.redirected = 0
        self.url = ""

    def blocks(self) -> S3Blocks:
        session = AwsSession(AwsSettings(HERE, self.url, "key", "secret"))
        return S3Blocks(session, SystemClock(), ["far"])

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _length in self.taken]


@pytest.fixture
def far() -> Iterator[Far]:
    taken = Far()

    class Handler(QuietHandler):
        def answer(self) -> None:
            body = self._body()
            [region] = SCOPE.findall(self.headers["Authorization"])
            if region == ELSEWHERE:
                marks = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
                known = ("uploads", "partNumber", "uploadId", "delete", "versions")
                mark = next((each for each in known if each in marks), "")
                operation = f"{self.command} {mark}".strip()
                taken.taken.append((operation, len(body)))
                self._send(200, ANSWERS.get(operation, ""))
                return
            assert region == HERE
            taken.redirected += 1
            error = "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
            self._send(301, error)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():  # checksums
                    pass
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("x-amz-bucket-region", ELSEWHERE)
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Fri, 27 Nov 2026 01:00:00 GMT")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    with http_server(Handler) as url:
        taken.url = url
        yield taken


CALLS: dict[str, tuple[Callable[[S3Blocks], object], list[str]]] = {
    "put": (lambda blocks: blocks.put("s3://far/a", [b"bytes"]), ["PUT"]),
    "create": (lambda blocks: blocks.put("s3://far/a", [b"bytes"], CREATE), ["PUT"]),
    "delete": (lambda blocks: blocks.delete("s3://far/a", "v"), ["GET versions", "DELETE"]),
    "delete_all": (
        lambda blocks: blocks.delete_all([Target("s3://far/a", "v")]),
        ["GET versions", "POST delete"],
    ),
    "list": (lambda blocks: blocks.list("s3://far/", "", 10), ["GET versions"]),
    "create_upload": (lambda blocks: blocks.create_upload("s3://far/a"), ["POST uploads"]),
    "put_part": (
        lambda blocks: blocks.put_part("s3://far/a", "u", 1, [b"by", b"tes"]),
        ["PUT partNumber"],
    ),
    "abort_upload": (lambda blocks: blocks.abort_upload("s3://far/a", "u"), ["DELETE uploadId"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_sent_to_the_region_of_the_bucket(far: Far, name: str) -> None:
    call, operations = CALLS[name]
    call(far.blocks())
    assert far.operations == operations
    if name in ("put", "create", "put_part"):
        assert [length for _operation, length in far.taken] == [len(b"bytes")]


def test_a_long_body_arrives_whole_in_parts(far: Far) -> None:
    far.blocks().put("s3://far/a", [b"x" * PART_LENGTH, b"yz"])
    assert far.operations == ["POST uploads", "PUT partNumber", "PUT partNumber", "POST uploadId"]
    assert [length for _operation, length in far.taken[1:3]] == [PART_LENGTH, 2]


def test_the_region_of_a_bucket_is_learned_once(far: Far) -> None:
    blocks = far.blocks()
    for _ in range(3):
        blocks.put("s3://far/a", [b"bytes"])
    assert far.operations == ["PUT"] * 3 and far.redirected == 1
