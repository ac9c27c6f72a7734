"""Requests of an HTTP API, as the adapter hands them on: paths once, bodies small, time short."""

import ast
import asyncio
import base64
import gzip
import importlib.util
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from mangum import Mangum

from graveler.api.app import Graveler
from graveler.api.local import local_queue
from graveler.api.start import open_service
from graveler.assembly import open_embedded
from graveler.auth.credentials import NewCredential
from graveler.core.requests import Counts, counted_store
from graveler.http.dispatch import S3Refusal
from graveler.http.front import Front
from graveler.http.service import Service, ServiceSettings

FIRST = NewCredential("GRVLFIRSTCREDENTIAL", "a-secret-that-the-deployment-made")
SETTINGS = ServiceSettings(presigns=True, inline_bytes_max=1_000, front=Front(hosts=("*",)))
ROOT = Path(__file__).parents[2]
REQUESTS = Counts()  # to the store of `service`


def shared(name: str) -> ModuleType:
    """A module of functions/shared, which lies in no package."""
    path = ROOT / "functions" / "shared" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Context:
    """What Lambda tells of an invocation."""

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


class Function:
    """The API function over an embedded store."""

    def __init__(self, application: Any) -> None:
        gateway = shared("gateway").Gateway
        self.seen: dict[str, Any] = {}
        self.bodies_read = 0

        async def noted(scope: Any, receive: Any, send: Any) -> None:
            async def counted() -> Any:
                self.bodies_read += 1
                return await receive()

            self.seen = dict(scope)
            await application(scope, counted, send)

        self._adapter = Mangum(noted, lifespan="off", custom_handlers=[gateway])

    def ask(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        left: int = 29_000,
        **headers: str,
    ) -> dict[str, Any]:
        token = f"{FIRST.access_key_id}:{FIRST.secret_access_key}".encode()
        basic = "Basic " + base64.b64encode(token).decode()
        headers = {"host": "api", "authorization": basic} | headers
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": query,
            "headers": headers,
            "requestContext": {"http": {"method": method, "path": path, "sourceIp": "192.0.2.1"}},
            "body": base64.b64encode(body).decode(),
            "isBase64Encoded": True,
        }
        found: dict[str, Any] = self._adapter(event, Context(left))
        return found


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The one that the adapter takes."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    store = open_embedded(tmp_path_factory.mktemp("store"))
    ports = replace(store.ports, kv=counted_store(store.ports.kv, REQUESTS))
    service = open_service(ports, store.signer, store.secret, SETTINGS, FIRST, queue=local_queue)
    yield service
    service.pools.close()
    store.close()


@pytest.fixture(scope="module")
def function(service: Service, loop: asyncio.AbstractEventLoop) -> Function:
    with warnings.catch_warnings():
        function = Function(Graveler().use(service, S3Refusal(service, "")))
    made = json.dumps({"name": "lake", "storage_namespace": "local://lake/x"}).encode()
    assert function.ask("POST", "/api/v1/repositories", body=made)["statusCode"] == 201
    return function


OBJECTS = "/api/v1/repositories/lake/branches/main/objects"
REFS = "/api/v1/repositories/lake/refs/main/objects"


def test_a_path_is_decoded_once(function: Function) -> None:
    function.ask("GET", "/api/v1/repositories/a%20b c")  # as API Gateway has decoded it
    assert function.seen["path"] == "/api/v1/repositories/a%20b c"
    assert function.seen["raw_path"] == b"/api/v1/repositories/a%2520b%20c"


def test_refs_with_marks_are_understood(function: Function) -> None:
    found = function.ask("GET", "/api/v1/repositories/lake/refs/main~0/commits")
    assert (found["statusCode"], json.loads(found["body"])["results"][0]["message"]) == (
        200,
        "Repository created",
    )


def test_keys_travel_in_the_query_untouched(function: Function) -> None:
    key = "a%20b/%C3%A9%2525%2F"
    assert function.ask("POST", OBJECTS, f"path={key}", b"x")["statusCode"] == 201
    found = function.ask("GET", REFS + "/stat", f"path={key}")
    assert json.loads(found["body"])["path"] == "a b/é%25/"


def test_small_bodies_pass_and_large_ones_are_sent_elsewhere(function: Function) -> None:
    assert function.ask("POST", OBJECTS, "path=small", b"\xff" * 1_000)["statusCode"] == 201
    found = function.ask("GET", REFS, "path=small")
    assert found["isBase64Encoded"]
    assert base64.b64decode(found["body"]) == b"\xff" * 1_000
    refused = function.ask("POST", OBJECTS, "path=large", b"x" * 1_001)
    assert refused["statusCode"] == 413
    assert "presign" in json.loads(refused["body"])["message"]
    assert function.ask("GET", REFS + "/stat", "path=large")["statusCode"] == 404


def test_a_long_list_comes_in_gzip(function: Function) -> None:
    for number in range(20):
        function.ask("POST", OBJECTS, f"path=many/{number}", b"x")
    plain = function.ask("GET", REFS + "/ls", "prefix=many/")
    coded = function.ask("GET", REFS + "/ls", "prefix=many/", **{"accept-encoding": "gzip"})
    assert coded["isBase64Encoded"] and coded["headers"]["content-encoding"] == "gzip"
    assert gzip.decompress(base64.b64decode(coded["body"])) == plain["body"].encode()


