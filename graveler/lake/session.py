"""Sends calls of the API with credentials, and raises what their answers mean.

Threads may share a session.  It follows no redirects, because the credentials would go to the other
address.  The secret appears in no printed text.  Only the standard library is needed.
"""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, quote_plus, urlsplit

from graveler.core import errors
from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import (
    OUTCOME_UNKNOWN,
    GravelerError,
    Internal,
    Invalid,
    OutcomeUnknown,
    Unavailable,
)
from graveler.lake.connections import (
    READ,
    REPEATABLE,
    Body,
    Connections,
    Request,
    Response,
)

R = TypeVar("R")
T = TypeVar("T")

NO_API: Final = "no API of Graveler or lakeFS at this URL"
NOT_GRAVELER: Final = (
    "the server's answer has another form: it is not Graveler, or is another version"
)
_BASE: Final = "/api/v1"
_PAGE: Final = 1_000
_NAMES_KEPT: Final = 1_000
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 1
_PAUSE_SECONDS_MAX: Final = 10
_LOOK_SECONDS, _LOOK_SECONDS_MAX, _OUTAGE_SECONDS = 0.05, 2.0, 120.0
WEEK_SECONDS: Final = 7 * 86_400.0
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS  # as zlib names the form of gzip
_NOT_FOUND, _NO_METHOD, _TOO_MANY, _BUSY = 404, 405, 429, 503
_UNDER_WAY: Final = "a request was under way; look whether it was done before you repeat it"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~/-]*")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_KINDS: Final[Mapping[int, type[GravelerError]]] = {
    400: errors.Invalid,
    401: errors.Unauthenticated,
    403: errors.Refused,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    412: errors.PreconditionFailed,
    413: errors.Invalid,
    429: errors.Unavailable,
    500: errors.Internal,
    501: errors.Unsupported,
    502: errors.OutcomeUnknown,
    503: errors.Unavailable,
    504: errors.OutcomeUnknown,
    507: errors.StorageFull,
}
# How the text of a 400 ends that has a kind of its own.
_ENDINGS: Final[tuple[tuple[str, type[GravelerError]], ...]] = (
    ("no changes", errors.NoChanges),
    ("(dirty branch)", errors.DirtyBranch),
)


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = _NO_HEADERS

    def decoded(self, api: str) -> Any:
        """Its JSON, `{}` if it is empty; plain text, as the id of a new branch, is a text.  `api`:
        the URL that was asked.  Raises `Invalid`."""
        if self.headers.get("Content-Type", "").startswith("text/plain"):
            return self.body.decode("utf-8", "replace")
        try:
            return json.loads(self.body) if self.body else {}
        except ValueError as error:
            raise Invalid(
                f"the answer is not JSON; check the URL of the server: url={api}"
            ) from error

    @property
    def says_that_hooks_are_off(self) -> bool:
        """Whether the deployment runs no hooks; only answers that are about action files say so."""
        return self.headers.get("x-graveler-hooks", "") == "off"

    def pause_seconds(self) -> int:
        """How long to wait before the next attempt."""
        seconds = self.headers.get("Retry-After", "")  # may also be a date
        return int(seconds) if _WHOLE.fullmatch(seconds) else _PAUSE_SECONDS


