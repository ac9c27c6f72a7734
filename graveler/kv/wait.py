"""Keeps store calls from blocking threads that must not wait, such as an event loop's thread.

    store.forbid_waiting(thread)      calls of this thread now answer at once, or raise `WouldWait`

A store offers this if it knows before a call whether the call would wait (for a sync, or for a
long scan).  Other stores simply wait.  `WouldWait` is not a failure: nothing was done, and the
caller repeats the call on another thread.  For drivers and the service.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, runtime_checkable

ROWS_MAX: Final = 128  # of a scan on such a thread: it takes about 0.1 ms


class WouldWait(Exception):
    """The call would wait, on a thread that must not wait."""


@runtime_checkable
class Prompt(Protocol):
    """A store that can keep chosen threads from waiting."""

    def forbid_waiting(self, thread: int) -> None:
        """From now on, calls of this thread (`threading.get_ident`) raise `WouldWait` before they
        do anything, if they write, or read a row that is not durable yet.  So do scans that ask for
        more than `ROWS_MAX` rows, or that step over as many removed ones."""
        ...

    def allow_waiting(self, thread: int) -> None:
        """Let this thread wait again."""
        ...


class PromptThreads:
    """The set of threads that a driver keeps from waiting."""

    def __init__(self) -> None:
        self._threads: frozenset[int] = frozenset()

    def add(self, thread: int) -> None:
        self._threads |= {thread}

    def discard(self, thread: int) -> None:
        self._threads -= {thread}

    @property
    def is_here(self) -> bool:
        """Whether the current thread must not wait."""
        return threading.get_ident() in self._threads

    def steps_max(self, count: int) -> int:
        """How many removed rows a scan for `count` rows may step over; 0: no limit.  Raises
        `WouldWait` for more than `ROWS_MAX` rows, if the current thread must not wait."""
        if not self.is_here:
            return 0
        if count > ROWS_MAX:
            self.check()
        return ROWS_MAX

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock in the block.  Raises `WouldWait` instead of waiting for it, if the current
        thread must not wait."""
        if not lock.acquire(blocking=not self.is_here):
            self.check()
        try:
            yield
        finally:
            lock.release()

    def check(self) -> None:
        """Raises `WouldWait` if the current thread must not wait."""
        if self.is_here:
            raise WouldWait("kv: the call would wait on a thread that must not")
