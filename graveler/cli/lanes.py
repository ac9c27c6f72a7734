"""Sends small requests from one thread, several at a time, each on a connection of its own.

    send ──► a lane is free ──► the request goes; its answer is awaited
               ▲
               └── none is: the answers that came are read, each ends its item

A thread for each request would cost more than the request: the threads of Python take turns.
Bodies must be small, because a send that waits for the network delays the other lanes.  For
transfer.py.
"""

import select
from collections.abc import Callable
from typing import Final, NamedTuple

from graveler.cli.tally import Interrupted, Tally
from graveler.client.connections import PendingAnswer
from graveler.clock import Clock
from graveler.errors import GravelerError, Unauthenticated

_LOOK_MS: Final = 100
_PATIENCE_SECONDS: Final = 60.0


class PendingItem(NamedTuple):
    """A request that was sent.  `finish` reads its answer, and raises the error of the item."""

    begun: PendingAnswer
    finish: Callable[[], None]


class _Lane(NamedTuple):
    """A request whose answer is awaited until `end`, in steady seconds."""

    name: str
    sent: PendingItem
    end: float


class Lanes:
    """The requests that are under way, at most `count`.  What fails is in the tally."""

    def __init__(self, count: int, clock: Clock, tally: Tally) -> None:
        self._count, self._clock, self._tally = count, clock, tally
        self._lanes: dict[int, _Lane] = {}
        self._poll = select.poll()

    def send(self, name: str, begin: Callable[[], PendingItem | None]) -> None:
        """Wait for a lane, and begin an item.  An error of an item is one of the tally; raises
        `Unauthenticated`, because every other item would fail as well."""
        self._wait(self._count - 1)
        sent: PendingItem | None = None
        try:
            sent = begin()
        except Unauthenticated:
            raise
        except (GravelerError, OSError) as error:
            self._tally.failed(name, error)
        if sent is not None:
            number = sent.begun.fileno()
            self._lanes[number] = _Lane(
                name, sent, self._clock.steady_seconds() + _PATIENCE_SECONDS
            )
            self._poll.register(number, select.POLLIN)

    def finish(self) -> None:
        """Wait for all answers.  Raises as `send`."""
        self._wait(0)

    def close(self) -> None:
        """Give up what is under way."""
        for lane in self._lanes.values():
            lane.sent.begun.give_up()
        self._lanes.clear()

    def _wait(self, count: int) -> None:
        """Read answers until at most `count` requests are under way."""
        while len(self._lanes) > count and not self._tally.stop.is_set():
            ready = self._poll.poll(_LOOK_MS)
            for number, _ in ready:
                self._end(number)
            if not ready:
                self._give_up_late()

    def _end(self, number: int) -> None:
        self._poll.unregister(number)
        lane = self._lanes.pop(number)
        try:
            lane.sent.finish()
        except Interrupted:
            return
        except Unauthenticated:
            raise
        except (GravelerError, OSError) as error:
            self._tally.failed(lane.name, error)

    def _give_up_late(self) -> None:
        now = self._clock.steady_seconds()
        for number in [number for number, lane in self._lanes.items() if lane.end < now]:
            self._poll.unregister(number)
            lane = self._lanes.pop(number)
            self._tally.failed(lane.name, lane.sent.begun.give_up())