@dataclass(frozen=True, slots=True)
class Session:
    """The URL of the API and the credentials; made by `connect`.  `token`: of a session, sent
    instead of the key and its secret."""

    url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)
    connections: Connections = field(default_factory=Connections, repr=False, compare=False)
    token: str = field(default="", repr=False)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Any:
        """Send a call and return the decoded answer, `{}` if it is empty.  `below` makes `path`.

        Errors: the kind that the status means, with the server's message; `Unavailable` if nothing
        was sent; `OutcomeUnknown` if a write was sent and its outcome is unknown.

        After a 503 the call is repeated, up to five attempts in all, unless it is a POST or PATCH;
        after a 429, which changed nothing, any call is.  If a repeated DELETE answers 404, an
        earlier attempt has deleted the object: the result is `{}`.  A `KeyboardInterrupt` during
        the attempts of a write, or between them, says that its outcome is unknown.
        """
        return self.answer(method, path, body, headers).decoded(self.url)

    def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Answer:
        """As `call`, with the headers of the answer."""
        try:
            return self._attempted(method, path, body, headers)
        except KeyboardInterrupt as interrupt:
            if method in READ:
                raise
            raise KeyboardInterrupt(_UNDER_WAY) from interrupt

    def _attempted(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
        if method == "GET" and not self.connections.in_process and _is_far(self.url):
            headers["Accept-Encoding"] = "gzip"
        for attempt in range(1, _ATTEMPTS + 1):
            with self.open(method, path, sent, headers) as response:
                answer = _whole(response)
            if answer.status < 300:
                return answer
            if attempt > 1 and method == "DELETE" and answer.status == _NOT_FOUND:
                return Answer(204)
            busy = answer.status == _BUSY and method in REPEATABLE
            again = (busy or answer.status == _TOO_MANY) and attempt < _ATTEMPTS
            if not again or answer.pause_seconds() > _PAUSE_SECONDS_MAX:
                break
            self.clock.sleep(answer.pause_seconds())
        raise _error(answer, api=self.url)

    def open(
        self,
        method: str,
        path: str,
        body: Body = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
        *,
        length: int = -1,
    ) -> Response:
        """Send a call once, and return its answer as it is, whatever its status; close it.
        `length`: the size of a body that is sent in pieces, or -1.  Raises the errors of
        `Connections.send`."""
        return self.connections.send(self._request(method, path, body, headers, length))

    def _request(
        self, method: str, path: str, body: Body, headers: Mapping[str, str], length: int = -1
    ) -> Request:
        if self.token:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        elif self.access_key_id:
            pair = f"{self.access_key_id}:{self.secret_access_key}".encode()
            headers = {"Authorization": f"Basic {b64encode(pair).decode()}", **headers}
        return Request(method, self.url + path, headers, body, length)


def connect(
    url: str,
    access_key_id: str,
    secret_access_key: str,
    *,
    token: str = "",
    connections: Connections | None = None,
) -> Session:
    """A session with the server at `url`, with or without `/api/v1`.  `token`: of a session, or of
    an identity provider that the server trusts; key and secret may be empty then.  `connections`: a
    pool to use.  Raises `Invalid`.  Sends nothing."""
    if not token and not (access_key_id and secret_access_key):
        raise Invalid("no credentials: give an access key id and its secret")
    return Session(
        *(api_url(url), access_key_id, secret_access_key),
        connections=connections or Connections(),
        token=token,
    )


def unauthenticated(url: str) -> Session:
    """A session without credentials, for what anybody may ask.  Raises `Invalid`."""
    return Session(api_url(url), "", "")


def api_url(url: str) -> str:
    """The URL of the API of the server at `url`, with or without `/api/v1`.  Raises `Invalid`."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not url.isprintable() or " " in url or parts.query or parts.fragment:
        raise Invalid("server URL invalid: it must look like https://host or http://host:8000")
    if parts.username is not None:
        raise Invalid("server URL invalid: give the credentials separately")
    url = url.rstrip("/")
    return url if url.endswith(_BASE) else url + _BASE


# ---- paths ---------------------------------------------------------------------------------------


def below(*parts: str) -> str:
    """A path of the API from unescaped names.  Raises `Invalid` for an empty name, `.` or `..`."""
    for part in parts:
        if part in ("", ".", ".."):
            raise Invalid(
                f"name invalid: it must not be empty, '.' or '..': name={part!r} "
                f"of={'/'.join(parts)}"
            )
    return "".join(f"/{_quoted(part)}" for part in parts)


@lru_cache(_NAMES_KEPT)  # calls repeat the names of the repository and the branch
def _quoted(name: str) -> str:
    return quote(name, safe="")


def with_query(path: str, /, **values: object) -> str:
    """A path of the API with more query parameters.  Empty texts and false are left out; a list
    becomes several parameters."""
    pairs: list[str] = []
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            if item is not False and item != "":
                text = "true" if item is True else str(item)
                pairs.append(f"{quote_plus(name)}={_in_query(text)}")
    separator = "&" if "?" in path else "?"
    return f"{path}{separator}{'&'.join(pairs)}" if pairs else path


def _in_query(text: str) -> str:
    """As `quote_plus`, which goes through a text letter by letter if it has a slash."""
    return text.replace("/", "%2F") if _PLAIN.fullmatch(text) else quote_plus(text)


# ---- answers -------------------------------------------------------------------------------------


def having(answer: Any, *names: str) -> dict[str, Any]:
    """An answer that is a JSON object with these keys.  Raises `Internal`."""
    if not isinstance(answer, dict) or not answer.keys() >= set(names):
        raise Internal(NOT_GRAVELER)
    return answer


def results_of(answer: Any) -> list[dict[str, Any]]:
    """The results in an answer of the API.  Raises `Internal` if it has none."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise Internal(NOT_GRAVELER)
    return results


def found(
    session: Session,
    path: str,
    *names: str,
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
    page_max: int = _PAGE,
) -> Iterator[dict[str, Any]]:
    """The items of a list, each with these keys, in pages of at most `page_max`, at most `amount`.
    `path` may have a query."""
    page = page_max if amount is None else min(amount, page_max)
    items = paged(session, with_query(path, prefix=prefix), page, after)
    return (having(item, *names) for item in islice(items, amount))


def paged(session: Session, path: str, amount: int, after: str = "") -> Iterator[dict[str, Any]]:
    """All results after `after` of a list that comes in pages.  Cost: one request for each
    `amount`.

    Raises `Internal` if a page does not lead to the next one, or leads back.
    """
    more, offsets = True, {after}
    while more:
        answer = session.call("GET", with_query(path, amount=amount, after=after))
        yield from results_of(answer)
        page = having(answer.get("pagination"), "has_more", "next_offset")
        more = page["has_more"]
        after = str(page["next_offset"])
        if more and after in offsets:
            raise Internal(f"the server repeats a page: {path=} {after=}")
        offsets.add(after)


def looks(
    clock: Clock,
    look: Callable[[], T | None],
    seconds: float = WEEK_SECONDS,
    outage_seconds: float = _OUTAGE_SECONDS,
) -> Generator[float, None, T | None]:
    """Look for a result: yields each pause before the next look, which grows from 50 ms to two
    seconds, and returns the result, or None after `seconds`.  A server that cannot be reached is
    asked again until it was away for `outage_seconds`; then its error is raised."""
    end, pause, lost_at = clock.steady_seconds() + seconds, _LOOK_SECONDS, inf
    while True:
        try:
            if (result := look()) is not None:
                return result
            lost_at = inf
        except Unavailable as error:
            lost_at = min(lost_at, clock.steady_seconds())
            is_over = clock.steady_seconds() - lost_at >= outage_seconds
            if is_over or error.code is errors.Code.CERTIFICATE_REFUSED:
                raise
        left = end - clock.steady_seconds()
        if left <= 0:
            return None
        yield min(pause, left)
        pause = min(2 * pause, _LOOK_SECONDS_MAX)


def paused(clock: Clock, steps: Generator[float, None, R]) -> R:
    """What `steps` returns, after the pauses that it yields."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        clock.sleep(pause)


def _whole(response: Response) -> Answer:
    body = response.read_all(_ANSWER_BYTES_MAX)
    if body and response.headers.get("Content-Encoding", "").lower() == "gzip":
        try:
            body = _unpacked(body)
        except Internal:
            if response.status < 300:
                raise
            body = b""  # the status says more
    return Answer(response.status, body, response.headers)


@lru_cache(_NAMES_KEPT)
def _is_far(url: str) -> bool:
    """Whether the answers of a server come over a network, so that short ones arrive earlier."""
    host = urlsplit(url).hostname or ""
    return host not in ("localhost", "::1") and not host.startswith("127.")


def _unpacked(body: bytes) -> bytes:
    """A body that came in gzip, at most as long as one that comes plainly."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        plain = unpacker.decompress(body, _ANSWER_BYTES_MAX + 1)
    except zlib.error as error:
        raise Internal(f"the answer says gzip, and is not: {error}") from error
    if len(plain) > _ANSWER_BYTES_MAX:
        raise Internal(f"the answer is longer than {_ANSWER_BYTES_MAX} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise Internal("the answer says gzip, and does not end like it")
    return plain


def error_of(response: Response, api: str = "") -> GravelerError:
    """The error that an answer from `Session.open` with a status of 300 or more means.  Its fields
    have the `reason`, the `status` and the `request_id`.  `api`: the URL of the API, if the answer
    must be its own: a 404 or 405 in another form then means that there is none."""
    return _error(_whole(response), api)


def _error(answer: Answer, api: str = "") -> GravelerError:
    request_id = answer.headers.get("X-Request-Id", "")
    try:
        reason = str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        reason = "no reason given"
        if api and answer.status in (_NOT_FOUND, _NO_METHOD):
            error = failure(answer.status, f"{NO_API}: {api}", request_id)
            error.fields = {**error.fields, "remedy": "graveler config show, to check the URL"}
            return error
    return failure(answer.status, reason, request_id)


def failure(status: int, reason: str, request_id: str = "") -> GravelerError:
    """The error that a status means, of an answer or of a task that failed."""
    kind = _KINDS.get(status, errors.Invalid if status < 500 else errors.Internal)
    if kind is Unavailable and OUTCOME_UNKNOWN in reason:
        kind = OutcomeUnknown
    if kind is Invalid:
        kind = next((kind for ending, kind in _ENDINGS if reason.endswith(ending)), kind)
    if status in range(300, 400):
        reason = "the server redirects: give the URL that it redirects to"
    names = {"reason": reason, "status": str(status), "request_id": request_id}
    return kind(f"{reason}: {status=}", "", **names)
