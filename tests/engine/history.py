"""A history of what many threads asked of one branch and were told, and the judge of it.

    V(r, k)   a value x that an observation [rs, re] saw at a key is legal iff some write of x began
              before re, and no acknowledged write that began after x's ended was over before rs

Writes without an answer may count at any time, those of a dead process until its death; refused
ones (4xx) never.  Deletions are writes of
nothing.  Values are unique, so that a value names its write.
"""

import bisect
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = float("inf")
NOTHING = ""


class Span(NamedTuple):
    """From just before a request was sent until just after its answer; `NEVER`: none came."""

    start: float
    end: float


class Observed(NamedTuple):
    """What one look saw at `keys` (none named: at all); those that it did not show hold nothing."""

    what: str
    span: Span
    content: Mapping[str, str]
    keys: tuple[str, ...] = ()


class Made(NamedTuple):
    """A commit or merge that was answered with an id."""

    span: Span
    id: str
    branch: str


@dataclass
class History:
    """Everything that happened.  Thread-safe to append to."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    writes: dict[str, list[tuple[Span, str]]] = field(default_factory=dict)
    possible: dict[str, list[tuple[Span, str]]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)  # values of writes that were refused
    observed: list[Observed] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    creations: dict[str, list[str]] = field(default_factory=dict)  # key -> values of winners
    answers: dict[str, int] = field(default_factory=dict)  # kind of answer -> how often
    failures: list[str] = field(default_factory=list)  # what must not happen, as it happened

    def wrote(self, key: str, value: str, span: Span) -> None:
        """A write that was acknowledged (or has no answer yet)."""
        with self.lock:
            self.writes.setdefault(key, []).append((span, value))

    def might_have_written(self, key: str, value: str, span: Span) -> None:
        """A write without an answer, which counted before the end of its span or never does."""
        with self.lock:
            self.possible.setdefault(key, []).append((span, value))

    def looked(self, observed: Observed) -> None:
        """A look that was answered."""
        with self.lock:
            self.observed.append(observed)

    def made_commit(self, made: Made) -> None:
        """A commit or merge that was acknowledged."""
        with self.lock:
            self.made.append(made)

    def created(self, key: str, values: tuple[str, ...]) -> None:
        """A conditional creation that won (its value) or was refused (none)."""
        with self.lock:
            self.creations.setdefault(key, []).extend(values)

    def answered(self, kind: str, refused_value: str = NOTHING) -> None:
        """Count an answer; the value of a write that it refused must never be seen."""
        with self.lock:
            self.answers[kind] = self.answers.get(kind, 0) + 1
            if refused_value:
                self.refused.add(refused_value)

    def fail(self, what: str) -> None:
        """Something that must not happen, happened."""
        with self.lock:
            self.failures.append(what)


class KeyWrites:
    """The writes of one key, arranged for questions."""

    def __init__(
        self, writes: Iterable[tuple[Span, str]], possible: Iterable[tuple[Span, str]] = ()
    ) -> None:
        found = [(Span(-NEVER, -NEVER), NOTHING), *writes]
        self._by_value: dict[str, tuple[list[float], list[float]]] = {}
        for span, value in sorted([*found, *possible]):
            starts, ends = self._by_value.setdefault(value, ([], []))
            starts.append(span.start)
            ends.append(max(span.end, ends[-1] if ends else -NEVER))
        self._ends: list[float] = []  # of acknowledged writes, with the latest start up to each
        self._latest: list[float] = []
        for end, start in sorted((span.end, span.start) for span, _ in found if span.end < NEVER):
            self._ends.append(end)
            self._latest.append(max(start, self._latest[-1] if self._latest else -NEVER))

    def legal(self, value: str, span: Span) -> bool:
        """V for this key."""
        starts, ends = self._by_value.get(value, ([], []))
        begun = bisect.bisect_right(starts, span.end)
        if not begun:
            return False
        over = bisect.bisect_left(self._ends, span.start)
        return not over or self._latest[over - 1] <= ends[begun - 1]


def violations(history: History) -> list[str]:
    """What each observation saw that it must not have seen."""
    writes = {
        key: KeyWrites(history.writes.get(key, ()), history.possible.get(key, ()))
        for key in {*history.writes, *history.possible}
    }
    unwritten = KeyWrites(())
    found = []
    for observed in history.observed:
        for key in observed.keys or {*writes, *observed.content}:
            value = observed.content.get(key, NOTHING)
            if value in history.refused:
                found.append(f"{observed.what}: {key} holds {value}, which was refused")
            elif not writes.get(key, unwritten).legal(value, observed.span):
                found.append(f"{observed.what} {observed.span}: {key} holds {value or 'nothing'}")
    return found
