"""Turns and shared results: who works when, and who is answered with whose result."""

import threading
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from graveler.assembly.drivers import ThreadGate, thread_lanes
from graveler.core.errors import Contended, HookFailed, Unavailable
from graveler.core.lanes import FREE, Turn, WaitLimits
from tests.waiting import PATIENCE_SECONDS, until
from tests.watched_lanes import WatchedLanes

LONG = WaitLimits(PATIENCE_SECONDS, lambda: PATIENCE_SECONDS)


class Crew:
    """Threads that call lanes, and what became of each call."""

    def __init__(self, make_gate: Callable[[], ThreadGate] = ThreadGate) -> None:
        watched = WatchedLanes(make_gate)
        self.lanes, self._waited = watched.lanes, watched.waited
        self.begun: list[str] = []
        self.results: dict[str, str] = {}
        self.errors: dict[str, BaseException] = {}
        self._ends = dict[str, threading.Event]()
        self._threads: list[threading.Thread] = []

    def call(
        self,
        name: str,
        *,
        key: str = "k",
        shares: bool = True,
        patience: WaitLimits = LONG,
        error: BaseException | None = None,
        offers: bool = False,
        confirms: bool = True,
        takes: bool = False,
    ) -> None:
        """Begin a call, whose work ends at `end`.  Returns when it works or waits."""
        self._ends[name] = threading.Event()

        def work(turn: Turn) -> str:
            self.begun.append(name)
            assert self._ends[name].wait(PATIENCE_SECONDS)
            if takes and turn.offered is not None:
                taken: str = turn.take()
                return taken
            if offers:
                turn.offer()
            if confirms:
                turn.confirm(f"offer of {name}")
            if error is not None:
                raise error
            return f"of {name}"

        def run() -> None:
            try:
                self.results[name] = self.lanes.run(key, work, patience, shares=shares)
            except BaseException as raised:
                self.errors[name] = raised

        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()
        until(lambda: name in self.begun or name in self._waited, f"{name} is in the lane")

    def end(self, *names: str) -> None:
        """Let the work of these calls end, and wait for that."""
        for name in names:
            self.works(name)
            self._ends[name].set()
            until(lambda name=name: name in self.results or name in self.errors, f"{name} ends")  # type: ignore[misc]

    def works(self, *names: str) -> None:
        """Wait until these calls work."""
        for name in names:
            until(lambda name=name: name in self.begun, f"{name} works")  # type: ignore[misc]

    def hasty(self, leader: str, left: Callable[[], float] = LONG.remaining) -> WaitLimits:
        """Of a caller that gives up the turn of another one in a millisecond, and waits again only
        when `leader` works: else it would give up the turn of a slow thread before that begins.
        `left`: the seconds that the caller has, from then on."""
        asked = count(1)

        def remaining() -> float:
            # Asked before each wait, and after it under the lock.
            if (now := next(asked)) == 3:
                self.works(leader)
            return LONG.remaining() if now < 3 else left()

        return WaitLimits(0.001, remaining)

    def close(self) -> None:
        """All calls have ended, and nothing is left of the lanes."""
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        assert len(self.lanes) == 0


@pytest.fixture
def crew() -> Crew:
    return Crew()


def test_those_that_wait_when_a_turn_begins_share_its_result(crew: Crew) -> None:
    for name in "abcd":
        crew.call(name)
    crew.end("a")
    crew.works("b")
    crew.call("e")  # b has begun: its result is not for e
    crew.end("b", "e")
    crew.close()
    assert crew.begun == ["a", "b", "e"]
    shared = dict.fromkeys("bcd", "of b")
    assert crew.results == {"a": "of a", "e": "of e", **shared}


def test_work_that_does_not_share_has_a_turn_for_each_call(crew: Crew) -> None:
    for name in "abc":
        crew.call(name, shares=False)
    crew.call("d")
    crew.call("e", shares=False)
    crew.call("f")
    assert crew.begun == ["a"]
    crew.end("a", "b", "c", "d", "e")
    crew.close()
    assert crew.begun == ["a", "b", "c", "d", "e"]
    assert crew.results["f"] == "of d"


def test_other_keys_have_other_lanes(crew: Crew) -> None:
    crew.call("a")
    crew.call("b", key="other")
    assert crew.begun == ["a", "b"] and len(crew.lanes) == 2
    crew.end("b", "a")
    crew.close()


