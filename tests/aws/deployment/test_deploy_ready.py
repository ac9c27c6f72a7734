"""A deployment ends well only if the API answers, and otherwise says why the function fails."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scripts import deploy
from scripts.parameters import Failed

LOG = "INIT_START Runtime\n[ERROR] Invalid: groups of the claim must be a JSON object\nREPORT x"
DEAD = {"errorMessage": "groups of the claim must be a JSON object", "errorType": "Invalid"}


class _Answers(BaseHTTPRequestHandler):
    """Answers as the API, and as Lambda, of which it is asked directly."""

    server: "Api"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status = self.server.statuses.pop(0) if len(self.server.statuses) > 1 else 0
        self._send(status or self.server.statuses[0], b'{"message":"Internal Server Error"}', {})

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert event["rawPath"] == "/_health/ready"
        assert self.headers["X-Amz-Log-Type"] == "Tail"
        if self.server.denied:
            self._send(403, b'{"message":"no"}', {"x-amzn-ErrorType": "AccessDeniedException"})
            return
        log = b64encode(LOG.encode()).decode()
        told = {"X-Amz-Function-Error": "Unhandled", "X-Amz-Log-Result": log}
        self._send(200, json.dumps(DEAD).encode(), told)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Api(ThreadingHTTPServer):
    """Answers a GET with one status after the other, and with the last one for ever."""

    def __init__(self, statuses: list[int], denied: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.statuses = statuses
        self.denied = denied
        self.asked: list[str] = []


@contextmanager
def api(*statuses: int, denied: bool = False) -> Iterator[tuple[Api, str]]:
    with Api(list(statuses), denied) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_api_that_answers_is_ready() -> None:
    with api(404, 503, 200) as (server, url):  # a new API is reached after some seconds
        pauses: list[float] = []
        deploy.check_ready(f"{url}/_health/ready", "s", url, pauses.append)
    assert server.asked == ["/_health/ready"] * 3
    assert pauses == [deploy.READY_PAUSE_SECONDS] * 2


def test_a_dead_api_fails_the_deployment_with_the_function_s_own_error() -> None:
    with (
        api(500) as (server, url),
        pytest.raises(Failed, match="the API does not work") as caught,
    ):
        deploy.check_ready(f"{url}/_health/ready", "s", url, lambda _: None)
    told = str(caught.value)
    assert '500 {"message":"Internal Server Error"}' in told
    assert DEAD["errorMessage"] in told and "INIT_START" in told
    assert len(server.asked) == deploy.READY_ATTEMPTS + 1
    assert server.asked[-1].startswith("/2015-03-31/functions/s-api/invocations?Qualifier=live")


def test_who_may_not_ask_the_function_is_told_where_its_log_is() -> None:
    with (
        api(500, denied=True) as (_, url),
        pytest.raises(Failed, match="aws logs tail /aws/lambda/s-api") as caught,
    ):
        deploy.check_ready(f"{url}/_health/ready", "s", url, lambda _: None)
    assert "AccessDenied" in str(caught.value)


def test_an_api_that_nobody_reaches_is_no_success() -> None:
    with api(200) as (_, url):
        pass  # it has ended
    with pytest.raises(Failed, match="refused"):
        deploy.check_ready(f"{url}/_health/ready", "s", url, lambda _: None)
