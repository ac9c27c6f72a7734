"""What an identity provider publishes at a URL: its keys, where its endpoints are.

A document counts for an hour, and is read again before if it lacks what is asked for: at most once
in 30 seconds, whatever is asked.  If the URL does not answer, the last document counts for a day.

One thread reads.  Only while no document is known, others wait for it, few of them: callers need no
valid credentials to ask for a document, and the threads that wait serve all requests.

Thread-safe.  For jwks.py and codes.py.
"""

import threading
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

from graveler import limits
from graveler.clock import Clock
from graveler.errors import GravelerError, Unavailable
from graveler.records import ABSENT, Absent

T = TypeVar("T")


class ProviderDocument(Generic[T]):
    """The newest document that `read` gave."""

    def __init__(self, name: str, read: Callable[[], T], clock: Clock) -> None:
        """`name`: of the document, for errors.  `read` raises `GravelerError`."""
        self._name = name
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(limits.key_set_waiting_max)
        self._document: T | Literal[Absent.ABSENT] = ABSENT
        self._failure = ""
        self._read_at = self._tried_at = float("-inf")

    def must_read(self, has: Callable[[T], bool]) -> bool:
        """Whether `current` reads, or waits for the thread that does."""
        document = self._document
        if document is ABSENT:
            return True
        counts = self._age() < limits.key_set_seconds_max and has(document)
        return not counts and self._is_due()

    def current(self, has: Callable[[T], bool] = lambda _: True) -> T:
        """The document, which need not have what `has` looks for.  Raises `Unavailable` if none
        counts, or if too many threads wait for the first one."""
        if self.must_read(has):
            self._refresh()
        document = self._document
        if document is ABSENT or self._age() >= limits.key_set_stale_seconds_max:
            raise Unavailable(
                f"{self._name} of the identity provider not known; try again: "
                + (self._failure or "another request is reading it")
            )
        return document

    def _refresh(self) -> None:
        """Read the document, or wait for the thread that does if there is no other."""
        if self._lock.acquire(blocking=False):
            try:
                self._read_if_due()
            finally:
                self._lock.release()
        elif self._document is ABSENT and self._waiting.acquire(blocking=False):
            try:
                with self._lock:
                    self._read_if_due()
            finally:
                self._waiting.release()

    def _read_if_due(self) -> None:
        if not self._is_due():  # another thread has tried meanwhile
            return
        self._tried_at = self._clock.steady_seconds()
        try:
            document = self._read()
        except GravelerError as error:
            self._failure = str(error)  # the document that is known counts on
            return
        # In this order: a document that others see has its time.
        self._read_at = self._clock.steady_seconds()
        self._document = document

    def _age(self) -> float:
        return self._clock.steady_seconds() - self._read_at

    def _is_due(self) -> bool:
        return self._clock.steady_seconds() - self._tried_at >= limits.key_set_retry_seconds
