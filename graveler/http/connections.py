"""What a connection and the head of a request must keep to.  Pure.

no bytes ──head_seconds──► closed        head ──head_seconds──► 408
body below the minimum rate ──► 408      answer read below the minimum rate ──► aborted
"""

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from graveler.auth.throttling import network_of
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.http.front import DIRECT, Front

_MINUTE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server.  The defaults are the production values; tests pass smaller
    ones."""

    connections_max: int = limits.connections_max
    per_address_max: int = limits.connections_per_address_max
    refused_max: int = limits.connections_refused_max
    head_bytes_max: int = limits.request_head_bytes_max
    head_lines_max: int = limits.request_head_lines_max
    head_seconds: float = limits.request_head_seconds
    idle_seconds: int = limits.connection_idle_seconds
    progress_seconds: float = limits.connection_progress_seconds
    rate_bytes_min: float = limits.connection_rate_bytes_min
    linger_seconds: float = limits.connection_linger_seconds
    linger_bytes_max: int = limits.connection_linger_bytes_max
    warnings_per_minute_max: int = limits.connection_warnings_per_minute_max

    @property
    def progress_bytes_min(self) -> float:
        """The minimum number of bytes in one window."""
        return self.progress_seconds * self.rate_bytes_min


class Admittance(Enum):
    """The decision about a new connection."""

    YES = "yes"
    FULL = "full"
    TOO_MANY = "too many"  # from its address


class Admission:
    """Counts the connections of one server.  Called only from the event loop."""

    def __init__(self, bounds: ConnectionLimits, front: Front = DIRECT) -> None:
        self.bounds = bounds
        self._front = front
        self._total = 0
        self._refused = 0
        self._by_client: Counter[str] = Counter()
        self._minute = 0.0  # when the minute of `_warnings` began
        self._warnings = 0

    def enter(self, address: str) -> Admittance:
        """Ask to serve a new connection from `address`.

        The caller calls `leave` later if, and only if, the answer is `YES`.
        """
        if self._total >= self.bounds.connections_max:
            return Admittance.FULL
        client = self._client(address)
        if client and self._by_client[client] >= self.bounds.per_address_max:
            return Admittance.TOO_MANY
        self._total += 1
        if client:
            self._by_client[client] += 1
        return Admittance.YES

    def leave(self, address: str) -> None:
        """An admitted connection has ended."""
        self._total -= 1
        client = self._client(address)
        if client:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def enter_refused(self) -> bool:
        """Whether a refused connection may stay open until its client closes it.

        The caller calls `leave_refused` later if, and only if, the answer is True.
        """
        if self._refused >= self.bounds.refused_max:
            return False
        self._refused += 1
        return True

    def leave_refused(self) -> None:
        """A refused connection that was allowed to stay has ended."""
        self._refused -= 1

    def may_warn(self, seconds: float) -> bool:
        """Whether a warning about a client may be logged at a time of the loop."""
        if seconds - self._minute >= _MINUTE_SECONDS:
            self._minute, self._warnings = seconds, 0
        self._warnings += 1
        return self._warnings <= self.bounds.warnings_per_minute_max

    @property
    def count(self) -> int:
        """Number of admitted connections that are still open."""
        return self._total

    def _client(self, address: str) -> str:
        """The key under which a connection is counted; empty if it counts only in the total."""
        return "" if self._front.trusts(address) else network_of(address)


# ---- the head of a request -----------------------------------------------------------------------

Lines = list[tuple[bytes, bytes]]
CHUNKED: Final = -1
BAD_REQUEST: Final = "400 Bad Request"
NOT_IMPLEMENTED: Final = "501 Not Implemented"
_BAD_EXPECTATION: Final = "417 Expectation Failed"
_BAD_VERSION: Final = "505 HTTP Version Not Supported"
_HOSTS_MAX: Final = 256
_CONTINUE: Final = (b"100-continue", b"")
_HOST: Final = re.compile(rb"((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{0,5})?)?")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]+)(/[^?]*)?(?:\?(.*))?", re.IGNORECASE | re.DOTALL)
_VERSIONS: Final = "its version must be HTTP/1.1 or HTTP/1.0"
_OTHER_PROTOCOLS: Final = ("PRI", "HTTP/2", "RTSP/x", "ICE/x")  # in the words of the parser
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]")
_VERSION: Final = re.compile(rb"HTTP/1\.[0-9]")
# Headers with one value that decide about something.
_SINGLE: Final = frozenset(
    (
        *(b"authorization", b"content-length", b"content-md5", b"content-type", b"date", b"host"),
        *(b"if-modified-since", b"if-range", b"if-unmodified-since", b"origin", b"range"),
        *(b"sec-fetch-site", b"transfer-encoding", b"x-amz-content-sha256", b"x-amz-copy-source"),
        *(b"x-amz-copy-source-if-modified-since", b"x-amz-copy-source-if-unmodified-since"),
        *(b"x-amz-date", b"x-amz-decoded-content-length", b"x-amz-security-token"),
    )
)


class BadHead(Invalid):
    """A head that is refused.  `status`: the status line of the answer, without the version."""

    def __init__(self, reason: str, status: str = BAD_REQUEST) -> None:
        super().__init__(f"request has an error: {reason}")
        self.status = status


class Head(NamedTuple):
    """What a head asks for.

    `lines`: the header lines, one for each name.  `length`: of the body in bytes, or `CHUNKED`.
    `continues`: the client waits for `100 Continue` before it sends the body, which may be empty.
    """

    path: bytes
    query: bytes
    lines: Lines
    length: int
    continues: bool


def check_head(method: str, target: bytes, protocol: bytes, lines: Lines) -> Head:
    """What a head asks for.

    `protocol`: the last word of the request line.  `lines`: names in lower case, values without
    blanks around them.  Raises `BadHead`.
    """
    if protocol != b"HTTP/1.1" and not _VERSION.fullmatch(protocol):
        raise BadHead(_VERSIONS, _BAD_VERSION)
    is_old = protocol == b"HTTP/1.0"
    headers = dict(lines)
    if len(headers) < len(lines):
        headers = _joined(lines)
        lines = list(headers.items())
    host = headers.get(b"host")
    if host is None and not is_old:
        raise BadHead("the header Host is missing")
    if host is not None and not _is_host(host):
        raise BadHead("the header Host must be HOST or HOST:PORT")
    if target.startswith(b"/") and b"#" not in target and method != "CONNECT":
        path, _, query = target.partition(b"?")
    else:
        path, query, host = _split(method, target, host)
        lines = [(b"host", host or b""), *(line for line in lines if line[0] != b"host")]
    length = _length(headers, is_old=is_old)
    expects = headers.get(b"expect", b"") if not is_old else b""
    if expects and any(each.strip() not in _CONTINUE for each in expects.lower().split(b",")):
        raise BadHead("the header Expect must be 100-continue", _BAD_EXPECTATION)
    return Head(path, query, lines, length, bool(expects))


def _split(method: str, target: bytes, host: bytes | None) -> tuple[bytes, bytes, bytes | None]:
    """Path, query and host of a request whose target is no plain path."""
    if method == "CONNECT":
        raise BadHead("CONNECT is not served: this is no proxy", NOT_IMPLEMENTED)
    if b"#" in target:
        raise BadHead("its target has a fragment: a # in a name must be written as %23")
    if target == b"*" and method == "OPTIONS":
        return target, b"", host
    match = _ABSOLUTE.fullmatch(target)
    if match is None or not _is_host(match[1]):
        raise BadHead("its target must be a path, or an absolute URL: http://HOST[:PORT]/PATH")
    return match[2] or b"/", match[3] or b"", match[1]


def _length(headers: dict[bytes, bytes], *, is_old: bool) -> int:
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return int(headers.get(b"content-length", b"0"))  # the parser has checked the digits
    if is_old:
        raise BadHead("HTTP/1.0 has no Transfer-Encoding")
    if coding.lower() != b"chunked":
        raise _bad_coding(coding)
    return CHUNKED


def _bad_coding(coding: bytes) -> BadHead:
    *others, _last = (each.strip() for each in coding.lower().split(b","))
    if b"chunked" in others:
        return BadHead("chunked must be the last Transfer-Encoding, and stand once")
    return BadHead("the only Transfer-Encoding that is served is chunked", NOT_IMPLEMENTED)


def _joined(lines: Lines) -> dict[bytes, bytes]:
    """The headers by name.  Lines of one name become a list (RFC 9110, section 5.3)."""
    headers: dict[bytes, bytes] = {}
    for name, value in lines:
        if name not in headers:
            headers[name] = value
        elif name == b"transfer-encoding":
            raise _bad_coding(headers[name] + b"," + value)
        elif name in _SINGLE:
            raise BadHead(f"it has the header {name.decode()} twice")
        else:
            headers[name] += (b"; " if name == b"cookie" else b",") + value
    return headers


@lru_cache(_HOSTS_MAX)
def _is_host(text: bytes) -> bool:
    return len(text) <= _HOSTS_MAX and _HOST.fullmatch(text) is not None


def bad_line(reason: str, line: bytes) -> BadHead:
    """The refusal of a head that the parser could not read.

    `reason`: what the parser says.  `line`: the first bytes of the head.
    """
    if any(word in reason for word in _OTHER_PROTOCOLS):
        return BadHead(_VERSIONS, _BAD_VERSION)
    if "method" in reason:
        if _TOKEN.match(line):
            return BadHead("its method is unknown", NOT_IMPLEMENTED)
        return BadHead("it is not HTTP; TLS needs another port")
    if "url" in reason:
        return BadHead(
            "its target must be a path, or an absolute URL: http://HOST[:PORT]/PATH; all bytes but "
            "printable ASCII must be percent-encoded"
        )
    if "version" in reason or "HTTP/" in reason:
        return BadHead("its first line must be METHOD TARGET HTTP/1.1; a blank in TARGET is %20")
    return BadHead(reason)
