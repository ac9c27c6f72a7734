"""A request as it was sent: raw path, raw query, header lines, and the query decoded once.

The decoded path of ASGI is not used, because decoding loses bytes that signatures cover.  A query
parameter that occurs twice is refused, and so is a second Host: two readers could choose different
ones.  Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_to_bytes

from graveler.api.answers import Headers
from graveler.gateway.errors import S3Error


@dataclass(frozen=True, slots=True)
class S3Request:
    """One request.

    `raw_path` and `raw_query`: as sent.  `lines`: the header lines in order, names in lower case.
    `headers`: the same by name; values of repeated headers are joined by commas.  `query`: the
    parameters, decoded; a parameter without a value has the value "".
    """

    method: str
    raw_path: bytes
    raw_query: bytes
    lines: Sequence[tuple[bytes, bytes]]
    headers: Mapping[bytes, bytes]
    query: Mapping[str, str]

    def header(self, name: bytes) -> str:
        """The text of a header; empty if the request does not have it."""
        return self.headers.get(name, b"").decode("latin-1")

    def with_headers(self, further: Headers) -> "S3Request":
        """The request with headers for which its query stands."""
        return replace(self, headers={**self.headers, **dict(further)}) if further else self


def request_of(scope: Mapping[str, Any]) -> S3Request:
    """The request of an ASGI scope.  Raises `S3Error`."""
    lines: Sequence[tuple[bytes, bytes]] = scope["headers"]
    headers: dict[bytes, bytes] = {}
    for name, value in lines:
        headers[name] = headers[name] + b"," + value if name in headers else value
    if sum(name == b"host" for name, _ in lines) > 1:
        raise S3Error("InvalidRequest", "The request has the header Host twice.")
    raw_query: bytes = scope["query_string"]
    query = _query(raw_query)
    return S3Request(scope["method"], scope["raw_path"], raw_query, lines, headers, query)


def parameters(raw_query: bytes) -> Sequence[tuple[bytes, bytes]]:
    """The decoded names and values of a query, in their order.  Pure."""
    pairs = []
    for part in raw_query.replace(b"+", b" ").split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            if b"%" in part:
                name, value = unquote_to_bytes(name), unquote_to_bytes(value)
            pairs.append((name, value))
    return pairs


def _query(raw: bytes) -> dict[str, str]:
    query: dict[str, str] = {}
    try:
        for name, value in parameters(raw):
            parameter = name.decode("utf-8")
            if parameter in query:
                raise S3Error(
                    "InvalidArgument", f"the query has a parameter twice: {parameter[:80]!r}"
                )
            query[parameter] = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise S3Error("InvalidURI", "The query is not UTF-8.") from error
    return query
