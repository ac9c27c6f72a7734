"""Threads that must not wait, such as that of an event loop.

    store.forbid_waiting(thread)      its calls now answer at once, or raise `WouldWait`

A store that can tell beforehand whether a call would wait (for a sync, or for a scan) offers this;
the others wait.  `WouldWait` is no failure: nothing was done, and the same call on another thread
is right.  For drivers and the service.
"""

import threading
from typing import Protocol, runtime_checkable


class WouldWait(Exception):
    """The call would wait, on a thread that must not."""


@runtime_checkable
class Prompt(Protocol):
    """A store that keeps threads from waiting."""

    def forbid_waiting(self, thread: int) -> None:
        """From now on calls of this thread (`threading.get_ident`) that scan, write, or read what
        is not durable yet raise `WouldWait`, before anything is done."""
        ...

    def allow_waiting(self, thread: int) -> None:
        """The opposite."""
        ...


class PromptThreads:
    """The threads that a driver keeps from waiting."""

    def __init__(self) -> None:
        self._threads: frozenset[int] = frozenset()

    def add(self, thread: int) -> None:
        self._threads |= {thread}

    def discard(self, thread: int) -> None:
        self._threads -= {thread}

    def check(self) -> None:
        """Raises `WouldWait` on such a thread."""
        if threading.get_ident() in self._threads:
            raise WouldWait("kv: the call would wait on a thread that must not")
