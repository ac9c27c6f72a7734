"""Turns of threads that tell which threads wait in them."""

import threading
from collections.abc import Callable

from graveler.core.turns import Gate, ThreadTurns


class WatchedTurns:
    """`turns`, and the names of all threads that have `waited` in them."""

    def __init__(self, make_gate: Callable[[], Gate] = threading.Event) -> None:
        self.waited: set[str] = set()
        self.turns = ThreadTurns(threading.Lock(), lambda: _Watched(make_gate(), self.waited))


class _Watched:
    """A `Gate`."""

    def __init__(self, gate: Gate, waited: set[str]) -> None:
        self._gate = gate
        self._waited = waited
        self.set = gate.set

    def wait(self, timeout: float) -> None:
        self._waited.add(threading.current_thread().name)
        self._gate.wait(timeout)