@pytest.mark.parametrize("error", [ValueError("own"), KeyboardInterrupt(), SystemExit()])
def test_an_error_is_that_of_its_call_and_one_of_the_others_works(
    crew: Crew, error: BaseException
) -> None:
    crew.call("a")
    crew.call("b", error=error)
    crew.call("c")
    crew.call("d")
    crew.end("a")
    crew.works("b")
    crew.call("e")
    crew.end("b", "c")
    crew.close()
    assert crew.begun == ["a", "b", "c"]
    assert crew.errors == {"b": error}
    assert crew.results == {"a": "of a", "c": "of c", "d": "of c", "e": "of c"}


def test_a_call_that_lost_its_turn_and_fails_leaves_its_followers_to_the_lane(crew: Crew) -> None:
    crew.call("a")
    crew.call("b", error=ValueError())
    crew.call("c")
    crew.end("a")
    crew.works("b")
    crew.call("d", shares=False, patience=WaitLimits(0.01, LONG.remaining))
    crew.works("d")
    crew.end("d")  # the lane is idle, but for b, which c waits for
    crew.end("b", "c")
    crew.close()
    assert crew.begun == ["a", "b", "d", "c"]


def test_a_turn_that_lasts_too_long_holds_nobody_up(crew: Crew) -> None:
    for name in "abc":
        crew.call(name)
    crew.call("d", patience=crew.hasty("b"), shares=False)
    crew.works("b", "d")
    assert not crew.results
    crew.end("b", "d", "a")
    crew.close()
    assert crew.results == {"a": "of a", "b": "of b", "c": "of b", "d": "of d"}


def test_those_that_share_wait_for_their_leader_however_long_it_takes(crew: Crew) -> None:
    crew.call("a")
    looks: list[None] = []

    def left() -> float:
        looks.append(None)
        return PATIENCE_SECONDS

    crew.call("b")
    crew.call("c", patience=crew.hasty("b", left))
    # c gives up the turn of a, which b then takes, also for c.
    crew.works("b")
    seen = len(looks)
    until(lambda: len(looks) > seen + 10, "c looks up several times")
    assert crew.begun == ["a", "b"]
    crew.end("b", "a")
    crew.close()
    assert crew.results["c"] == "of b"


class _Held(ThreadGate):
    """A gate at which the thread stays until `go`."""

    def __init__(self, go: threading.Event) -> None:
        super().__init__()
        self._go = go

    def wait(self, seconds: float) -> None:
        assert self._go.wait(PATIENCE_SECONDS)
        super().wait(seconds)


def waiting_long_for(error: Exception) -> Crew:
    """c and d wait for b for longer than their turns, and e waits, too; then b fails."""
    go, looks = threading.Event(), {"c": 0, "d": 0}
    held = partial(_Held, go)
    gates: list[Callable[[], ThreadGate]] = [ThreadGate, ThreadGate, held, held, ThreadGate]
    crew = Crew(lambda: gates.pop(0)())

    def left(name: str) -> float:
        looks[name] += 1
        return PATIENCE_SECONDS

    crew.call("a")
    crew.call("b", error=error)
    for name in looks:
        crew.call(name, patience=WaitLimits(0.001, partial(left, name)))
    crew.call("e")
    crew.end("a")
    crew.works("b")
    go.set()
    until(lambda: min(looks.values()) > 10, "c and d wait for b for a long time")
    crew.end("b")
    return crew


def test_those_that_waited_long_for_a_leader_that_fails_work_at_once() -> None:
    """One after the other, the last of many would wait for all of them."""
    crew = waiting_long_for(HookFailed("vetoed"))
    crew.works("c", "d", "e")
    crew.end("d", "c", "e")
    crew.close()
    assert crew.results == {name: f"of {name}" for name in "acde"}


@pytest.mark.parametrize("error", [Unavailable("throttled"), Contended("kept losing")])
def test_after_an_error_of_the_store_one_works_for_all(error: Exception) -> None:
    """Many at once would make it worse."""
    crew = waiting_long_for(error)
    crew.end("c")
    crew.close()
    assert crew.begun == ["a", "b", "c"]
    assert crew.results == {"a": "of a", **dict.fromkeys("cde", "of c")}


