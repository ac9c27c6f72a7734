"""Sends JSON requests with credentials; every call of this package uses it.

    ask ──► sent ──► 2xx: its JSON
             ▲        503, and the call may be repeated: pause as `Retry-After` says ─┐
             └───────────────────────────────────────────────────────────────────────┘
                      any other status: an error of the kind that it means

A session is a value: it holds no connection, and threads may share it.  It follows no redirects,
because the credentials would go to the other address.  The secret appears in no printed text.  Only
the standard library is needed.  Part of the public Python client; the commands use it too.
"""

import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from graveler import errors
from graveler.clock import Clock, SystemClock
from graveler.errors import (
    OUTCOME_UNKNOWN,
    GravelerError,
    Internal,
    Invalid,
    OutcomeUnknown,
    Unavailable,
)

URL_VARIABLE: Final = "LAKECTL_SERVER_ENDPOINT_URL"
KEY_VARIABLE: Final = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_VARIABLE: Final = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
_BASE: Final = "/api/v1"
_SECONDS: Final = 60  # to connect, and for each read of an answer; the server has 30 to answer
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 1
_PAUSE_SECONDS_MAX: Final = 10
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_READ: Final = ("GET", "HEAD")
_REPEATABLE: Final = (*_READ, "PUT", "DELETE")
_NOT_FOUND, _BUSY = 404, 503
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_KINDS: Final[Mapping[int, type[GravelerError]]] = {
    400: errors.Invalid,
    401: errors.Unauthenticated,
    403: errors.Refused,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    412: errors.PreconditionFailed,
    413: errors.Invalid,
    423: errors.Contended,
    429: errors.Unavailable,
    500: errors.Internal,
    501: errors.Unsupported,
    502: errors.OutcomeUnknown,
    503: errors.Unavailable,
    504: errors.OutcomeUnknown,
    507: errors.StorageFull,
}


@dataclass(frozen=True, slots=True)
class Session:
    """The URL of the API and the credentials; made by `connect`."""

    url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a call and return the decoded answer, `{}` if it is empty.  `below` makes `path`.

        Errors: the kind that the status means, with the server's message; `Unavailable` if nothing
        was sent; `OutcomeUnknown` if a write was sent and its outcome is unknown.

        After a 503 the call is repeated, up to five attempts in all, unless it is a POST.  If a
        repeated DELETE answers 404, an earlier attempt has deleted the object: the result is `{}`.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            answer = self._send(method, path, body)
            if answer.status < 300:
                return self._decoded(answer)
            if attempt > 1 and method == "DELETE" and answer.status == _NOT_FOUND:
                return {}
            again = answer.status == _BUSY and method in _REPEATABLE and attempt < _ATTEMPTS
            if not again or answer.pause_seconds > _PAUSE_SECONDS_MAX:
                break
            self.clock.sleep(answer.pause_seconds)
        raise _error(answer)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> "_Answer":
        token = b64encode(f"{self.access_key_id}:{self.secret_access_key}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, sent, headers, method=method)
        opener = urllib.request.build_opener(_AsItIs)
        try:
            with opener.open(request, timeout=_SECONDS) as response:
                return _answer(response)
        except urllib.error.URLError as error:  # the request was not sent completely
            raise Unavailable(f"the server does not answer: {error} url={self.url}") from error
        except (OSError, HTTPException) as error:
            kind = Unavailable if method in _READ else OutcomeUnknown
            raise kind(f"the server's answer was lost: {error!r} url={self.url}") from error

    def _decoded(self, answer: "_Answer") -> Any:
        try:
            return json.loads(answer.body) if answer.body else {}
        except ValueError as error:
            raise Invalid(
                f"the answer is not JSON; check the URL of the server: url={self.url}"
            ) from error


def connect(url: str, access_key_id: str, secret_access_key: str) -> Session:
    """A session with the server at `url`, with or without `/api/v1`.  Raises `Invalid`.  Sends
    nothing."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not url.isprintable() or " " in url or parts.query or parts.fragment:
        raise Invalid("server URL invalid: it must look like https://host or http://host:8000")
    if parts.username is not None:
        raise Invalid("server URL invalid: give the credentials separately")
    if not access_key_id or not secret_access_key:
        raise Invalid("no credentials: give an access key id and its secret")
    url = url.rstrip("/")
    return Session(url if url.endswith(_BASE) else url + _BASE, access_key_id, secret_access_key)


def connect_as_lakectl(
    variables: Mapping[str, str], url: str = "", access_key_id: str = ""
) -> Session:
    """As `connect`; missing arguments come from `variables`, the environment variables of
    `lakectl` (pass `os.environ`).

    Raises `Invalid`, which names the missing variable."""
    url = url or variables.get(URL_VARIABLE, "")
    key = access_key_id or variables.get(KEY_VARIABLE, "")
    secret = variables.get(SECRET_VARIABLE, "")
    if not url:
        raise Invalid(f"no server: give --server URL or set {URL_VARIABLE}")
    if not key or not secret:
        raise Invalid(f"no credentials: set {KEY_VARIABLE} and {SECRET_VARIABLE}")
    return connect(url, key, secret)


NOT_GRAVELER: Final = (
    "the server's answer has another form: it is not Graveler, or is another version"
)


def paged(session: Session, path: str, amount: int) -> Iterator[dict[str, Any]]:
    """All results of a list that comes in pages.  Cost: one request for each `amount`.

    Raises `Internal` if a page does not lead to the next one.
    """
    after, more = "", True
    while more:
        query = urlencode({"amount": amount, "after": after})
        answer = session.ask("GET", f"{path}?{query}")
        yield from results_of(answer)
        page = answer["pagination"]
        more = page["has_more"]
        if more and page["next_offset"] == after:
            raise Internal(f"the server repeats a page: {path=} {after=}")
        after = page["next_offset"]


def results_of(answer: Any) -> list[dict[str, Any]]:
    """The results in an answer of the API.  Raises `Internal` if it has none."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise Internal(NOT_GRAVELER)
    return results


def below(*parts: str) -> str:
    """A path of the API from unescaped names.  Raises `Invalid` for an empty name, `.` or `..`."""
    for part in parts:
        if part in ("", ".", ".."):
            raise Invalid(
                f"name invalid: it must not be empty, '.' or '..': name={part!r} "
                f"of={'/'.join(parts)}"
            )
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class _AsItIs(urllib.request.HTTPErrorProcessor):
    """Returns every response as it is: no redirect is followed and no status raises."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:
        return response

    https_response = http_response


class _Answer(NamedTuple):
    status: int
    body: bytes
    pause_seconds: int


def _answer(response: HTTPResponse) -> _Answer:
    body = response.read(_ANSWER_BYTES_MAX + 1)
    if len(body) > _ANSWER_BYTES_MAX:
        raise Internal(f"the answer is longer than {_ANSWER_BYTES_MAX} bytes")
    if response.length:
        raise IncompleteRead(body, response.length)
    seconds = response.headers.get("Retry-After", "")
    # Retry-After may also be a date.
    pause = int(seconds) if _WHOLE.fullmatch(seconds) else _PAUSE_SECONDS
    return _Answer(response.status, body, pause)


def _error(answer: _Answer) -> GravelerError:
    status = answer.status
    try:
        reason = str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        reason = "no reason given"
    kind = _KINDS.get(status, errors.Invalid if status < 500 else errors.Internal)
    if kind is Unavailable and OUTCOME_UNKNOWN in reason:
        kind = OutcomeUnknown
    if status in range(300, 400):
        reason = "the server redirects: give the URL that it redirects to"
    return kind(f"{reason}: {status=}")
