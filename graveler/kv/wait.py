"""Keeps store calls from blocking threads that must not wait, such as an event loop's thread.

    store.forbid_waiting(thread)      calls of this thread now answer at once, or raise `WouldWait`

A store offers this if it knows before a call whether the call would take long (a sync, a scan, a
table that it has to open or decode).  Other stores simply wait.  `WouldWait` is not a failure:
nothing was done, and the caller repeats the call on another thread.  For drivers, the range store
and the service.
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
