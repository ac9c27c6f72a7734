"""Limits how often a secret may be guessed or a token forged, and how many requests a user sends.

    address    `by_address` failures at once, then as many per minute; IPv6 by its /64
    token      `by_token` forged tokens at once from an address, then as many per minute
    key        `by_key` failures at once from all addresses together, then as many per minute
    user       requests of the last `BURST_SECONDS` at once, then `per_second`

Above the limit of its address or key, a request is refused before its secret is checked.  A valid
token is accepted above the limit of tokens: behind one address, nobody ends the sessions of others.
An address that gave the right secret within the last hour is not limited by key, so failures of
others do not block it.  Failures of the setup token count by address only.  Each process counts
separately, and remembers the latest addresses, keys and users.  Thread-safe.
"""

import hashlib
import math
import threading
from collections import OrderedDict
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, Literal, NamedTuple, TypeVar

from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import Throttled
from graveler.core.records import ABSENT, Absent

V = TypeVar("V")

_COUNT_MAX: Final = 4_096
_TRUSTED_SECONDS: Final = 3_600.0
_RENEWED_SECONDS: Final = 60.0  # the trust of an address is renewed at most this often
_MINUTE: Final = 60.0


class Rates(NamedTuple):
    """How many failures are allowed at once, and again per minute."""

    by_address: int = 10
    by_key: int = 30
    by_token: int = 60


DEFAULT_RATES: Final = Rates()


class Attempts:
    """Counts recent failures."""

    def __init__(self, clock: Clock, rates: Rates = DEFAULT_RATES) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._addresses = _Failures(rates.by_address)
        self._keys = _Failures(rates.by_key)
        self._tokens = _Failures(rates.by_token)
        self._trusted: OrderedDict[str, float] = OrderedDict()

    def check(self, key: str | Literal[Absent.ABSENT], address: str) -> None:
        """Raises `Throttled` if a limit is reached."""
        now, address = self._clock.steady_seconds(), network_of(address)
        with self._lock:
            wait = self._addresses.wait(address, now)
            if key is not ABSENT and now >= self._trusted.get(address, float("-inf")):
                wait = max(wait, self._keys.wait(_digest(key), now))
        _refuse(wait)

    def failed(self, key: str | Literal[Absent.ABSENT], address: str) -> None:
        """Count a wrong secret."""
        now = self._clock.steady_seconds()
        with self._lock:
            self._addresses.add(network_of(address), now)
            if key is not ABSENT:
                self._keys.add(_digest(key), now)

    def check_token(self, address: str) -> None:
        """Raises `Throttled` if the address has sent too many forged tokens."""
        now = self._clock.steady_seconds()
        with self._lock:
            wait = self._tokens.wait(network_of(address), now)
        _refuse(wait)

    def forged(self, address: str) -> None:
        """Count a token that this service did not sign."""
        now = self._clock.steady_seconds()
        with self._lock:
            self._tokens.add(network_of(address), now)

    def succeeded(self, address: str) -> None:
        """Trust an address that gave the right secret.  Cheap if it is trusted already, because
        every request calls this."""
        now, address = self._clock.steady_seconds(), network_of(address)
        if self._trusted.get(address, now) - now > _TRUSTED_SECONDS - _RENEWED_SECONDS:
            return
        with self._lock:
            _remember(self._trusted, address, now + _TRUSTED_SECONDS)


def _refuse(wait: float) -> None:
    """Raises `Throttled` if there is anything to wait for."""
    if wait > 0:
        raise Throttled("too many failed logins; wait and try again", math.ceil(wait))


class _Failures:
    """A token bucket per name: each failure takes a token; tokens come back with time."""

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures, at time

    def add(self, name: str, now: float) -> None:
        _remember(self._used, name, (self._spent(name, now) + 1, now))

    def wait(self, name: str, now: float) -> float:
        """Seconds until a failure is allowed again; 0: now."""
        excess = self._spent(name, now) + 1 - self._most
        return max(0.0, excess * _MINUTE / self._most)

    def _spent(self, name: str, now: float) -> float:
        used, since = self._used.get(name, (0.0, now))
        return max(0.0, used - (now - since) * self._most / _MINUTE)


def _remember(where: OrderedDict[str, V], name: str, value: V) -> None:
    where[name] = value
    where.move_to_end(name)
    if len(where) > _COUNT_MAX:
        where.popitem(last=False)


def _digest(key: str) -> str:
    """A hash of an access key id, because callers may send long ones."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=_COUNT_MAX)
def network_of(address: str) -> str:
    """The network that counts as one sender: an IPv4 address, or a /64 of IPv6; the beginning of a
    text that is no address."""
    try:
        client = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(client, IPv6Address):
        return str(client.ipv4_mapped or client.packed[:8].hex())
    return str(client)


# ---- request_rates -------------------------------------------------------------------------------

BURST_SECONDS: Final = 10.0
_USERS_MAX: Final = 4_096


class RequestRates:
    """Counts the requests of users.  `per_second` 0: no limit, and nothing is counted."""

    def __init__(self, clock: Clock, per_second: float = 0.0, users_max: int = _USERS_MAX) -> None:
        self._clock = clock
        self._rate = per_second
        self._most = max(1.0, per_second * BURST_SECONDS)
        self._users_max = users_max
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, at time

    def take(self, uid: str) -> None:
        """Count a request of the user with this uid.  Raises `Throttled`.  No request."""
        if not self._rate:
            return
        now = self._clock.steady_seconds()
        with self._lock:
            left, since = self._left.pop(uid, (self._most, now))
            left = min(self._most, left + (now - since) * self._rate)
            is_served = left >= 1
            self._left[uid] = (left - is_served, now)
            if len(self._left) > self._users_max:
                self._left.popitem(last=False)
        if not is_served:
            wait = math.ceil((1 - left) / self._rate)
            raise Throttled("too many requests of this user; wait and try again", wait)


NO_RATES: Final = RequestRates(SystemClock())
