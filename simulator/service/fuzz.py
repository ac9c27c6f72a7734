"""Sends drawn requests to a served store, and judges every answer.

- An answer must come within `ANSWER_SECONDS`.
- Its status is below 500, or 501 for what this store does not serve.
- From status 400 on, it is JSON with a message.
- Below 400, it has a status and the shape that the OpenAPI document declares.

Afterwards the service must still answer.  For tests only.
"""

import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from graveler.api.answers import MediaType
from graveler.api.operations import OPERATIONS
from simulator.service.requests import Request, Requests

ANSWER_SECONDS = 120
NOT_SERVED = 501
_SHOWN = 300


class Fuzzer:
    """One kept connection and its results.  `wrong`: every answer that broke a rule.  `statuses`:
    how often each status was answered."""

    def __init__(self, host: str, port: int, authorization: str) -> None:
        self.wrong: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.operations: Counter[str] = Counter()  # with a status below 400
        self._authorization = authorization
        self._connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def run(self, random: Random, count: int, enough: Callable[[], bool] = lambda: False) -> None:
        """Create the repositories, then send `count` requests, or fewer if `enough` returns
        true."""
        stream = Requests(random)
        self.send_all(stream.ground())
        for _ in range(count):
            if enough():
                break
            self.send(stream.draw())

    def send_all(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.send(request)

    def send(self, request: Request) -> None:
        """Send one request and judge its answer."""
        headers = dict(request.headers)
        if request.authorized:
            headers["Authorization"] = self._authorization
        if request.route.body:
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(request.route.method, request.target, request.body, headers)
            answer = self._connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._found(request, f"no answer: {type(error).__name__}: {error}")
            return
        self.statuses[answer.status] += 1
        if answer.status < 400:
            self.operations[request.route.operation] += 1
        fault = _judged(request, answer.status, answer.headers.get_content_type(), raw)
        if fault:
            self._found(request, f"{fault}: status={answer.status} body={raw[:_SHOWN]!r}")

    def _found(self, request: Request, fault: str) -> None:
        self.wrong.append(
            f"{request.route.method} {request.target[:_SHOWN]} headers={dict(request.headers)} "
            f"body={request.body[:_SHOWN]!r}: {fault}"
        )


def _judged(request: Request, status: int, kind: str, raw: bytes) -> str:
    """What is wrong with an answer; "" if nothing is."""
    route = request.route
    if status >= 500 and status != NOT_SERVED:
        return "failed"
    if route.method == "HEAD":
        return "body of a HEAD" if raw else ""
    if status >= 400 and status not in route.answers:
        return _judged_message(kind, raw)
    if status not in route.answers and status < 400:
        return "status that the document does not name"
    return _judged_shape(kind, raw, _DECLARED[route.operation, status])


def _judged_message(kind: str, raw: bytes) -> str:
    if kind != "application/json":
        return f"error that is not JSON: {kind}"
    try:
        message = json.loads(raw).get("message")
    except (ValueError, AttributeError):
        return "error that is not a JSON object"
    return "" if isinstance(message, str) and message else "error without a message"


def _judged_shape(kind: str, raw: bytes, declared: Any) -> str:
    if isinstance(declared, MediaType):
        return ""
    if kind != "application/json":
        return f"answer that is not JSON: {kind}"
    try:
        msgspec.json.decode(raw, type=declared)
    except ValueError as error:
        return f"answer of another shape: {error}"
    return ""


_DECLARED = {
    (operation.name, status): kind
    for operation in OPERATIONS
    for status, kind in operation.answers.items()
}
