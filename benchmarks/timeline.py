"""Virtual time: runs the real verbs of many clients one after another as if they ran concurrently.

Each client is a greenlet.  A client that waits yields to the client that is due next, and time
jumps to that moment.  So a minute of a thousand clients takes seconds, and the same seed gives the
same run.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

from greenlet import getcurrent, greenlet

A = TypeVar("A")
B = TypeVar("B")

_START_NS = 1_700_000_000 * 1_000_000_000
FANOUT = 16  # concurrent calls, as in production (assembly/)


class Timeline:
    """A queue of greenlets by due time.  `now`: seconds since the beginning."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, greenlet]] = []
        self._serial = 0
        self._hub = getcurrent()

    def spawn(self, function: Callable[[], object], delay: float = 0.0) -> None:
        """Run `function` after `delay` seconds."""
        self._push(greenlet(function, self._hub), delay)

    def sleep(self, seconds: float) -> None:
        """Pause the caller for `seconds`; other greenlets run meanwhile."""
        self._push(getcurrent(), seconds)
        self._hub.switch()

    def give_way(self) -> None:
        """Pause the caller until another greenlet wakes it."""
        self._hub.switch()

    def wake(self, run: greenlet) -> None:
        """Resume a greenlet that called `give_way`."""
        self._push(run, 0.0)

    def run(self, until: float) -> None:
        """Run until no greenlet is due before `until`."""
        self._hub = getcurrent()
        while self._due and self._due[0][0] <= until:
            self.now, _, run = heapq.heappop(self._due)
            run.switch()
        self.now = until

    def _push(self, run: greenlet, delay: float) -> None:
        self._serial += 1
        heapq.heappush(self._due, (self.now + max(0.0, delay), self._serial, run))


class TimelineClock:
    """A `Clock` that follows a timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._looks = 0

    def now_ns(self) -> int:
        self._looks += 1  # two calls never return the same time
        return _START_NS + int(self._timeline.now * 1e9) + self._looks % 1_000

    def steady_seconds(self) -> float:
        return self._timeline.now

    def sleep(self, seconds: float) -> None:
        self._timeline.sleep(seconds)


class TimelineFanout:
    """A `Fanout` with 16 concurrent calls."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        todo = list(enumerate(items))
        found: dict[int, B] = {}
        errors: list[Exception] = []
        running = [min(FANOUT, len(todo))]
        waiting = getcurrent()
        rest = iter(todo)

        def work() -> None:
            for number, item in rest:
                try:
                    found[number] = function(item)
                except Exception as error:
                    errors.append(error)
            running[0] -= 1
            if not running[0]:
                self._timeline.wake(waiting)

        for _ in range(running[0]):
            self._timeline.spawn(work)
        if running[0]:
            self._timeline.give_way()
        if errors:
            raise errors[0]
        return [found[number] for number, _ in todo]


__all__ = ["Timeline", "TimelineClock", "TimelineFanout"]
