"""The port for requests to hosts outside the service: hooks, STS, the keys of an identity provider.

`hooks/egress.py` has the driver on sockets, which reaches only hosts that are allowed by name;
`hooks/function.py` has the one that lets a function without rights use it.
Every module may import this.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Outgoing(NamedTuple):
    """A request."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """The answer: status and at most `limits.hook_answer_length_bytes_max` bytes of body."""

    status: int
    body: bytes


class Sender(Protocol):
    """Sends requests to hosts outside the service."""

    def send(self, request: Outgoing, seconds: float) -> Reply:
        """Send one request and return its answer, whatever its status.

        Errors: `Refused` if the request may not leave the service, `Unavailable` if no whole answer
        arrives within `seconds`, or one that is too large.
        """
        ...
