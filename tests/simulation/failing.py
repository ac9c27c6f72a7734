"""Ports of which the n-th call goes wrong, counted over rows, objects and ranges alike."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from graveler.core.errors import OutcomeUnknown, StorageFull, Unavailable
from graveler.engine.ports import Ports

READS = frozenset(
    ("get", "get_many", "scan", "read", "head", "list", "open_range", "read_metarange")
)


class Killed(BaseException):
    """The process is gone: nothing it calls answers any more."""


class Kind(Enum):
    """What happens to the call."""

    KILLED = "killed before it"
    KILLED_AFTER = "killed after it was applied"
    REFUSED = "not applied, and said so"
    LOST = "not applied, no answer"
    APPLIED = "applied, no answer"
    FULL = "no room"


class Turn:
    """Counts port calls, and breaks the n-th; `reached` tells whether there were so many."""

    def __init__(self, number: int, kind: Kind) -> None:
        self._left = number
        self._kind = kind
        self._dead = False
        self.reached = False

    def call(self, name: str, made: Callable[[], Any]) -> Any:
        if self._dead:
            raise Killed
        self._left -= 1
        if self._left:
            return made()
        self.reached = True
        self._dead = self._kind in (Kind.KILLED, Kind.KILLED_AFTER)
        if self._kind in (Kind.APPLIED, Kind.KILLED_AFTER):
            made()
        raise self._error(name)

    def _error(self, name: str) -> BaseException:
        if self._dead:
            return Killed()
        if name in READS or self._kind is Kind.REFUSED:
            return Unavailable("no answer")
        return StorageFull("full") if self._kind is Kind.FULL else OutcomeUnknown("no answer")


class Port:
    """Passes each call through a turn."""

    def __init__(self, port: Any, turn: Turn) -> None:
        self._port = port
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method
        return lambda *given, **named: self._turn.call(name, lambda: method(*given, **named))


def failing(ports: Ports, turn: Turn) -> Ports:
    """The same ports, of which one call goes wrong."""
    kv: Any = Port(ports.kv, turn)
    blocks: Any = Port(ports.blocks, turn)
    ranges: Any = Port(ports.ranges, turn)
    return replace(ports, kv=kv, blocks=blocks, ranges=ranges)
