"""Lanes: callers that change the same thing in one process take turns, and may share a result.

    a works ──────────► b works for itself, c and d ──────────► e works
      b, c and d arrive   e arrives: it waits for a turn of its own

- A caller shares a result only if the work for it began after the caller arrived.
- Work may offer its result to the callers that wait now, before the result takes effect, and
  confirm the offer when it has.  Such a caller works in its turn, and takes the offer if it finds
  that nothing is left to do.
- If the work raises, one of the callers that wait for its result works next, also for the others.
  Those that have waited longer than their `turn_seconds` work at once, beside each other, but not
  after `Contended` and `Unavailable`.
- A turn is no lock.  If it lasts longer than `turn_seconds` of a caller in the queue, the next turn
  begins beside it.  So a caller that hangs does not stop the queue.
- A caller whose time is over while it waits does its work outside the lane, and must check its
  deadline first.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from graveler.core.errors import Contended, Unavailable

T = TypeVar("T")


class WaitLimits(NamedTuple):
    """How long a caller waits.

    `turn_seconds`: for one turn of another caller.  `remaining`: the seconds that the caller has
    left in all.
    """

    turn_seconds: float
    remaining: Callable[[], float]


class Turn:
    """What work is told about its lane, and tells it."""

    @property
    def offered(self) -> Any:
        """The newest result that was offered to this caller, if it is confirmed; or None."""
        return None

    def offer(self) -> None:
        """Offer the result, which has not taken effect yet, to the callers that wait now."""

    def confirm(self, result: object) -> None:
        """Say that the result has taken effect, after the offer."""

    def take(self) -> Any:
        """Return the offered result, for the caller of this work alone: those that would share its
        result may have come after the offer, so they work themselves."""
        return self.offered


Work = Callable[[Turn], T]
ALONE: Final = Turn()


class Lanes(Protocol):
    """Runs the work of callers of one process."""

    def run(self, key: Hashable, work: Work[T], patience: WaitLimits, *, shares: bool) -> T:
        """The result of `work`, or that of another caller's work on the same key.

        With `shares`, other callers may get the result of `work`; or `work` does not run, and this
        caller gets the result of another one.  Without `shares`, `work` runs once for each call.
        Errors: those of `work`.  Sends no request.
        """
        ...


class FreeLanes:
    """Every caller works at once: for a process with one thread."""

    def run(self, key: Hashable, work: Work[T], patience: WaitLimits, *, shares: bool) -> T:
        return work(ALONE)


FREE: Final = FreeLanes()


class Gate(Protocol):
    """Where one caller waits, once or several times."""

    def wait(self, seconds: float) -> None:
        """Return when the gate is open, or after `seconds`."""
        ...

    def open(self) -> None:
        """Let the caller pass, now or when it comes.  Called once."""
        ...


class _State(Enum):
    WAITING = "waits for a turn, or for the result of its leader"
    WORKING = "works: it has a turn, or its leader failed late"
    ANSWERED = "has the result of its leader"
    OUTSIDE = "has left the lane; perhaps it works outside"


class _Caller(Turn):
    """One call.  `followers`: the callers that wait for its result; it is their `leader`.
    `is_done`: the result is theirs too.  `is_late`: it has waited long for its leader.  `releases`:
    if its work fails, followers that are late work at once."""

    def __init__(
        self, lock: AbstractContextManager[object], lane: "_Lane", gate: Gate, *, shares: bool
    ) -> None:
        self._lock = lock
        self._lane = lane
        self.gate = gate
        self.shares = shares
        self.state = _State.WAITING
        self.leader: _Caller | None = None
        self.followers: list[_Caller] = []
        self.is_done = False
        self.is_late = False
        self.releases = True
        self.result: Any = None
        self.offerer: _Caller | None = None
        self.confirmed: Any = None
        self.has_taken = False

    @property
    def offered(self) -> Any:
        return None if self.offerer is None else self.offerer.confirmed

    def offer(self) -> None:
        with self._lock:
            self.confirmed = None
            for each in self._lane.queue:
                if each.shares:
                    each.offerer = self

    def confirm(self, result: object) -> None:
        self.confirmed = result

    def take(self) -> Any:
        self.has_taken = True
        return self.offered


class _Lane:
    """The callers of one key.

    `callers`: how many are in the lane.  `holder`: the one whose turn it is.  `queue`: those that
    wait for a turn, the longest first; empty if nobody has the turn.  `turn`: how many have begun.
    """

    def __init__(self) -> None:
        self.callers = 0
        self.holder: _Caller | None = None
        self.queue: list[_Caller] = []
        self.turn = 0

    def next_turn(self) -> None:
        """Give the turn to the caller that has waited longest, if there is one."""
        self.turn += 1
        self.holder = self.queue.pop(0) if self.queue else None
        if self.holder is not None:
            self.holder.state = _State.WORKING
            self.holder.gate.open()


class TurnLanes:
    """`Lanes` for the threads of one process.  `lock` guards the lanes, and is never held while
    work runs or a caller waits."""

    def __init__(self, lock: AbstractContextManager[object], make_gate: Callable[[], Gate]) -> None:
        self._lock = lock
        self._make_gate = make_gate
        self._lanes: dict[Hashable, _Lane] = {}

    def __len__(self) -> int:
        """The number of lanes that have a caller."""
        return len(self._lanes)

    def run(self, key: Hashable, work: Work[T], patience: WaitLimits, *, shares: bool) -> T:
        lane, own = self._enter(key, self._make_gate(), shares=shares)
        try:
            self._wait(lane, own, patience)
            if own.state is _State.WORKING and shares:
                self._gather(lane, own)
            if own.state is not _State.ANSWERED:
                try:
                    own.result = work(own)
                except (Contended, Unavailable):
                    own.releases = False
                    raise
                own.is_done = not own.has_taken
            result: T = own.result
            return result
        finally:
            self._leave(key, lane, own)

    def _enter(self, key: Hashable, gate: Gate, *, shares: bool) -> tuple[_Lane, _Caller]:
        with self._lock:
            lane = self._lanes.setdefault(key, _Lane())
            own = _Caller(self._lock, lane, gate, shares=shares)
            lane.callers += 1
            lane.queue.append(own)
            if lane.holder is None:
                lane.next_turn()
            return lane, own

    def _wait(self, lane: _Lane, own: _Caller, patience: WaitLimits) -> None:
        """Return when the caller need not wait any longer; its state says why."""
        while own.state is _State.WAITING:
            turn, leader = lane.turn, own.leader
            own.gate.wait(max(0.0, min(patience.turn_seconds, patience.remaining())))
            with self._lock:
                own.is_late = leader is not None and own.leader is leader
                self._look_up(lane, own, turn, patience)

    def _look_up(self, lane: _Lane, own: _Caller, turn: int, patience: WaitLimits) -> None:
        """What a caller does that has waited since `turn` began, or longer."""
        if own.state is not _State.WAITING:
            return
        if patience.remaining() <= 0:
            self._step_out(lane, own)
        elif own.leader is None and lane.turn == turn:
            lane.next_turn()

    def _gather(self, lane: _Lane, own: _Caller) -> None:
        """Take on the callers that wait now, and not those that come later: what they did before
        they came may be missing in the result."""
        with self._lock:
            own.followers = [each for each in lane.queue if each.shares]
            lane.queue = [each for each in lane.queue if not each.shares]
            for each in own.followers:
                each.leader = own

    def _leave(self, key: Hashable, lane: _Lane, own: _Caller) -> None:
        with self._lock:
            self._step_out(lane, own)
            followers = [each for each in own.followers if each.state is _State.WAITING]
            own.followers, own.offerer = [], None
            for each in followers:
                each.leader = None
                if own.is_done:
                    each.state, each.result = _State.ANSWERED, own.result
                    each.gate.open()
            if not own.is_done:
                self._let_go(lane, followers, at_once=own.releases)
            if lane.holder is own or lane.holder is None:
                lane.next_turn()
            lane.callers -= 1
            if not lane.callers:
                del self._lanes[key]

    def _let_go(self, lane: _Lane, followers: list[_Caller], *, at_once: bool) -> None:
        """What the callers do whose leader has failed."""
        late = [each for each in followers if each.is_late and at_once]
        lane.queue[:0] = [each for each in followers if each not in late]
        for each in late:
            each.state = _State.WORKING
            each.gate.open()

    def _step_out(self, lane: _Lane, own: _Caller) -> None:
        own.state = _State.OUTSIDE
        if own in lane.queue:
            lane.queue.remove(own)
