"""What one connection may take: how many there may be, how slow and how large a request may be.

    silent ──head_seconds──► closed          head ──head_seconds──► 408
    body below the least rate ──► 408        answer read below the least rate ──► aborted

The rate is a least one, over windows of `progress_seconds`, so that a long upload has no absolute
limit.  Connections are counted by address, of IPv6 by the network of 64 bits that one client has.
A trusted proxy speaks for many clients: its connections count in the total alone.

A connection that is refused is answered, and what its client sends is dropped until the client
closes, so that the answer is not lost to a reset.  Only `refused_max` connections are waited for
at a time; others are closed at once.  Pure; for server.py.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address, ip_address, ip_network

from graveler import limits
from graveler.api.front import DIRECT, Front

_CLIENT_BITS = 64


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The defaults are what is served with; tests pass smaller ones."""

    connections_max: int = limits.connections_max
    per_address_max: int = limits.connections_per_address_max
    refused_max: int = limits.connections_refused_max
    head_bytes_max: int = limits.request_head_bytes_max
    head_seconds: float = limits.request_head_seconds
    idle_seconds: int = limits.connection_idle_seconds
    progress_seconds: float = limits.connection_progress_seconds
    rate_bytes_min: float = limits.connection_rate_bytes_min
    linger_seconds: float = limits.connection_linger_seconds
    linger_bytes_max: int = limits.connection_linger_bytes_max
    pipeline_count_max: int = limits.connection_pipeline_count_max

    @property
    def progress_bytes_min(self) -> float:
        """What has to move in one window."""
        return self.progress_seconds * self.rate_bytes_min


class Admitted(Enum):
    """Whether a connection may stay."""

    YES = "yes"
    FULL = "full"
    TOO_MANY = "too many"  # of its address


class Admission:
    """Counts the connections of one server.  Used from the event loop only."""

    def __init__(self, bounds: ConnectionLimits, front: Front = DIRECT) -> None:
        self.bounds = bounds
        self._front = front
        self._total = 0
        self._refused = 0
        self._by_client: Counter[str] = Counter()

    def enter(self, address: str) -> Admitted:
        """A connection from `address` asks to be served.  `leave` follows if, and only if, the
        answer is yes."""
        if self._total >= self.bounds.connections_max:
            return Admitted.FULL
        client = self._client(address)
        if client and self._by_client[client] >= self.bounds.per_address_max:
            return Admitted.TOO_MANY
        self._total += 1
        if client:
            self._by_client[client] += 1
        return Admitted.YES

    def leave(self, address: str) -> None:
        """A connection that was let in has ended."""
        self._total -= 1
        client = self._client(address)
        if client:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def enter_refused(self) -> bool:
        """Whether a connection that was refused may stay until its client closes it.
        `leave_refused` follows if, and only if, the answer is yes."""
        if self._refused >= self.bounds.refused_max:
            return False
        self._refused += 1
        return True

    def leave_refused(self) -> None:
        """A connection that was refused, and could stay, has ended."""
        self._refused -= 1

    @property
    def count(self) -> int:
        """Connections that were let in and have not ended."""
        return self._total

    def _client(self, address: str) -> str:
        """Whom a connection counts for; empty: nobody alone."""
        if self._front.trusts(address):
            return ""
        try:
            found = ip_address(address)
        except ValueError:
            return address
        if isinstance(found, IPv6Address) and not found.ipv4_mapped:
            return str(ip_network((int(found), _CLIENT_BITS), strict=False))
        return address
