"""Keeps store calls from blocking threads that must not wait, such as an event loop's thread.

After `store.forbid_waiting(thread)` a call of this thread answers at once, or raises `WouldWait`:
nothing was done, and the caller repeats the call on another thread.
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
        do anything that takes long.

        A key-value store refuses to scan, to write, and to read a row that is not durable yet.  A
        range store refuses to open a table and to decode a metarange."""
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
            raise WouldWait("the call would wait on a thread that must not")
