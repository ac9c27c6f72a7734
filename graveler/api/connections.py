"""Limits on connections: their number, and how large and how slow a request may be.

    no bytes ──head_seconds──► closed        head ──head_seconds──► 408
    body below the minimum rate ──► 408      answer read below the minimum rate ──► aborted

The rate is a minimum over windows of `progress_seconds`, so a long upload has no absolute time
limit.  Connections are counted by address; IPv6 addresses by their /64 network, because one client
usually has a whole one.  A trusted proxy carries the traffic of many clients, so its connections
count only in the total.

A refused connection gets an answer.  The server then drops everything that the client sends, until
the client closes.  Otherwise the operating system would reset the connection, and the client would
lose the answer.  The server waits for at most `refused_max` such connections at a time and closes
others at once.  Pure.  Used by server.py and the commands.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address, ip_address, ip_network

from graveler import limits
from graveler.api.front import DIRECT, Front

_CLIENT_BITS = 64
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
        if self._front.trusts(address):
            return ""
        try:
            client = ip_address(address)
        except ValueError:
            return address
        if isinstance(client, IPv6Address) and not client.ipv4_mapped:
            return str(ip_network((int(client), _CLIENT_BITS), strict=False))
        return address
