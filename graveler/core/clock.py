"""The only source of time, randomness and fresh ids.

Engine functions take a `Clock` and an `Ids` from their ports, so that a simulator can pass its own.
No other module of the product imports `time`, `random`, `secrets` or `uuid`.
"""

import os
import random
import threading
import time
from typing import Protocol

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"  # the characters sort like their values
_CHARACTERS = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))  # one for each byte
_ALPHABET_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]  # ten bits each
_ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_PAIRS = [high + low for high in _ULID_ALPHABET for low in _ULID_ALPHABET]  # ten bits each
_PARTITION_SPAN_NS = 3_600 * 1_000_000_000


class Clock(Protocol):
    """Wall time for records, steady time for deadlines."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC; may step back."""
        ...

    def steady_seconds(self) -> float:
        """Seconds of a monotonic clock; only differences are meaningful."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...


class Ids(Protocol):
    """Makes fresh ids that never repeat."""

    def stamp(self) -> bytes:
        """16 random bytes: the version of one write, or the id of one request."""
        ...

    def unique(self, length: int) -> str:
        """`length` random characters of [0-9a-v]."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now_ns(self) -> int:
        return time.time_ns()

    def steady_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SystemIds:
    """Ids from the operating system's randomness.  One system call fetches bytes for 256 stamps;
    a forked process fetches its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        self._used = 0
        self._process = 0  # that fetched the bytes

    def stamp(self) -> bytes:
        with self._lock:
            if self._used >= len(self._pool) or self._process != os.getpid():
                self._pool = os.urandom(4096)
                self._used = 0
                self._process = os.getpid()
            start = self._used
            self._used = start + 16
            return self._pool[start : start + 16]

    def forget(self) -> None:
        """Discard the fetched bytes.  A process that was restored from a snapshot must call this
        before it draws an id, or all that were restored from it draw the same."""
        with self._lock:
            self._pool = b""

    def unique(self, length: int) -> str:
        raw = self.stamp()
        while len(raw) < length:
            raw += self.stamp()
        return raw[:length].translate(_CHARACTERS).decode("ascii")


def reseed() -> None:
    """Seed Python's pseudo-random generator again.  Libraries draw their pauses from it; without a
    new seed, all copies of a process would pause for equal times."""
    random.seed()


def ulid(now_ns: int, randomness: bytes) -> str:
    """A ULID: 26 characters that sort by creation time.  It holds 48 bits of milliseconds, then 80
    bits of `randomness` (ULID specification)."""
    assert len(randomness) >= 10
    number = ((now_ns // 1_000_000) & ((1 << 48) - 1)) << 80 | int.from_bytes(
        randomness[:10], "big"
    )
    return "".join([_ULID_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def ulid_born_ns(text: str) -> int:
    """The creation time in the first ten characters of a ULID: whole milliseconds, expressed in
    nanoseconds."""
    number = 0
    for character in text[:10]:
        number = number << 5 | _ULID_ALPHABET.index(character)
    return number * 1_000_000


def descending_id(now_ns: int, seed: bytes) -> str:
    """20 characters of [0-9a-v] that sort newest first: 56 bits of microseconds, counted down, then
    44 bits of `seed`."""
    left = ((1 << 56) - 1) - now_ns // 1_000
    rest = int.from_bytes(seed[:6].ljust(6, b"\0"), "big") & ((1 << 44) - 1)
    number = left << 44 | rest
    return "".join([_ALPHABET_PAIRS[(number >> shift) & 1023] for shift in range(90, -1, -10)])


def descending_partition(now_ns: int, seed: bytes) -> str:
    """20 characters of [0-9a-v] that sort newest hour first.  With the same `seed` they are the
    same for one hour."""
    hour = ((1 << 50) - 1) - now_ns // _PARTITION_SPAN_NS
    rest = int.from_bytes(seed[:7].ljust(7, b"\0"), "big") & ((1 << 50) - 1)
    number = hour << 50 | rest
    return "".join([_ALPHABET_PAIRS[(number >> shift) & 1023] for shift in range(90, -1, -10)])