@pytest.mark.parametrize("character", ["a", '"', "\x7f", "é"])
def test_an_answer_that_lambda_does_not_take_says_what_to_ask_for(
    loop: asyncio.AbstractEventLoop, character: str
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        results = [character * int(scope["query_string"])]
        body = json.dumps({"results": results}, ensure_ascii=False).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    function = Function(application)
    for length in (10, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 7_000_000):
        answer = function.ask("GET", "/", str(length))
        assert len(json.dumps(answer, ensure_ascii=False).encode()) <= 6 * 1024 * 1024
        if length <= 1_000_000:
            assert json.loads(answer["body"]) == {"results": [character * length]}
    assert answer["statusCode"] == 400
    assert "smaller amount" in json.loads(answer["body"])["message"]


def test_a_request_without_time_is_refused_and_may_come_back(function: Function) -> None:
    function.ask("POST", OBJECTS, "path=late", b"x")
    commit = json.dumps({"message": "late"}).encode()
    path = "/api/v1/repositories/lake/branches/main/commits"
    found = function.ask("POST", path, body=commit, left=0)
    assert function.seen["graveler.seconds_left"] == 0
    assert found["statusCode"] == 503
    assert function.ask("POST", path, body=commit)["statusCode"] == 201


S3_REQUESTS = [
    ({"authorization": "AWS4-HMAC-SHA256 Credential=x"}, ""),
    ({"authorization": "AWS key:signature"}, ""),
    ({}, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=x"),
    ({}, "X-Amz-Credential=x"),
    ({}, "AWSAccessKeyId=x&Expires=1&Signature=x"),
]


@pytest.mark.parametrize(("headers", "query"), S3_REQUESTS)
@pytest.mark.parametrize("path", ["/", "/lake/main/a", OBJECTS])
def test_an_s3_client_is_told_how_to_run_what_serves_it(
    function: Function, headers: dict[str, str], query: str, path: str
) -> None:
    before, function.bodies_read = REQUESTS.total(), 0
    answer = function.ask("PUT", path, query, b"a body", **headers)
    assert answer["statusCode"] == 501 and not answer["isBase64Encoded"]
    assert answer["headers"]["content-type"] == "application/xml"
    error = ElementTree.fromstring(answer["body"])
    assert (error.tag, error.findtext("Code")) == ("Error", "NotImplemented")
    assert "S3Endpoint" in error.findtext("Message", "")
    assert error.findtext("RequestId") == answer["headers"]["x-amz-request-id"]
    assert (REQUESTS.total(), function.bodies_read) == (before, 0)


def test_an_s3_client_is_told_the_endpoint(
    service: Service, loop: asyncio.AbstractEventLoop
) -> None:
    named = Function(Graveler().use(service, S3Refusal(service, "https://s3.lake.example.org")))
    answer = named.ask("GET", "/lake/main/a", authorization="AWS4-HMAC-SHA256 x")
    message = ElementTree.fromstring(answer["body"]).findtext("Message", "")
    assert message.endswith("The endpoint for S3 clients is https://s3.lake.example.org")
    answer = named.ask("HEAD", "/lake/main/a", authorization="AWS4-HMAC-SHA256 x")
    assert (answer["statusCode"], answer["body"]) == (501, "")
    hostile = Function(Graveler().use(service, S3Refusal(service, "<a>&")))
    answer = hostile.ask("GET", "/", authorization="AWS4-HMAC-SHA256 x")
    assert ElementTree.fromstring(answer["body"]).findtext("Message", "").endswith("<a>&")


def test_clients_of_the_api_are_not_taken_for_s3_clients(function: Function) -> None:
    found = function.ask("GET", REFS + "/stat", "path=X-Amz-Algorithm&X-Amz-Date=1")
    assert found["statusCode"] == 404 and "message" in json.loads(found["body"])
    assert function.ask("GET", "/")["headers"]["content-type"].startswith("text/html")


def test_the_function_behind_the_api_refuses_s3_clients() -> None:
    """Its module opens a deployment, so its text is read instead."""
    tree = ast.parse((ROOT / "functions" / "api" / "handler.py").read_text(encoding="utf-8"))
    calls = [ast.unparse(each) for each in ast.walk(tree) if isinstance(each, ast.Call)]
    assert "Graveler().use(service, S3Refusal(service, deployment().s3_endpoint))" in calls


def test_the_administrator_exists_from_the_start(function: Function) -> None:
    state = json.loads(function.ask("GET", "/api/v1/setup_lakefs")["body"])
    assert state["state"] == "initialized"
    asked = json.dumps({"username": "mallory"}).encode()
    kind = {"content-type": "application/json"}
    said = function.ask("POST", "/api/v1/setup_lakefs", body=asked, **kind)
    assert said["statusCode"] == 409


def test_the_configuration_announces_presigned_urls(function: Function) -> None:
    told = json.loads(function.ask("GET", "/api/v1/config")["body"])["storage_config"]
    assert told["pre_sign_support"] is True


def test_only_commits_are_measured() -> None:
    is_commit = shared("gateway").is_commit
    asked = {"requestContext": {"http": {"method": "POST"}}, "rawPath": "/x/branches/main/commits"}
    assert is_commit(asked)
    assert not is_commit({**asked, "requestContext": {"http": {"method": "GET"}}})
    assert not is_commit({**asked, "rawPath": "/x/branches"})
