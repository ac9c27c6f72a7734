"""Limits how many requests a user sends, whatever keys and addresses they come by.

    request ──► a token of the user's bucket ──► served
                          └── none left ──► `Throttled`: 429, or SlowDown, with the time to wait

A bucket fills with `per_second` tokens a second, and holds those of `BURST_SECONDS`.  So nobody
takes the whole service from the others.  Only requests whose credentials are right count: for wrong
ones there is attempts.py.

Each process counts separately, and remembers the `_USERS_MAX` users with the latest requests.
Thread-safe.  For api/ and gateway/.
"""

import math
import threading
from collections import OrderedDict
from typing import Final

from graveler.clock import Clock, SystemClock
from graveler.errors import Throttled

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
