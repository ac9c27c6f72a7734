"""Parsing of requests: path, query, headers and JSON body, as their row in the table declares them.

Everything is compiled from the row once.  A request costs one split of the path, one pass over the
query and, if it has a body, one JSON parse.  A violation raises `Invalid` before anything else is
read.  Used by dispatch.py.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import orjson

from graveler import limits
from graveler.api.feed import Disconnected, Receive
from graveler.api.schemas import CATALOGUE
from graveler.api.table import Parameter, Route
from graveler.api.validation import Read, body_check, parameter_read
from graveler.errors import Invalid

_PIECES_MAX = 1_000
_QUERY_LENGTH_MAX = 32 * 1024


class TooLarge(Invalid):
    """A request body that is larger than its limit."""


class Reader:
    """Parses the parameters and the body of the requests of one route."""

    def __init__(self, route: Route) -> None:
        query = [each for each in route.parameters if each.place == "query"]
        self._defaults = {each.name: _default(each) for each in query}
        self._singles = {each.name: _reader(each) for each in query if not _is_array(each)}
        self._arrays = frozenset(each.name for each in query if _is_array(each))
        self._required = tuple(each.name for each in query if each.required)
        self._headers = tuple(
            (each.name.lower().encode(), _reader(each))
            for each in route.parameters
            if each.place == "header"
        )
        has_body = bool(route.body)
        self._body_length_max = (
            limits.json_body_length_bytes_max
            if route.authenticated
            else limits.open_body_length_bytes_max
        )
        self._check_body = body_check(route.body, CATALOGUE) if route.body else _unchecked
        self._body_may_lack = has_body and not CATALOGUE[route.body].get("required")

    def query(self, raw: bytes) -> dict[str, Any]:
        """The query parameters that the row declares, parsed, with defaults for absent ones.

        Other parameters are ignored.  Raises `Invalid` if a value breaks its rule or a required one
        is missing.
        """
        values = self._defaults.copy()
        if raw:
            self._fill(values, raw)
        for name in self._required:
            if values[name] is None:
                raise Invalid(f'parameter "{name}" in query has an error: {MISSING}')
        return values

    def headers(self, headers: Mapping[bytes, bytes]) -> None:
        """Check the headers that the row declares.  Raises `Invalid` if one breaks its rule."""
        for name, read in self._headers:
            if name in headers:
                read(headers[name].decode("latin-1"))

    async def body(self, receive: Receive, headers: Mapping[bytes, bytes]) -> Any:
        """The JSON body, checked against the schema of the row.

        Raises `Invalid`, `TooLarge`, and `Disconnected` if the client closes the connection.
        """
        raw = await whole_body(receive, headers, self._body_length_max)
        if not raw.strip():
            if self._body_may_lack:
                return {}
            raise Invalid(f"request body has an error: {MISSING}")
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Invalid(f"request body has an error: it must be JSON: {error}") from error
        return self._check_body(value)

    def _fill(self, values: dict[str, Any], raw: bytes) -> None:
        if len(raw) > _QUERY_LENGTH_MAX:
            raise Invalid(f"query has an error: it must have at most {_QUERY_LENGTH_MAX} bytes")
        singles, arrays = self._singles, self._arrays
        seen: set[str] = set()
        for piece in raw.decode("latin-1").split("&", _PIECES_MAX):
            name, _, value = piece.partition("=")
            read = singles.get(name)
            if read is not None:
                if name not in seen:
                    seen.add(name)
                    values[name] = read(_unquoted(value, name))
            elif name in arrays:
                values[name] = (*values[name], _unquoted(value, name))


class Tree(NamedTuple):
    """Routes as a tree of path segments.  A look-up takes one dictionary access for each
    segment."""

    literal: dict[str, "Tree"]
    variable: list["Tree"]  # at most one
    here: dict[str, Any]  # method -> stored value

    @classmethod
    def empty(cls) -> "Tree":
        return cls({}, [], {})

    def add(self, path: str, method: str, value: Any) -> None:
        """Store `value` under a template such as `/repositories/{repository}`."""
        node = self
        for segment in path.strip("/").split("/"):
            if segment.startswith("{"):
                if not node.variable:
                    node.variable.append(Tree.empty())
                node = node.variable[0]
            else:
                node = node.literal.setdefault(segment, Tree.empty())
        assert method not in node.here, f"two routes for {method} {path}"
        node.here[method] = value

    def find(self, segments: list[str], method: str) -> tuple[Any, list[str]] | tuple[()]:
        """The stored value and the variable segments, still quoted; `()` if there is no such
        route."""
        node, values = self, []
        for segment in segments:
            child = node.literal.get(segment)
            if child is None:
                if not node.variable or not segment:
                    return ()
                values.append(segment)
                child = node.variable[0]
            node = child
        plan = node.here.get(method)
        return () if plan is None else (plan, values)


def unquoted_segment(text: str, name: str) -> str:
    """A path segment, unquoted.  Raises `Invalid` if it is not UTF-8."""
    if "%" not in text:
        return text
    return _decoded(unquote_to_bytes(text), name, "path")


async def whole_body(receive: Receive, headers: Mapping[bytes, bytes], length_max: int) -> bytes:
    """The whole body, at most `length_max` bytes.

    Raises `TooLarge` if it is longer, and `Disconnected` if the client closes the connection.
    """
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared[:20]) > length_max:
        raise TooLarge(f"request body has an error: it must have at most {length_max} bytes")
    pieces: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected("client disconnected before its request was complete")
        piece = message.get("body", b"")
        length += len(piece)
        if length > length_max:
            raise TooLarge(f"request body has an error: it must have at most {length_max} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


MISSING = "value is required but missing"


def _unchecked(value: Any) -> Any:
    return value


def _is_array(parameter: Parameter) -> bool:
    return parameter.schema.get("type") == "array"


def _default(parameter: Parameter) -> Any:
    if parameter.required:
        return None
    if _is_array(parameter):
        return ()
    kind = parameter.schema.get("type")
    empty = {"boolean": False, "integer": 0}.get(kind, "") if isinstance(kind, str) else ""
    return parameter.schema.get("default", empty)


def _reader(parameter: Parameter) -> Read:
    read = parameter_read(parameter.schema)
    where = f'parameter "{parameter.name}" in {parameter.place} has an error: '
    required = parameter.required

    def checked(text: str) -> Any:
        if required and not text:
            raise Invalid(f"{where}empty value is not allowed")
        try:
            return read(text)
        except ValueError as error:
            raise Invalid(f"{where}{error}") from error

    return checked


def _unquoted(text: str, name: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text and text.isascii():
        return text
    return _decoded(unquote_to_bytes(text.encode("latin-1")), name, "query")


def _decoded(raw: bytes, name: str, place: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f'parameter "{name}" in {place} has an error: not valid UTF-8') from error