def test_a_call_whose_time_ends_while_it_waits_does_its_own_work(crew: Crew) -> None:
    left = [PATIENCE_SECONDS]
    crew.call("a", shares=False)
    crew.call("b")
    crew.call(
        "c", patience=crew.hasty("b", lambda: left[0])
    )  # c gives up the turn of a, which b takes, also for c
    crew.call("d", shares=False)
    crew.works("b")
    left[0] = 0.0
    crew.works("c")
    crew.end("c", "b", "d", "a")
    crew.close()
    assert crew.results == {name: f"of {name}" for name in "abcd"}


def test_a_call_whose_time_ends_in_the_queue_leaves_it(crew: Crew) -> None:
    crew.call("a")
    crew.call("b", patience=WaitLimits(PATIENCE_SECONDS, lambda: 0.0))
    crew.works("b")
    crew.end("b", "a")
    crew.close()


def test_an_offer_is_for_those_that_wait_and_share(crew: Crew) -> None:
    crew.call("a", offers=True)
    crew.call("own", shares=False, takes=True)
    crew.call("b", takes=True)
    crew.end("a")
    crew.works("own")
    crew.call("c", takes=True)  # it comes after the offer, and waits for b
    crew.end("own", "b")
    # b has taken what was offered to it alone: c works itself.
    crew.end("c")
    crew.close()
    assert crew.begun == ["a", "own", "b", "c"]
    assert crew.results == {"a": "of a", "own": "of own", "b": "offer of a", "c": "of c"}


def test_an_offer_may_be_taken_if_it_is_confirmed(crew: Crew) -> None:
    crew.call("a", offers=True, confirms=False)
    crew.call("b", shares=False, offers=True, error=ValueError())
    crew.call("c", takes=True)
    crew.end("a")
    crew.works("b")
    crew.call("d", takes=True)
    crew.end("b", "c", "d")
    crew.close()
    # Work that fails later has confirmed what took effect.
    assert crew.results == {"a": "of a", "c": "offer of b", "d": "offer of b"}


def test_an_offer_that_is_not_confirmed_is_none(crew: Crew) -> None:
    crew.call("a", offers=True, confirms=False)
    crew.call("b", takes=True)
    crew.end("a", "b")
    crew.close()
    assert crew.results == {"a": "of a", "b": "of b"}


def test_work_may_enter_its_own_lane() -> None:
    lanes, hasty = thread_lanes(), WaitLimits(0.0, LONG.remaining)

    def inner(_: Turn) -> str:
        return "inner"

    def outer(_: Turn) -> str:
        return lanes.run("k", inner, hasty, shares=True)

    assert lanes.run("k", outer, hasty, shares=True) == "inner"
    assert len(lanes) == 0


class _Interrupted(ThreadGate):
    """A gate at which the thread is interrupted."""

    def wait(self, seconds: float) -> None:
        raise KeyboardInterrupt


def test_a_call_that_is_interrupted_while_it_waits_leaves_the_lane() -> None:
    gates: list[Callable[[], ThreadGate]] = [ThreadGate, _Interrupted, ThreadGate]
    crew = Crew(lambda: gates.pop(0)())
    crew.call("a")
    with pytest.raises(KeyboardInterrupt):
        crew.lanes.run("k", lambda _: "never", LONG, shares=True)
    crew.call("c")
    crew.end("a", "c")
    crew.close()
    assert crew.results == {"a": "of a", "c": "of c"}


class _Late(ThreadGate):
    """A gate at which the thread is interrupted just when it has been let through."""

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        raise KeyboardInterrupt


@pytest.mark.parametrize("leads", [True, False])
def test_a_call_that_is_interrupted_at_its_turn_or_answer_passes_the_turn_on(leads: bool) -> None:
    gates: list[Callable[[], ThreadGate]] = [ThreadGate, ThreadGate, ThreadGate]
    gates[1 if leads else 2] = _Late
    crew = Crew(lambda: gates.pop(0)())
    for name in "abc":
        crew.call(name)
    crew.end("a", "c" if leads else "b")
    until(lambda: crew.errors, "the call is interrupted")
    crew.close()
    assert set(crew.errors) == {"b" if leads else "c"}


def test_without_lanes_every_call_works() -> None:
    results = [FREE.run("k", lambda _, n=n: n, LONG, shares=True) for n in range(2)]  # type: ignore[misc]
    assert results == [0, 1]
