"""The scheduler: simulated clients, interleaved and disturbed by choices that can be replayed.

Each client runs production verbs on its own greenlet.  Every call of a port is one step: it calls
`World.pause`, which switches to the client that is chosen to run next.  Faults are chosen too:

- a client is killed;
- a caller gives up while its call continues (a zombie);
- time jumps;
- an answer is lost;
- a delayed write arrives.

The choices come from a `Choices`: drawn from a seed (here), or enumerated (exhaustive.py).  A run
is a pure function of program and choices.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import log
from random import Random
from typing import Any, Literal, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from graveler.core.errors import GravelerError
from graveler.core.ids import BranchId
from graveler.core.records import Versioned
from graveler.kv.store import Row

NEVER = 1 << 60  # the end of a call that was not acknowledged
STEP_NS = 1_000_000
STEPS_MAX = 20_000  # of one run
JUMP_NS = 65 * 60 * 1_000_000_000  # longer than rows of old tokens are kept
Rows = dict[bytes, dict[bytes, Row]]
Scheduler = Literal["uniform", "pct", "sticky"]
Perform = Callable[["Actor", "Call"], Any]
Breach = Callable[[str, Any, "World"], Any]  # name of a port, the port: what clients get for it


class Event(Enum):
    """An event before a step."""

    NOTHING = "nothing"
    KILL = "kill"
    ZOMBIE = "zombie"
    JUMP = "jump"


class Fault(Enum):
    """A fault of a write."""

    NONE = "none"
    LOST = "lost"  # not applied, no answer
    APPLIED = "applied"  # applied, no answer
    DECLINED = "declined"  # applied, reported as a failed condition; of a batch, half is applied
    LATE = "late"  # no answer; applied at a later step


@dataclass(frozen=True, slots=True)
class Profile:
    """The probability of each fault per step (`stale`: per read of a cache)."""

    name: str = "clean"
    kill: float = 0.0
    zombie: float = 0.0
    write_fault: float = 0.0
    delayed: float = 0.0
    jump: float = 0.0
    stale: float = 0.7
    scheduler: Scheduler = "uniform"


@dataclass(slots=True)
class Call:
    """One call of a verb by a client, and its result.  Times are in steps."""

    client: int
    verb: str
    arguments: tuple[Any, ...] = ()
    branch: str = "main"
    start: int = NEVER
    end: int = NEVER
    answer: Any = None
    error: Exception | None = None

    @property
    def acknowledged(self) -> bool:
        return self.end != NEVER and self.error is None


_UNBORN = greenlet()


@dataclass(slots=True, eq=False)
class Actor:
    """A greenlet and the calls that it makes one after another."""

    client: int
    calls: list[Call]
    at: int = 0
    zombie: bool = False
    priority: float = 0.0
    run: greenlet = _UNBORN


class Choices(Protocol):
    """Everything in a run that the program does not determine."""

    def quiet(self) -> int:
        """How many steps pass before the next `event`."""
        ...

    def event(self) -> Event:
        """The event for the actor that is about to step, or for time."""
        ...

    def actor(self, alive: Sequence[Actor], current: Actor | None) -> Actor:
        """The actor that steps next.  `current`: the actor that stepped last, if it is alive."""
        ...

    def fault(self) -> Fault:
        """The fault of a write."""
        ...

    def portion(self, count: int) -> list[bool]:
        """Which writes of a broken batch are applied."""
        ...

    def age(self, count: int) -> int:
        """Which of the last `count` records a cache answers: 0 none, 1 the newest, 2 the one
        before, …"""
        ...

    def arrival(self, count: int) -> int:
        """Which of `count` delayed writes arrives now; -1: none."""
        ...


def faithful(_name: str, port: Any, _world: "World") -> Any:
    """The `Breach` that breaks nothing."""
    return port


class World:
    """The state that all clients share: rows, time, and which client runs.

    Every port of a client passes `port`, so that a test can put one in its place that breaks a
    rule."""

    def __init__(self, rows: Rows, choices: Choices, breach: Breach = faithful) -> None:
        self._breach = breach
        self.rows = {partition: keys.copy() for partition, keys in rows.items()}
        self._sorted: dict[bytes, list[bytes]] = {}  # the keys of partitions that were scanned
        self.choices = choices
        self._actor = choices.actor
        self.step = 0
        self.step_ns = STEP_NS
        self.jumped_ns = 0
        self.serial = 0
        self.late: list[Callable[[], object]] = []
        self.past: dict[BranchId, list[Versioned]] = {}
        self.watches: list[Callable[[bytes, bytes, Row | None], None]] = []
        self.processes = 0  # client n runs in process n modulo this; 0: in one of its own
        self.faults = 0
        self.trace = 0
        self.alone = True  # no other client steps, and no fault occurs
        self._over = False
        self._hub = getcurrent()
        self._alive: list[Actor] = []
        self._killed: list[Actor] = []
        self._current: Actor | None = None
        self._quiet = 0
        self._perform: Perform = _nothing

    # ---- rows ----

    def put(self, partition: bytes, key: bytes, row: Row) -> None:
        held = self.rows.get(partition)
        if held is None:
            held = self.rows[partition] = {}
        if key not in held and partition in self._sorted:
            insort(self._sorted[partition], key)
        held[key] = row
        for watch in self.watches:
            watch(partition, key, row)

    def drop(self, partition: bytes, key: bytes) -> None:
        if self.rows.get(partition, {}).pop(key, None) is not None:
            self._sorted.pop(partition, None)
            for watch in self.watches:
                watch(partition, key, None)

    def keys(self, partition: bytes) -> list[bytes]:
        """The keys of a partition, in order.  The caller must not change the list."""
        known = self._sorted.get(partition)
        if known is None:
            known = self._sorted[partition] = sorted(self.rows.get(partition, ()))
        return known

    def port(self, name: str, port: Any) -> Any:
        """What a client gets for a port of this name."""
        return self._breach(name, port, self)

    # ---- running ----

    @property
    def client(self) -> int:
        """The client that steps; -1 if none does."""
        return -1 if self._current is None else self._current.client

    def pause(self) -> None:
        """One step: the calling client continues when it is chosen."""
        self.step += 1
        if self.step > STEPS_MAX:
            raise AssertionError(f"no end in sight after {STEPS_MAX} steps")
        if self.alone:
            return
        if self._over:
            raise GreenletExit
        current = self._current
        chosen: Actor | None
        if self._quiet > 0 and not self.late:
            # Only the next actor is chosen here.  If the same actor continues, no switch is needed.
            self._quiet -= 1
            chosen = self._actor(self._alive, current)
            self._take(chosen)
        else:
            chosen = self._choose(current)
        if chosen is current:
            return
        if chosen is None:
            self._hub.switch()
        else:
            chosen.run.switch()

    def play(self, clients: Sequence[Sequence[Call]], perform: Perform) -> None:
        """Run all calls of all clients to their end, or until the client is killed."""
        self.alone, self._perform, self._hub = False, perform, getcurrent()
        for calls in clients:
            if calls:
                self._born(Actor(calls[0].client, list(calls)))
        self._quiet = self.choices.quiet()
        while self._alive:
            self._current = None
            chosen = self._choose(None)
            if chosen is not None:
                chosen.run.switch()  # returns when an actor has ended
        self._bury()
        self._perform = _nothing
        while self.late:
            self.step += 1
            self.late.pop(0)()

    def _born(self, actor: Actor) -> None:
        actor.run = greenlet(partial(self._live, actor), self._hub)
        actor.priority = 0.1 * len(self._alive)
        self._alive.append(actor)

    def _bury(self) -> None:
        """End the killed greenlets.  Otherwise Python's garbage collector would resume them."""
        self._over = True
        for actor in self._killed:
            if actor.run:
                actor.run.throw(GreenletExit)
        self._over, self.alone = False, True

    def _choose(self, current: Actor | None) -> Actor | None:
        """The actor that steps next, after the events of this step; None if no actor is left."""
        choices, alive = self.choices, self._alive
        if self.late:
            index = choices.arrival(len(self.late))
            if index >= 0:
                self.late.pop(index)()
        chosen = choices.actor(alive, current)
        if self._quiet > 0:
            self._quiet -= 1
        else:
            event = choices.event()
            self._quiet = choices.quiet()
            if event is Event.JUMP:
                self.jumped_ns += JUMP_NS
            elif event is Event.KILL and chosen.run:
                self._kill(chosen)
                if not alive:
                    return None
                chosen = choices.actor(alive, current if current in alive else None)
            elif event is Event.ZOMBIE and chosen.run and not chosen.zombie:
                self._abandon(chosen)
        self._take(chosen)
        return chosen

    def _kill(self, chosen: Actor) -> None:
        """End the process of the actor: no client in it makes another step."""
        self.faults += 1
        doomed = [chosen]
        if self.processes:
            process = chosen.client % self.processes
            doomed = [each for each in self._alive if each.client % self.processes == process]
        for actor in doomed:
            self._alive.remove(actor)
            self._killed.append(actor)

    def _take(self, chosen: Actor) -> None:
        """Give the turn to the actor."""
        self._current = chosen
        self.trace = (self.trace * 1_000_003 + chosen.client + 1) & 0xFFFFFFFFFFFFFFFF

    def _abandon(self, actor: Actor) -> None:
        """The client gives up its present call and continues with the next one; the call itself
        continues."""
        self.faults += 1
        actor.zombie = True
        rest = actor.calls[actor.at + 1 :]
        del actor.calls[actor.at + 1 :]
        if rest:
            self._born(Actor(actor.client, rest))

    def _live(self, actor: Actor) -> None:
        while actor.at < len(actor.calls):
            call = actor.calls[actor.at]
            call.start = self.step
            error: Exception | None = None
            answer = None
            try:
                answer = self._perform(actor, call)
            except Exception as raised:
                error = without_frames(raised)
            if not actor.zombie:
                call.answer, call.error, call.end = answer, error, self.step
            actor.at += 1
            if actor.at < len(actor.calls):
                self.pause()
        self._alive.remove(actor)


