"""Runs every schedule of a small program, up to a bound: all choices are enumerated, none is drawn.

Three things are bounded:

- preemptions: another client steps although the present one could continue;
- faults: a client is killed before a step; a write is lost, applied without an answer, or applied
  and reported as declined;
- old records from a cache.

The search is depth-first: a run repeats the choices that led to its branch point, takes the next
choice there, and continues with the first choice of each.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulator.families import arguments
from simulator.histories import Run
from simulator.invariants import judge
from simulator.schedule import NEVER, Actor, Breach, Call, Event, Fault, faithful
from simulator.stage import Stage

# A bar separates clients.  0: write the value that is committed; m: a key that the merge changes.
PROGRAMS = (
    "w|c|c",
    "w w|c|c",
    "w d|c|r",
    "w|d|c c",
    "w r|c|w",
    "w c|w c",
    "w c|d c|l",
    "w|c|m",
    "w0|m|l",
    "w|m|m",
    "w c|m",
    "wm0|m|rm",
    "wm0 m|c|rm",
    "w w0|c|c",
    "w c m|w c",
    "w r|c|reset",
    "w|c|prefix",
    "w|del create|c",
    "p|p|c",
    "p|p c|c",
)
# Verbs that the twenty programs above leave out: empty commits, reverts, cherry-picks, bulk
# deletion, links, metadata, bulk jobs.
MORE_PROGRAMS = (
    "e|e|w c",
    "v|v",
    "v|w c",
    "k m|c w0",
    "b|w c|c",
    "b|w|c c",
    "n|w c",
    "n|d|c",
    "u|p|c",
    "u|u c",
    "s|m|c",
    "x|wi c",
    "j|w c",
    "y|p c",
)
_VERBS = {
    "w": ("write", "k1"),
    "wm": ("write", "m1"),
    "d": ("delete", "k1"),
    "r": ("read", "k1"),
    "rm": ("read", "m1"),
    "l": ("list", ""),
    "c": ("commit", ""),
    "m": ("merge", ""),
    "reset": ("reset", ""),
    "prefix": ("prefix", "k1"),
    "del": ("drop", ""),
    "create": ("create", ""),
    "p": ("create_only", "k2"),
    "e": ("commit_empty", ""),
    "v": ("revert", ""),
    "k": ("pick", ""),
    "s": ("squash", ""),
    "b": ("delete_many", ""),
    "n": ("note", "k1"),
    "u": ("link_only", "k2"),
    "x": ("import", ""),
    "wi": ("write", "i/c"),
    "j": ("bulk_job", ""),
    "y": ("bulk_merge", "k2"),
}
_GIVEN = ("delete_many", "note")
_FAULTS = (Fault.NONE, Fault.LOST, Fault.APPLIED, Fault.DECLINED)


class Bound(NamedTuple):
    """How much of each kind may happen in one schedule."""

    preemptions: int = 2
    faults: int = 0
    stale: int = 1


class SearchResult(NamedTuple):
    """The result of an exhaustive search.  A violation (`wrong`) stops it; `path` replays the
    schedule."""

    schedules: int
    wrong: list[str]
    path: list[int]


class PathChoices:
    """`Choices` that follow a path, and then take the first option of each choice."""

    def __init__(self, bound: Bound, path: Sequence[int] = ()) -> None:
        self._path = path
        self._preemptions, self._faults, self._stale = bound
        self.taken: list[int] = []
        self.options: list[int] = []

    def _decide(self, count: int) -> int:
        at = len(self.taken)
        chosen = self._path[at] if at < len(self._path) else 0
        self.taken.append(chosen)
        self.options.append(count)
        return chosen

    def following(self) -> list[int] | None:
        """The path of the next schedule; None after the last one."""
        for at in range(len(self.taken) - 1, -1, -1):
            if self.taken[at] + 1 < self.options[at]:
                return [*self.taken[:at], self.taken[at] + 1]
        return None

    def quiet(self) -> int:
        return 0 if self._faults else NEVER

    def event(self) -> Event:
        if self._faults and self._decide(2):
            self._faults -= 1
            return Event.KILL
        return Event.NOTHING

    def actor(self, alive: Sequence[Actor], current: Actor | None) -> Actor:
        if len(alive) == 1:
            return alive[0]
        if current is None:
            return alive[self._decide(len(alive))]
        if not self._preemptions:
            return current
        chosen = self._decide(len(alive))
        if not chosen:
            return current
        self._preemptions -= 1
        return [each for each in alive if each is not current][chosen - 1]

    def fault(self) -> Fault:
        if not self._faults:
            return Fault.NONE
        fault = _FAULTS[self._decide(len(_FAULTS))]
        self._faults -= fault is not Fault.NONE
        return fault

    def portion(self, count: int) -> list[bool]:
        return [at % 2 == 0 for at in range(count)]

    def age(self, count: int) -> int:
        if not self._stale or count < 2:
            return min(count, 1)
        old = self._decide(2)
        self._stale -= old
        return 1 + old

    def arrival(self, count: int) -> int:
        return -1


def clients_of(text: str) -> list[list[Call]]:
    """The program that `text` describes."""
    clients = []
    for number, words in enumerate(text.split("|")):
        calls = []
        for at, word in enumerate(words.split()):
            verb, key = _VERBS[word.rstrip("0")]
            value = f"{key}-0" if word.endswith("0") else f"{key}-{number}{at}"
            given = arguments(verb, key, 10 * number + at, 1.0)
            calls.append(Call(number, verb, given if verb in _GIVEN else (key, value)))
        clients.append(calls)
    return clients


def schedules(
    stage: Stage, program: str, bound: Bound, breach: Breach = faithful
) -> Iterator[tuple[list[str], list[int]]]:
    """Run every schedule within the bound; yield what is wrong with each, and its path."""
    path: list[int] | None = []
    while path is not None:
        choices = PathChoices(bound, path)
        wrong = run_path(stage, program, choices, breach)
        yield wrong, choices.taken
        path = choices.following()


def run_path(
    stage: Stage, program: str, choices: PathChoices, breach: Breach = faithful
) -> list[str]:
    """Run one schedule; return what is wrong."""
    clients = clients_of(program)
    run = Run(stage, choices, breach=breach)
    run.play(clients)
    return judge(run, clients)


def search(stage: Stage, program: str, bound: Bound, breach: Breach = faithful) -> SearchResult:
    """Run all schedules within the bound, up to the first that breaks an invariant."""
    count = 0
    for wrong, path in schedules(stage, program, bound, breach):
        count += 1
        if wrong:
            return SearchResult(count, wrong, path)
    return SearchResult(count, [], [])
