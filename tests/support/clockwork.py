"""Time and ids that repeat: a clock that moves only when it is called, and ids drawn from a seed.

With both in its ports, a verb is a pure function of seed and input.  Tests and programs may use it.
"""

import random
import threading

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_START_NS = 1_700_000_000 * 1_000_000_000


class TickingClock:
    """`Clock` that advances by one microsecond at each `now_ns`, and further only by `sleep`."""

    def __init__(self, start_ns: int = _START_NS) -> None:
        self._lock = threading.Lock()
        self._begun_ns = start_ns
        self._now_ns = start_ns

    def now_ns(self) -> int:
        with self._lock:
            self._now_ns += 1_000
            return self._now_ns

    def steady_seconds(self) -> float:
        return (self._now_ns - self._begun_ns) / 1e9

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now_ns += int(seconds * 1e9)


class SeededIds:
    """`Ids` in a fixed order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def stamp(self) -> bytes:
        return self._random.getrandbits(128).to_bytes(16, "big")

    def unique(self, length: int) -> str:
        bits = self._random.getrandbits(5 * length)
        return "".join(_ALPHABET[bits >> 5 * place & 31] for place in range(length))
