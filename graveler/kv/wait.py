"""Keeps store calls from blocking threads that must not wait, such as an event loop's thread.

    store.forbid_waiting(thread)      calls of this thread now answer at once, or raise `WouldWait`

A store offers this if it knows before a call whether the call would wait (for a sync, or for a
scan).  Other stores simply wait.  `WouldWait` is not a failure: nothing was done, and the caller
repeats the call on another thread.  For drivers and the service.
"""

import threading
from typing import Protocol, runtime_checkable


class WouldWait(Exception):
    """The call would wait, on a thread that must not wait."""


@runtime_checkable
class Prompt(Protocol):
    """A store that can keep chosen threads from waiting."""

    def forbid_waiting(self, thread: int) -> None:
        """From now on, calls of this thread (`threading.get_ident`) raise `WouldWait` before they
        do anything, if they scan, write, or read a row that is not durable yet."""
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

    def check(self) -> None:
        """Raises `WouldWait` if the current thread must not wait."""
        if threading.get_ident() in self._threads:
            raise WouldWait("kv: the call would wait on a thread that must not")