def without_frames(error: Exception) -> Exception:
    """Remove the tracebacks of a `GravelerError`, because their frames would keep the run alive
    until the garbage collector comes.  Other errors keep them, because they show where the mistake
    is."""
    part: BaseException | None = error
    seen: list[BaseException] = []  # an error that was raised again may refer to itself
    while isinstance(part, GravelerError) and part not in seen:
        seen.append(part)
        part.__traceback__ = None
        part = part.__cause__ or part.__context__
    return error


class SeededChoices:
    """`Choices` drawn from a seed with the probabilities of a profile."""

    def __init__(self, random: Random, profile: Profile) -> None:
        self._random = random
        self._draw = random.random
        self._profile = profile
        self._events = profile.kill + profile.zombie + profile.jump
        self._faults = profile.write_fault + profile.delayed
        self._scheduler = profile.scheduler

    def quiet(self) -> int:
        if not self._events:
            return NEVER
        return int(-log(1.0 - self._draw()) / self._events)  # exponentially distributed

    def event(self) -> Event:
        drawn = self._draw() * self._events
        if drawn < self._profile.kill:
            return Event.KILL
        return Event.ZOMBIE if drawn < self._profile.kill + self._profile.zombie else Event.JUMP

    def actor(self, alive: Sequence[Actor], current: Actor | None) -> Actor:
        if self._scheduler == "pct":
            return self._pct(alive, current)
        if current is not None and self._scheduler == "sticky" and self._draw() < 0.8:
            return current
        return alive[int(self._draw() * len(alive))]

    def _pct(self, alive: Sequence[Actor], current: Actor | None) -> Actor:
        if current is not None and self._draw() > 0.1:
            return current
        alive[int(self._draw() * len(alive))].priority = self._draw()
        return max(alive, key=_priority)

    def fault(self) -> Fault:
        if not self._faults:
            return Fault.NONE
        drawn = self._draw()
        if drawn >= self._faults:
            return Fault.NONE
        if drawn < self._profile.delayed:
            return Fault.LATE
        return _BROKEN[int(self._draw() * 3)]

    def portion(self, count: int) -> list[bool]:
        return [self._draw() < 0.5 for _ in range(count)]

    def age(self, count: int) -> int:
        if self._draw() >= self._profile.stale:
            return 0
        return 1 + int(self._draw() * min(count, 5))

    def arrival(self, count: int) -> int:
        return int(self._draw() * count) if count and self._draw() < 0.08 else -1


def empty_world() -> World:
    """A world without rows and faults, in which start states are made."""
    return World({}, SeededChoices(Random(0), Profile()))


def rows_of(world: World) -> Rows:
    """A copy of the rows."""
    return {partition: keys.copy() for partition, keys in world.rows.items()}


_BROKEN = (Fault.LOST, Fault.APPLIED, Fault.DECLINED)


def _nothing(actor: Actor, call: Call) -> None:
    return None


def _priority(actor: Actor) -> float:
    return actor.priority
