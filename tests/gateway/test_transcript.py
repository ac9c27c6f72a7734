"""The recorded requests to the S3 gateway are answered as recorded, but for what is right instead.

XML is compared as a tree: names without namespaces, texts, order.  Of an error, its status, code,
message, key and bucket count; a recorded place that is empty may be named.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.auth.credentials import NewCredential
from tests.api.serving import ADMINISTRATOR, Reply
from tests.api.transcript import lines
from tests.gateway.serving import Gateway, S3Client, exchange

RECORDING = Path(__file__).parents[1] / "data" / "transcripts" / "gateway.jsonl"
_ELLIPSIS = "\u2026"
_MARKS = {
    "<rfc3339>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
    "<http-date>": r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT",
    _ELLIPSIS: ".+",
}
_NAME = re.compile(r"\$\{([a-z0-9]+)\}")
_BYTES = re.compile(r"(\d+) bytes")
_TREE = tuple[str, str, tuple[Any, ...]]


class Right(NamedTuple):
    """What is right instead of what was recorded: the status, texts and headers of the answer."""

    status: int
    texts: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


_TWO_PARTS: Final = "a45f1422f2dbe3d2890829dd76adba1b-2"
RIGHT: dict[str, Right] = {
    # s3cmd describes a bucket without its ACL after a 501, and fails after the recorded 405.
    "bucket.acl": Right(501, ("<Code>NotImplemented</Code>",)),
    "bucket.create.existing": Right(409, ("<Code>BucketAlreadyOwnedByYou</Code>",)),
    "bucket.delete": Right(405, ("<Code>MethodNotAllowed</Code>", "graveler repo delete")),
    "put.tagging": Right(405, ("<Code>MethodNotAllowed</Code>",)),
    "buckets.list.prefix": Right(200, ("<Name>g-${run}</Name>", "<ID>administrator</ID>")),
    "bucket.create.new": Right(501, ("<Code>NotImplemented</Code>", "graveler repo create")),
    "buckets.list": Right(200, ("<Name>g-${run}</Name>", "<Name>gro-${run}</Name>")),
    "put.ref-only": Right(404, ("<Code>",)),
    "get.if-none-match": Right(304),
    "list.v2.root": Right(200, ("<Contents><Key>main/",)),
    "list.v2.unknown-branch": Right(404, ("<Code>NoSuchBucket</Code>",)),
    # The recorded token is a key.
    "list.v2.max-keys": Right(200, ("<KeyCount>2</KeyCount>", "<Key>main/a/one.txt</Key>")),
    "list.v2.continued": Right(200, ("<Key>main/a/pre</Key>", "<Key>main/a/two.txt</Key>")),
    "list.v1": Right(200, ("<Key>main/a/empty</Key>", "<Key>main/a/one.txt</Key>")),
    "multipart.list-parts": Right(200, ("<PartNumber>1</PartNumber>", "<Size>5242880</Size>")),
    "multipart.head": Right(200, (), (("etag", f'"{_TWO_PARTS}"'), ("content-length", "5242884"))),
}
_ADDRESS: Final = "http://127.0.0.1:8000"  # of the recorded server


class Replay:
    """One replay: what the answers have defined so far."""

    def __init__(self, gateway: Gateway) -> None:
        self.client = gateway.s3
        self.names = {"run": "1"}

    def fill(self, text: str) -> str:
        return _NAME.sub(lambda match: self.names[match[1]], text)

    def send(self, line: Mapping[str, Any]) -> Reply:
        request = line["request"]
        path = self.fill(request["path"])
        query = {name: self.fill(value) for name, value in request.get("query", {}).items()}
        headers = {name: self.fill(value) for name, value in request.get("headers", {}).items()}
        text = request.get("body", "")
        size = _BYTES.fullmatch(text)
        body = b"x" * int(size[1]) if size else text.encode()
        if request.get("sign") == "presigned":
            return _presigned(self.client, request["method"], path, body)
        client = self.client
        if line["id"] == "get.wrong-secret":
            key = NewCredential(ADMINISTRATOR.access_key_id, "w" * 40)
            client = S3Client(client.host, client.port, key)
        return client.send(request["method"], path, query, body=body, headers=headers)

    def differences(self, line: Mapping[str, Any], reply: Reply) -> list[str]:
        right = RIGHT.get(line["id"], Right(line["response"]["status"]))
        if reply.status != right.status:
            return [f"status {reply.status}, expected {right.status}: {reply.body[:300]!r}"]
        if line["id"] in RIGHT:
            self._keep(line, reply)
            texts = [self.fill(text) for text in right.texts]
            headers = [pair for pair in right.headers if reply.headers.get(pair[0]) != pair[1]]
            return [
                *(text for text in texts if text not in reply.body.decode()),
                *map(str, headers),
            ]
        return [*self._headers(line, reply), *self._body(line, reply)]

    def _headers(self, line: Mapping[str, Any], reply: Reply) -> list[str]:
        recorded = line["response"]["headers"]
        is_xml = recorded.get("content-type", "").startswith("text/xml")
        wrong = []
        for name, value in recorded.items():
            if is_xml and name in ("content-type", "content-length"):
                continue  # ours is application/xml, of another length; an error of HEAD has none
            if not self._same(value, reply.headers.get(name, "(absent)")):
                wrong.append(f"header {name}: {reply.headers.get(name)!r}, expected {value!r}")
        if is_xml and reply.body and reply.headers["content-type"] != "application/xml":
            wrong.append(f"content type {reply.headers['content-type']}")
        return wrong

    def _body(self, line: Mapping[str, Any], reply: Reply) -> list[str]:
        text = line["response"].get("text")
        if text is None:
            return []
        if not text.startswith("<?xml"):
            return [] if self._same(text, reply.body.decode()) else [f"body {reply.body!r}"]
        for mark in _MARKS:
            text = text.replace(mark, escape(mark))
        expected = _tree(ElementTree.fromstring(text))
        found = _tree(ElementTree.fromstring(reply.body))
        same = self._same_error if expected[0] == "Error" else self._same_tree
        self._keep(line, reply)
        return [] if same(expected, found) else [f"body {reply.body!r}, expected {text!r}"]

    def _keep(self, line: Mapping[str, Any], reply: Reply) -> None:
        for name, pattern in line.get("keep", {}).items():
            match = re.search(pattern, reply.body.decode())
            assert match is not None, f"{line['id']} defines no {name}"
            self.names[name] = match[1]

    def _same_error(self, expected: _TREE, found: _TREE) -> bool:
        recorded, told = ({each[0]: each[1] for each in tree[2]} for tree in (expected, found))
        fields = [name for name, text in recorded.items() if text and name != "Region"]
        return found[0] == "Error" and all(
            self._same(recorded[name], told.get(name, "")) for name in fields
        )

    def _same_tree(self, expected: _TREE, found: _TREE) -> bool:
        return (
            expected[0] == found[0]
            and self._same(expected[1], found[1])
            and len(expected[2]) == len(found[2])
            and all(map(self._same_tree, expected[2], found[2]))
        )

    def _same(self, expected: str, found: str) -> bool:
        url = f"http://{self.client.host}:{self.client.port}"
        pattern = re.escape(self.fill(expected.replace(_ADDRESS, url)))
        for mark, meaning in _MARKS.items():
            pattern = pattern.replace(re.escape(mark), meaning)
        return re.fullmatch(pattern, found) is not None


def _tree(element: ElementTree.Element) -> _TREE:
    name = element.tag.rpartition("}")[2]
    return name, element.text or "", tuple(map(_tree, element))


def _presigned(client: S3Client, method: str, path: str, body: bytes) -> Reply:
    url = f"http://{client.host}:{client.port}{quote(path, safe='/~')}"
    request = AWSRequest(method, url)
    credentials = Credentials(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)
    S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=60).add_auth(request)
    return exchange(client.host, client.port, method, request.url, {}, body)


def _prepare(gateway: Gateway) -> None:
    """The repositories that the recording begins with."""
    send = gateway.live.client.send
    for name, read_only in (("g-1", False), ("gro-1", True)):
        namespace = f"local://transcript-{name}"
        body = {"name": name, "storage_namespace": namespace, "read_only": read_only}
        assert send("POST", "/repositories", body=body).status == 201


def test_every_recorded_request_is_answered_as_recorded(served_gateway: Gateway) -> None:
    _prepare(served_gateway)
    run = Replay(served_gateway)
    recorded = list(lines(RECORDING))
    assert len(recorded) == 55
    replies = [(line, run.differences(line, run.send(line))) for line in recorded]
    assert not {line["id"]: found for line, found in replies if found}


def test_the_corrections_name_recorded_requests() -> None:
    assert set(RIGHT) <= {line["id"] for line in lines(RECORDING)}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda response: response.update(status=201),
        lambda response: response["headers"].update({"content-length": "7"}),
        lambda response: response.update(text=response["text"].replace("LocationC", "OtherC")),
        lambda response: response.update(text=response["text"].replace("></", ">eu</")),
    ],
)
def test_the_runner_notices_a_wrong_answer(served_gateway: Gateway, repo: str, spoil: Any) -> None:
    run = Replay(served_gateway)
    line = {
        "id": "x",
        "request": {"method": "GET", "path": f"/{repo}", "query": {"location": ""}},
        "response": {
            "status": 200,
            "headers": {},
            "text": "<?xml version='1.0'?><LocationConstraint></LocationConstraint>",
        },
    }
    assert run.differences(line, run.send(line)) == []
    spoil(line["response"])
    assert len(run.differences(line, run.send(line))) == 1
