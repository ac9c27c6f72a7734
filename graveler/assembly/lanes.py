"""Lanes for the threads of this process."""

import threading

from graveler.lanes import TurnLanes


class ThreadGate:
    """A `Gate` at which a thread sleeps."""

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()

    def wait(self, seconds: float) -> None:
        self._closed.acquire(timeout=seconds)

    def open(self) -> None:
        self._closed.release()


def thread_lanes() -> TurnLanes:
    """The lanes of one open store."""
    return TurnLanes(threading.Lock(), ThreadGate)
