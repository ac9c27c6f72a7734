"""Lanes of threads that tell which threads wait in them."""

import threading
from collections.abc import Callable

from graveler.assembly.drivers import ThreadGate
from graveler.core.lanes import TurnLanes


class WatchedLanes:
    """`lanes`, and the names of all threads that have `waited` in them."""

    def __init__(self, make_gate: Callable[[], ThreadGate] = ThreadGate) -> None:
        self.waited: set[str] = set()
        self.lanes = TurnLanes(threading.Lock(), lambda: _Watched(make_gate(), self.waited))


class _Watched:
    """A `Gate`."""

    def __init__(self, gate: ThreadGate, waited: set[str]) -> None:
        self._gate = gate
        self._waited = waited
        self.open = gate.open

    def wait(self, seconds: float) -> None:
        self._waited.add(threading.current_thread().name)
        self._gate.wait(seconds)
