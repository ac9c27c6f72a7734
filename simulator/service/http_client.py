"""A small client of a served store: one kept connection, JSON in and out.  For tests only."""

import base64
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from graveler.api.operation import API_PREFIX

WAIT_SECONDS = 300
GONE = (OSError, http.client.HTTPException)


def basic(key: str, secret: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{key}:{secret}".encode()).decode()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection with the credentials of one user.  If the service has ended, a call raises one
    of `GONE`."""

    def __init__(self, host: str, port: int, authorization: str) -> None:
        self._authorization = authorization
        self._connection = http.client.HTTPConnection(host, port, timeout=WAIT_SECONDS)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def send(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> HttpAnswer:
        """Send a request.  `path` is relative to the API; `body`: bytes are sent unchanged,
        anything else as JSON."""
        headers = {"Authorization": self._authorization}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        target = API_PREFIX + path + ("?" + urlencode(query) if query else "")
        try:
            self._connection.request(method, target, body, headers)
            answer = self._connection.getresponse()
            return HttpAnswer(answer.status, answer.read())
        except GONE:
            self._connection.close()
            raise
