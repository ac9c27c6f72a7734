"""Request counters and retry policies, shared by the wrappers of both ports (kv/ and block/).

Pure, except for a lock; every module may import this.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Counts:
    """Counts requests by verb.  Thread-safe; the counts never decrease."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, int] = {}

    def add(self, verb: str, requests: int = 1) -> None:
        """Add `requests` to the count of `verb`."""
        if requests:
            with self._lock:
                self._requests[verb] = self._requests.get(verb, 0) + requests

    def snapshot(self) -> Mapping[str, int]:
        """A copy of the present counts; later requests do not change it."""
        with self._lock:
            return dict(self._requests)

    def since(self, earlier: Mapping[str, int]) -> Mapping[str, int]:
        """The requests since the snapshot `earlier`, without verbs that have none."""
        grown = {verb: n - earlier.get(verb, 0) for verb, n in self.snapshot().items()}
        return {verb: n for verb, n in grown.items() if n}

    def total(self) -> int:
        """Requests of all verbs together."""
        with self._lock:
            return sum(self._requests.values())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff: at most `attempts` attempts, the first included.

    No attempt begins `deadline_seconds` or later after the first.  The pause before the second
    attempt is about `backoff_seconds`; each further pause is twice as long.
    """

    attempts: int = 4
    deadline_seconds: float = 10.0
    backoff_seconds: float = 0.05

    def __post_init__(self) -> None:
        assert self.attempts >= 1, "nothing can be done in no attempt"


# For a store that refuses requests above its capacity.  The pauses add up to 1.5 seconds; within
# that time the capacity units are available again.
THROTTLED_STORE: Final = RetryPolicy(attempts=6)
