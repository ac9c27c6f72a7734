"""A request as it was sent: raw path, raw query, header lines, and the query decoded once.

The decoded path of ASGI is not used, because decoding loses bytes that signatures cover.  A query
parameter that occurs twice is refused, and so is a second Host: two readers could choose different
ones.  Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from graveler.api.answers import Headers
from graveler.gateway.errors import S3Error

Pairs = Sequence[tuple[bytes, bytes]]

# Headers of nearly every request, which ask for nothing: the signature and the client.
_USUAL: Final = frozenset(
    (
        *(b"host", b"authorization", b"date", b"x-amz-date", b"x-amz-content-sha256"),
        *(b"user-agent", b"accept", b"accept-encoding", b"connection", b"expect"),
        *(b"amz-sdk-invocation-id", b"amz-sdk-request"),
    )
)


class S3Request(NamedTuple):
    """One request.

    `raw_path` and `raw_query`: as sent.  `lines`: the header lines in order, names in lower case.
    `headers`: the same by name, without blanks around a value, which belong to no value; values of
    repeated headers are joined by commas.  `instructions`: those of them that may ask for
    something, or describe the body; they are few, and every check of headers goes through them.
    `pairs`: the names and values of the query, decoded, in their order.  `query`: the same as
    texts, by name; a parameter without a value has the value "".
    """

    method: str
    raw_path: bytes
    raw_query: bytes
    lines: Pairs
    headers: Mapping[bytes, bytes]
    instructions: Mapping[bytes, bytes]
    pairs: Pairs
    query: Mapping[str, str]

    def header(self, name: bytes) -> str:
        """The text of a header; empty if the request does not have it."""
        return self.headers.get(name, b"").decode("latin-1")

    def with_headers(self, further: Headers) -> "S3Request":
        """The request with headers for which its query stands."""
        if not further:
            return self
        headers = {**self.headers, **dict(further)}
        return self._replace(headers=headers, instructions=_instructions(headers))


def request_of(scope: Mapping[str, Any]) -> S3Request:
    """The request of an ASGI scope.  Raises `S3Error`."""
    lines: Pairs = scope["headers"]
    headers = {name: value.strip() for name, value in lines}  # parsers leave those behind
    if len(headers) < len(lines):
        headers = _joined(lines)
    raw: bytes = scope["query_string"]
    pairs = parameters(raw)
    return S3Request(
        scope["method"],
        scope["raw_path"],
        raw,
        lines,
        headers,
        _instructions(headers),
        pairs,
        _query(pairs) if pairs else {},
    )


def _instructions(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in headers.items() if name not in _USUAL}


def _joined(lines: Pairs) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in lines:
        if name == b"host" and name in headers:
            raise S3Error("InvalidRequest", "The request has the header Host twice.")
        value = value.strip()
        headers[name] = headers[name] + b"," + value if name in headers else value
    return headers


def parameters(raw_query: bytes) -> Pairs:
    """The decoded names and values of a query, in their order.  Pure."""
    pairs: list[tuple[bytes, bytes]] = []
    if not raw_query:
        return pairs
    for part in raw_query.replace(b"+", b" ").split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            if b"%" in part:
                name, value = unquote_to_bytes(name), unquote_to_bytes(value)
            pairs.append((name, value))
    return pairs


def _query(pairs: Pairs) -> dict[str, str]:
    query: dict[str, str] = {}
    try:
        for name, value in pairs:
            parameter = name.decode("utf-8")
            if parameter in query:
                raise S3Error(
                    "InvalidArgument", f"the query has a parameter twice: {parameter[:80]!r}"
                )
            query[parameter] = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise S3Error("InvalidURI", "The query is not UTF-8.") from error
    return query
