"""The path and the body of a request, before they are parsed: a tree of paths, a bounded body.

Used by dispatch.py and plans.py.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from graveler.api.feed import Disconnected, Receive
from graveler.api.parameters import decoded
from graveler.errors import Invalid


class TooLarge(Invalid):
    """A request body that is larger than its limit."""


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
    return decoded(unquote_to_bytes(text), name, "path")


def counted(receive: Receive, headers: Mapping[bytes, bytes]) -> Receive:
    """`receive`, which raises `Invalid` unless the body has exactly the length that the headers
    state.  So a body that a server or a proxy cut off is stored nowhere."""
    declared = headers.get(b"content-length", b"")
    if not declared.isdigit():
        return receive
    left = int(declared)

    async def next_message() -> MutableMapping[str, Any]:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left and (left < 0 or not message.get("more_body", False)):
                raise Invalid("request body has an error: it must have Content-Length bytes")
        return message

    return next_message


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
