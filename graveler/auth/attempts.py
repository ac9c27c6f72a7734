"""How often a secret may be guessed: failures are counted by the sender's address and by key.

    address    `by_address` failures at once, then as many a minute; IPv6 by its /64
    key        `by_key` failures at once from all addresses together, then as many a minute

A request beyond either is refused before its secret is looked at.  Failures on a key by others do
not hold up an address that gave the right secret to this process within the last hour.  An address
that is new to it may have to wait while others guess, but no longer than a minute after they stop.
The set-up token is no key: its failures count by address alone.
A process counts for itself and remembers `_COUNT_MAX` addresses and as many keys, those that failed
last.  Thread-safe.  For authenticator.py.
"""

import hashlib
import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, Literal, TypeVar

from graveler.clock import Clock
from graveler.errors import Throttled
from graveler.records import ABSENT, Absent

V = TypeVar("V")

_COUNT_MAX: Final = 4_096
_TRUSTED_SECONDS: Final = 3_600.0
_RENEWED_SECONDS: Final = 60.0  # how long an address is trusted before that is noted again
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Failures at once, and again a minute."""

    by_address: int = 10
    by_key: int = 30


DEFAULT_RATES: Final = Rates()


class Attempts:
    """Failures of late."""

    def __init__(self, clock: Clock, rates: Rates = DEFAULT_RATES) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._addresses = _Failures(rates.by_address)
        self._keys = _Failures(rates.by_key)
        self._trusted: OrderedDict[str, float] = OrderedDict()

    def check(self, key: str | Literal[Absent.ABSENT], address: str) -> None:
        """Raises `Throttled` if no further guess is looked at."""
        now, address = self._clock.steady_seconds(), _network(address)
        with self._lock:
            wait = self._addresses.wait(address, now)
            if key is not ABSENT and now >= self._trusted.get(address, float("-inf")):
                wait = max(wait, self._keys.wait(_digest(key), now))
        if wait > 0:
            raise Throttled("too many failed logins; wait and try again", math.ceil(wait))

    def failed(self, key: str | Literal[Absent.ABSENT], address: str) -> None:
        """A guess was wrong."""
        now = self._clock.steady_seconds()
        with self._lock:
            self._addresses.add(_network(address), now)
            if key is not ABSENT:
                self._keys.add(_digest(key), now)

    def succeeded(self, address: str) -> None:
        """A secret was right.  Cheap if that is known of the address: every request may say it."""
        now, address = self._clock.steady_seconds(), _network(address)
        if self._trusted.get(address, now) - now > _TRUSTED_SECONDS - _RENEWED_SECONDS:
            return
        with self._lock:
            _remember(self._trusted, address, now + _TRUSTED_SECONDS)


class _Failures:
    """A bucket for each name: a failure takes one, time brings them back."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how many, since when

    def add(self, name: str, now: float) -> None:
        _remember(self._used, name, (self._spent(name, now) + 1, now))

    def wait(self, name: str, now: float) -> float:
        """Seconds until a failure is allowed again; 0: now."""
        over = self._spent(name, now) + 1 - self._most
        return max(0.0, over * _MINUTE / self._most)

    def _spent(self, name: str, now: float) -> float:
        used, since = self._used.get(name, (0.0, now))
        return max(0.0, used - (now - since) * self._most / _MINUTE)


def _remember(where: OrderedDict[str, V], name: str, value: V) -> None:
    where[name] = value
    where.move_to_end(name)
    if len(where) > _COUNT_MAX:
        where.popitem(last=False)


def _digest(key: str) -> str:
    """Keys that callers send may be long."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=_COUNT_MAX)
def _network(address: str) -> str:
    """One sender may have a whole /64 of IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or found.packed[:8].hex())
    return str(found)
