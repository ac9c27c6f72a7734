"""Turns: callers that change the same thing in one process work one after the other.

    a works ──────────► b leads, c and d follow ──────────► e works
      b, c and d arrive   e arrives: its turn comes later

A turn is no lock: if one lasts too long, the next one begins beside it.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from graveler.core.errors import HookFailed

R = TypeVar("R")
T = TypeVar("T")


def never(first: Any, more: Any) -> None:
    """Unites no requests: each caller works for itself."""


class Call(NamedTuple, Generic[R, T]):
    """What one caller asks for.

    `work`: answers a request.  `unite`: the request that asks for what both ask for, or None if
    each of them needs work of its own; pure.  Only callers with the same function share work.
    `before_waiting`: is called if another caller works.
    """

    work: Callable[[R], T]
    request: R
    unite: Callable[[R, R], R | None] = never
    before_waiting: Callable[[], None] = lambda: None


class WaitLimits(NamedTuple):
    """How long a caller waits.

    `turn_seconds`: for one turn of another caller.  `remaining`: the seconds that the caller has
    left in all.
    """

    turn_seconds: float
    remaining: Callable[[], float]


class Turns(Protocol):
    """Runs the work of callers of one process."""

    def run(self, key: Hashable, call: Call[R, T], limits: WaitLimits) -> T:
        """The result of `call.work`, or that of a leader.

        - The work begins when the turns of the callers before have ended, the longest waiting
          first.  It begins earlier, beside them, if one turn lasts longer than `turn_seconds`, or
          if the caller's time is over; so the work checks its deadline first.
        - The caller whose turn begins leads those that wait, as far as their requests unite: it
          works for all of them, and its result is theirs.  A caller that comes later never gets
          this result.
        - Errors are not shared.  If the leader fails, its followers wait for a turn again, before
          all others.  After `HookFailed`, which one request of several may have caused, the leader
          and each follower work for themselves.

        Errors: those of the work.  Sends no request.
        """
        ...


class FreeTurns:
    """Every caller works at once: for a process with one thread."""

    def run(self, key: Hashable, call: Call[R, T], limits: WaitLimits) -> T:
        return call.work(call.request)


FREE: Final = FreeTurns()


class Gate(Protocol):
    """Where one caller waits: a `threading.Event`, or a simulated one."""

    def wait(self, timeout: float) -> object:
        """Return when the gate is open, or after `timeout` seconds."""
        ...

    def set(self) -> None:
        """Open the gate, for good."""
        ...


class _State(Enum):
    WAITING = auto()  # for a turn, or for the result of its leader
    WORKING = auto()  # in its turn
    ANSWERED = auto()  # with the result of its leader
    OUTSIDE = auto()  # its time is over, or its call ends


class _Caller:
    """One call.  `alone`: it neither leads nor follows any more."""

    def __init__(self, call: Call[Any, Any], gate: Gate) -> None:
        self.call = call
        self.gate = gate
        self.state = _State.WAITING
        self.leader: _Caller | None = None
        self.followers: list[_Caller] = []
        self.alone = False
        self.result: Any = None

    def go(self, state: _State) -> None:
        self.state = state
        self.gate.set()


class _Line:
    """The callers of one key.

    `callers`: how many are here.  `holder`: the one whose turn it is.  `waiting`: those that wait
    for a turn, the longest first.  `turn`: how many turns have begun.
    """

    def __init__(self) -> None:
        self.callers = 0
        self.holder: _Caller | None = None
        self.waiting: list[_Caller] = []
        self.turn = 0

    def next_turn(self) -> None:
        self.turn += 1
        self.holder = self.waiting.pop(0) if self.waiting else None
        if self.holder is not None:
            self.holder.go(_State.WORKING)

    def dismiss(self, leader: _Caller, *, alone: bool = False) -> None:
        """Send the followers of a leader back to the front of the line."""
        followers = [each for each in leader.followers if each.state is _State.WAITING]
        leader.followers = []
        self.waiting[:0] = followers
        for follower in followers:
            follower.leader, follower.alone = None, alone


class ThreadTurns:
    """`Turns` for the threads of one process.  `lock` is never held while work runs or a caller
    waits."""

    def __init__(self, lock: AbstractContextManager[object], make_gate: Callable[[], Gate]) -> None:
        self._lock = lock
        self._make_gate = make_gate
        self._lines: dict[Hashable, _Line] = {}

    def __len__(self) -> int:
        """The number of keys that have a caller."""
        return len(self._lines)

    def run(self, key: Hashable, call: Call[R, T], limits: WaitLimits) -> T:
        own = _Caller(call, self._make_gate())
        line = self._enter(key, own)
        try:
            if own.state is _State.WAITING:
                call.before_waiting()
            while own.state is _State.WAITING:
                self._wait(line, own, limits)
            if own.state is not _State.ANSWERED:
                own.result = self._work(line, own)
            result: T = own.result
            return result
        finally:
            self._leave(key, line, own)

    def _enter(self, key: Hashable, own: _Caller) -> _Line:
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            line.callers += 1
            line.waiting.append(own)
            if line.holder is None:
                line.next_turn()
            return line

    def _wait(self, line: _Line, own: _Caller, limits: WaitLimits) -> None:
        turn, leader = line.turn, own.leader
        own.gate.wait(max(0.0, min(limits.turn_seconds, limits.remaining())))
        with self._lock:
            if own.state is not _State.WAITING:
                return
            if limits.remaining() <= 0:
                self._step_out(line, own)
            elif leader is own.leader is None and line.turn == turn:
                line.next_turn()

    def _work(self, line: _Line, own: _Caller) -> Any:
        request = own.call.request if own.alone else self._lead(line, own)
        try:
            result = own.call.work(request)
        except HookFailed:
            if not own.followers:
                raise
            with self._lock:
                line.dismiss(own, alone=True)
            result = own.call.work(own.call.request)
        with self._lock:
            for follower in own.followers:
                if follower.state is _State.WAITING:
                    follower.result = result
                    follower.go(_State.ANSWERED)
        return result

    def _lead(self, line: _Line, own: _Caller) -> Any:
        """Take on those that wait now, and none that comes later: what they did before they came
        may be missing in the result.  The request of all of them."""
        request = own.call.request
        with self._lock:
            for each in line.waiting[:] if own.state is _State.WORKING else ():
                if each.alone or each.call.unite is not own.call.unite:
                    continue
                united = own.call.unite(request, each.call.request)
                if united is not None:
                    request = united
                    line.waiting.remove(each)
                    own.followers.append(each)
                    each.leader = own
        return request

    def _leave(self, key: Hashable, line: _Line, own: _Caller) -> None:
        with self._lock:
            self._step_out(line, own)
            line.dismiss(own)
            if line.holder is own or line.holder is None:
                line.next_turn()
            line.callers -= 1
            if not line.callers:
                del self._lines[key]

    def _step_out(self, line: _Line, own: _Caller) -> None:
        own.state = _State.OUTSIDE
        if own in line.waiting:
            line.waiting.remove(own)
