"""Turns: who works when, who leads whom, and who is answered with whose result."""

import threading
from collections.abc import Callable
from itertools import count

import pytest

from graveler.core.errors import Contended, HookFailed, Unavailable
from graveler.core.turns import FREE, Call, Gate, ThreadTurns, WaitLimits
from tests.waiting import PATIENCE_SECONDS, until
from tests.watched_turns import WatchedTurns

LONG = WaitLimits(PATIENCE_SECONDS, lambda: PATIENCE_SECONDS)


def joined(first: str, more: str) -> str | None:
    """Capital letters need work of their own."""
    return first + more if (first + more).islower() else None


class Crew:
    """Threads that call `turns`, and what became of each call.  `begun`: the requests, in the order
    in which the work for them began."""

    def __init__(self, make_gate: Callable[[], Gate] = threading.Event) -> None:
        watched = WatchedTurns(make_gate)
        self.turns, self._waited = watched.turns, watched.waited
        self.begun: list[str] = []
        self.results: dict[str, str] = {}
        self.errors: dict[str, BaseException] = {}
        self._failures: dict[str, BaseException] = {}
        self._ends = dict[str, threading.Event]()
        self._threads: list[threading.Thread] = []

    def call(
        self,
        name: str,
        *,
        key: str = "k",
        limits: WaitLimits = LONG,
        error: BaseException | None = None,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin a call, whose work ends at `end`.  Returns when it works or waits.  With `error`,
        each work fails that is also for this call."""
        self._ends[name] = threading.Event()
        if error is not None:
            self._failures[name] = error

        def work(request: str) -> str:
            self.begun.append(request)
            assert self._ends[name].wait(PATIENCE_SECONDS)
            for each in request:
                if each in self._failures:
                    raise self._failures[each]
            return f"of {request}"

        def run() -> None:
            call = Call(work, name, joined, before_waiting)
            try:
                self.results[name] = self.turns.run(key, call, limits)
            except BaseException as raised:
                self.errors[name] = raised

        self._threads.append(threading.Thread(target=run, name=name))
        self._threads[-1].start()
        until(lambda: name in self._leaders or name in self._waited, f"{name} works or waits")

    @property
    def _leaders(self) -> set[str]:
        return {request[0] for request in self.begun}

    def end(self, *names: str) -> None:
        """Let the work of these calls end, and wait for that."""
        for name in names:
            self.works(name)
            self._ends[name].set()
            until(lambda name=name: name in self.results or name in self.errors, f"{name} ends")  # type: ignore[misc]

    def works(self, *names: str) -> None:
        """Wait until these calls work."""
        for name in names:
            until(lambda name=name: name in self._leaders, f"{name} works")  # type: ignore[misc]

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

    def waits(self, name: str) -> None:
        """Wait until the thread with this name waits for a turn."""
        until(lambda: name in self._waited, f"{name} waits")

    def close(self) -> None:
        """All calls have ended, and nothing is left of them."""
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        assert len(self.turns) == 0


@pytest.fixture
def crew() -> Crew:
    return Crew()


def test_a_leader_works_for_those_that_wait_when_its_turn_begins(crew: Crew) -> None:
    for name in "abcd":
        crew.call(name)
    crew.end("a")
    crew.works("b")
    crew.call("e")  # b has begun: its result is not for e
    crew.end("b", "e")
    crew.close()
    assert crew.begun == ["a", "bcd", "e"]
    shared = dict.fromkeys("bcd", "of bcd")
    assert crew.results == {"a": "of a", "e": "of e", **shared}


def test_requests_that_do_not_unite_have_turns_of_their_own(crew: Crew) -> None:
    for name in "ABCdEf":
        crew.call(name)
    assert crew.begun == ["A"]
    crew.end("A", "B", "C", "d", "E")
    crew.close()
    assert crew.begun == ["A", "B", "C", "df", "E"]
    assert crew.results["f"] == "of df"


def test_requests_of_different_kinds_have_turns_of_their_own(crew: Crew) -> None:
    def other() -> str:
        return crew.turns.run("k", Call(lambda request: f"other {request}", 1), LONG)

    crew.call("a")
    crew.call("b")
    thread = threading.Thread(target=lambda: crew.results.update({"1": other()}), name="1")
    thread.start()
    crew.waits("1")
    crew.call("c")
    crew.end("a", "b")
    thread.join(PATIENCE_SECONDS)
    crew.close()
    assert crew.results == {"a": "of a", "b": "of bc", "c": "of bc", "1": "other 1"}


def test_other_keys_have_other_turns(crew: Crew) -> None:
    crew.call("a")
    crew.call("b", key="other")
    assert crew.begun == ["a", "b"] and len(crew.turns) == 2
    crew.end("b", "a")
    crew.close()


def test_a_call_looks_once_before_it_waits_and_not_if_it_need_not_wait(crew: Crew) -> None:
    looks: list[str] = []
    for name in "abc":
        crew.call(name, before_waiting=lambda name=name: looks.append(name))  # type: ignore[misc]
    assert looks == ["b", "c"]
    crew.end("a", "b")
    crew.close()
    assert looks == ["b", "c"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("own"),
        KeyboardInterrupt(),
        SystemExit(),
        Unavailable("throttled"),
        Contended("kept losing"),
    ],
)
def test_an_error_is_that_of_the_leader_alone_and_the_next_one_leads(
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
    assert crew.begun == ["a", "bcd", "cde"]
    assert crew.errors == {"b": error}
    assert crew.results == {"a": "of a", **dict.fromkeys("cde", "of cde")}


def test_after_a_veto_the_leader_and_each_follower_work_for_themselves(crew: Crew) -> None:
    """One request of several may have caused it, and it is not known which one."""
    crew.call("a")
    crew.call("b", error=HookFailed("vetoed"))
    for name in "cd":
        crew.call(name)
    crew.end("a")
    crew.works("b")
    crew.call("e")
    crew.call("f")
    crew.end("b", "c", "d", "e")
    crew.close()
    assert crew.begun == ["a", "bcd", "b", "c", "d", "ef"]
    assert set(crew.errors) == {"b"}
    assert crew.results == {**{name: f"of {name}" for name in "acd"}, "e": "of ef", "f": "of ef"}


def test_the_veto_of_a_follower_is_not_that_of_its_leader(crew: Crew) -> None:
    crew.call("a")
    crew.call("b")
    crew.call("c", error=HookFailed("vetoed"))
    crew.end("a", "b", "c")
    crew.close()
    assert crew.begun == ["a", "bc", "b", "c"]
    assert crew.results == {"a": "of a", "b": "of b"} and set(crew.errors) == {"c"}


def test_a_leader_that_lost_its_turn_and_fails_leaves_its_followers_in_the_line(crew: Crew) -> None:
    crew.call("a")
    crew.call("b", error=ValueError())
    crew.call("c")
    crew.end("a")
    crew.works("b")
    crew.call("D", limits=WaitLimits(0.01, LONG.remaining))
    crew.works("D")
    crew.end("D")  # nobody has a turn, and c waits for b
    crew.end("b", "c")
    crew.close()
    assert crew.begun == ["a", "bc", "D", "c"]


def test_a_turn_that_lasts_too_long_holds_nobody_up(crew: Crew) -> None:
    for name in "abc":
        crew.call(name)
    crew.call("D", limits=crew.hasty("b"))
    crew.works("b", "D")
    assert not crew.results
    crew.end("b", "D", "a")
    crew.close()
    assert crew.results == {"a": "of a", "b": "of bc", "c": "of bc", "D": "of D"}


def test_followers_wait_for_their_leader_however_long_it_takes(crew: Crew) -> None:
    crew.call("a")
    looks: list[None] = []

    def left() -> float:
        looks.append(None)
        return PATIENCE_SECONDS

    crew.call("b")
    crew.call("c", limits=crew.hasty("b", left))
    # c gives up the turn of a, which b then takes, also for c.
    crew.works("b")
    seen = len(looks)
    until(lambda: len(looks) > seen + 10, "c looks up several times")
    assert crew.begun == ["a", "bc"]
    crew.end("b", "a")
    crew.close()
    assert crew.results["c"] == "of bc"


def test_a_follower_whose_time_ends_does_its_own_work(crew: Crew) -> None:
    left = [PATIENCE_SECONDS]
    crew.call("A")
    crew.call("b")
    # c gives up the turn of A, which b takes, also for c
    crew.call("c", limits=crew.hasty("b", lambda: left[0]))
    crew.call("D")
    crew.works("b")
    left[0] = 0.0
    crew.works("c")
    crew.end("c", "b", "D", "A")
    crew.close()
    assert crew.results == {"A": "of A", "b": "of bc", "c": "of c", "D": "of D"}


def test_a_call_whose_time_ends_in_the_line_leaves_it(crew: Crew) -> None:
    crew.call("a")
    crew.call("b", limits=WaitLimits(PATIENCE_SECONDS, lambda: 0.0))
    crew.works("b")
    crew.end("b", "a")
    crew.close()


def test_work_may_take_a_turn_of_its_own_key() -> None:
    turns, hasty = ThreadTurns(threading.Lock(), threading.Event), WaitLimits(0.0, LONG.remaining)

    def outer(_: str) -> str:
        return turns.run("k", Call(lambda _: "inner", "b", joined), hasty)

    assert turns.run("k", Call(outer, "a", joined), hasty) == "inner"
    assert len(turns) == 0


class _Interrupted(threading.Event):
    """A gate at which the thread is interrupted."""

    def wait(self, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt


def test_a_call_that_is_interrupted_while_it_waits_leaves_the_line() -> None:
    gates: list[Callable[[], Gate]] = [threading.Event, _Interrupted, threading.Event]
    crew = Crew(lambda: gates.pop(0)())
    crew.call("a")
    with pytest.raises(KeyboardInterrupt):
        crew.turns.run("k", Call(lambda _: "never", "b", joined), LONG)
    crew.call("c")
    crew.end("a", "c")
    crew.close()
    assert crew.results == {"a": "of a", "c": "of c"}


class _Late(threading.Event):
    """A gate at which the thread is interrupted just when it has been let through."""

    def wait(self, timeout: float | None = None) -> bool:
        super().wait(timeout)
        raise KeyboardInterrupt


@pytest.mark.parametrize("leads", [True, False])
def test_a_call_that_is_interrupted_at_its_turn_or_answer_passes_the_turn_on(leads: bool) -> None:
    gates: list[Callable[[], Gate]] = [threading.Event, threading.Event, threading.Event]
    gates[1 if leads else 2] = _Late
    crew = Crew(lambda: gates.pop(0)())
    for name in "abc":
        crew.call(name)
    crew.end("a", "c" if leads else "b")
    until(lambda: crew.errors, "the call is interrupted")
    crew.close()
    assert set(crew.errors) == {"b" if leads else "c"}


def test_without_turns_every_call_works() -> None:
    assert [FREE.run("k", Call(str.upper, name, joined), LONG) for name in "ab"] == ["A", "B"]
