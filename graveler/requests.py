"""What the wrappers of both ports share: how many requests were made, how often to try one.

Pure but for a lock; everybody may import this.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class Counts:
    """Requests so far, by verb.  Thread-safe; only ever grows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, int] = {}

    def add(self, verb: str, requests: int = 1) -> None:
        """Count `requests` more of `verb`."""
        if requests:
            with self._lock:
                self._requests[verb] = self._requests.get(verb, 0) + requests

    def snapshot(self) -> Mapping[str, int]:
        """The counts of this moment; later requests do not change what was returned."""
        with self._lock:
            return dict(self._requests)

    def since(self, earlier: Mapping[str, int]) -> Mapping[str, int]:
        """Requests after the snapshot `earlier`; verbs without any are left out."""
        grown = {verb: n - earlier.get(verb, 0) for verb, n in self.snapshot().items()}
        return {verb: n for verb, n in grown.items() if n}

    def total(self) -> int:
        """Requests of all verbs together."""
        with self._lock:
            return sum(self._requests.values())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` tries (the first included), none begun `deadline_seconds` after the first.

    The pause before the second is about `backoff_seconds`; each further pause is twice as long.
    """

    attempts: int = 4
    deadline_seconds: float = 10.0
    backoff_seconds: float = 0.05

    def __post_init__(self) -> None:
        assert self.attempts >= 1, "nothing can be done in no attempt"


# For a store that refuses what exceeds its capacity: 1.5 seconds, within which its units come back.
THROTTLED_STORE: Final = RetryPolicy(attempts=6)
