"""Time, chance and fresh names: the only door through which they enter.

Flows take a `Clock` and an `Ids` from their ports, so that a simulator can hand out its own.
Nothing else in the product
imports `time`, `random`, `secrets` or `uuid`.
"""

import os
import random
import threading
import time
from typing import Protocol

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"  # order of characters = order of values
_ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_PAIRS = [high + low for high in _ULID_ALPHABET for low in _ULID_ALPHABET]  # ten bits each
_PARTITION_SPAN_NS = 3_600 * 1_000_000_000


class Clock(Protocol):
    """Wall time for records, steady time for deadlines."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970 in UTC; may step back."""
        ...

    def steady_seconds(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class Ids(Protocol):
    """Fresh, never repeated names."""

    def stamp(self) -> bytes:
        """16 random bytes: the version of one write, or the id of one request."""
        ...

    def unique(self, length: int) -> str:
        """`length` random characters of [0-9a-v]."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ns(self) -> int:
        return time.time_ns()

    def steady_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SystemIds:
    """The operating system's randomness, fetched in blocks: one system call serves 256 stamps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        self._used = 0

    def stamp(self) -> bytes:
        with self._lock:
            if self._used >= len(self._pool):
                self._pool = os.urandom(4096)
                self._used = 0
            start = self._used
            self._used = start + 16
            return self._pool[start : start + 16]

    def forget(self) -> None:
        """Drop what was fetched: in a copy of a process, before anything is drawn there."""
        with self._lock:
            self._pool = b""

    def unique(self, length: int) -> str:
        raw = b"".join(self.stamp() for _ in range(-(-length // 16)))
        return "".join(_ALPHABET[byte & 31] for byte in raw[:length])


def reseed() -> None:
    """Seed the generator of pseudo-random numbers anew.  Libraries draw their pauses from it, and
    copies of one process would all pause alike."""
    random.seed()


def ulid(now_ns: int, randomness: bytes) -> str:
    """26 characters, sorted by birth: 48 bits of milliseconds, then 80 bits of `randomness` (ULID
    specification)."""
    assert len(randomness) >= 10
    number = ((now_ns // 1_000_000) & ((1 << 48) - 1)) << 80 | int.from_bytes(
        randomness[:10], "big"
    )
    return "".join([_ULID_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def ulid_born_ns(text: str) -> int:
    """The birth time, in whole milliseconds given as nanoseconds, that `ulid` wrote into its first
    ten characters."""
    number = 0
    for character in text[:10]:
        number = number << 5 | _ULID_ALPHABET.index(character)
    return number * 1_000_000


def descending_partition(now_ns: int, seed: bytes) -> str:
    """20 characters of [0-9a-v] that sort newest first and stay the same for one hour under one
    `seed`."""
    hour = ((1 << 50) - 1) - now_ns // _PARTITION_SPAN_NS
    rest = int.from_bytes(seed[:7].ljust(7, b"\0"), "big") & ((1 << 50) - 1)
    number = hour << 50 | rest
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(95, -1, -5))
