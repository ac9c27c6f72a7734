"""Many threads on one branch: writers, committers, a merger; everything goes into a history.

The load knows the system only by a `Door`: one for each thread.  Twice a second the writers hold
their breath, so that the branch is clean for a moment and merges into it succeed, too.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from tests.engine.history import NEVER, NOTHING, History, Made, Observed, Span, violations
from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")

KEYS = tuple(f"k/{number:02}" for number in range(40))
PAIR = ("m/a", "m/b")  # always changed together, by a merge
FEATURE, SINK = "feature", "sink"
_BREATH_SECONDS = 0.08
_PERIOD_SECONDS = 0.5


class Refused(Exception):
    """The system said no (4xx): nothing may have happened.  The text names the answer."""


class Door(Protocol):
    """What one thread can ask; a value of `NOTHING` is absence."""

    def put(self, branch: str, key: str, value: str) -> None: ...
    def create(self, key: str, value: str) -> None: ...
    def delete(self, key: str) -> None: ...
    def get(self, key: str) -> str: ...
    def tree(self, ref: str) -> dict[str, str]: ...
    def commit(self, branch: str, message: str) -> str: ...
    def merge(self, source: str, destination: str) -> str: ...
    def line(self, branch: str) -> set[str]: ...
    def close(self) -> None: ...


# What a run must reach, or it has shown nothing.
REACHED = tuple(
    f"{verb}: done" for verb in ("write", "commit", "merge into main", f"merge into {SINK}")
)
_SLOW = 40  # times as long a run may last, on a machine on which that takes longer


@dataclass
class Load:
    """One run.  `door` makes a door for the calling thread."""

    door: Callable[[], Door]
    seconds: float
    seed: int
    history: History = field(default_factory=History)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self, writers: int, committers: int) -> History:
        """Everything at once for `seconds`, and until all of `REACHED` was reached."""
        bodies: list[Callable[[Door], None]] = [self._merger, self._reader]
        bodies += [partial(self._writer, number) for number in range(writers)]
        bodies += [partial(self._committer, number) for number in range(committers)]
        threads = [threading.Thread(target=self._guarded, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for _ in range(_SLOW):
            failed = self.ended.wait(self.seconds)  # a failure ends the run
            if failed or all(map(self.history.answers.get, REACHED)):
                break
        self.ended.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a request hangs"
        return self.history

    def _guarded(self, body: Callable[[Door], None]) -> None:
        try:
            with contextlib.closing(self.door()) as door:
                body(door)
        except Exception as error:
            self.history.fail(f"{type(error).__name__}: {error}")
            self.ended.set()

    def _refused(self, verb: str, refusal: Refused, value: str = NOTHING) -> None:
        self.history.answered(f"{verb}: {refusal}", value)

    def _writer(self, number: int, door: Door) -> None:
        rng, count = random.Random(f"{self.seed}/{number}"), 0
        while not self.ended.is_set():
            if time.monotonic() % _PERIOD_SECONDS < _BREATH_SECONDS:
                self.ended.wait(_BREATH_SECONDS / 2)
                continue
            count += 1
            draw, key, value = rng.random(), rng.choice(KEYS), f"w{number}-{count}"
            if draw < 0.65:
                self._write(key, value, partial(door.put, "main", key, value))
            elif draw < 0.8:
                self._write(key, NOTHING, partial(door.delete, key))
            elif draw < 0.9:
                key = f"once/{rng.randrange(10 + count)}"
                done = self._write(key, value, partial(door.create, key, value))
                self.history.created(key, (value,) if done else ())
            else:
                span, found = timed(partial(door.get, key))
                self.history.looked(Observed("read", span, {key: found}, (key,)))

    def _write(self, key: str, value: str, call: Callable[[], None]) -> bool:
        start = time.perf_counter()
        try:
            span, _ = timed(call)
        except Refused as refusal:
            self._refused("write", refusal, value)
            return False
        except BaseException:  # it may count at any time
            self.history.wrote(key, value, Span(start, NEVER))
            raise
        self.history.answered("write: done")
        self.history.wrote(key, value, span)
        return True

    def _committer(self, number: int, door: Door) -> None:
        count = 0
        while not self.ended.is_set():
            count += 1
            try:
                span, made = timed(partial(door.commit, "main", f"c{number}-{count}"))
            except Refused as refusal:
                self._refused("commit", refusal)
                if "no changes" not in str(refusal):
                    self.history.fail(f"commit: {refusal}")
                self.ended.wait(0.01)
                continue
            self.history.answered("commit: done")
            self.history.made_commit(Made(span, made, "main"))

    def _merger(self, door: Door) -> None:
        """Changes two keys of a branch of its own together, merges it in, and `main` out."""
        count = 0
        while not self.ended.is_set():
            count += 1
            value = f"merge-{count}"
            for key in PAIR:
                door.put(FEATURE, key, value)
            door.commit(FEATURE, value)
            for _ in range(60):
                if self._merge(door, FEATURE, "main", value) or self.ended.is_set():
                    break
                self.ended.wait(0.005)
            self._merge(door, "main", SINK)

    def _merge(self, door: Door, source: str, dest: str, value: str = NOTHING) -> bool:
        try:
            span, made = timed(partial(door.merge, source, dest))
        except Refused as refusal:
            self._refused(f"merge into {dest}", refusal)
            return False
        self.history.answered(f"merge into {dest}: done")
        self.history.made_commit(Made(span, made, dest))
        if value:
            for key in PAIR:
                self.history.wrote(key, value, span)
        return True

    def _reader(self, door: Door) -> None:
        while not self.ended.is_set():
            span, tree = timed(partial(door.tree, "main"))
            self.history.looked(Observed("list", span, tree))
            self.ended.wait(0.02)


def timed(call: Callable[[], T]) -> tuple[Span, T]:
    """When, and what it answered."""
    start = time.perf_counter()
    answer = call()
    return Span(start, time.perf_counter()), answer


def judged(history: History, door: Door) -> list[str]:
    """Everything that is wrong, now that all is quiet.  Commits what is left."""
    span, tree = timed(partial(door.tree, "main"))
    history.looked(Observed("in the end", span, tree))
    with contextlib.suppress(Refused):
        history.made_commit(Made(*timed(partial(door.commit, "main", "last")), "main"))
    wrong = [*history.failures]
    if door.tree("main@") != tree:
        wrong.append("the last commit does not hold what was visible")
    lines = {"main": door.line("main"), SINK: door.line(SINK)}
    contents: dict[str, dict[str, str]] = {}
    for made in history.made:
        if made.id not in lines[made.branch]:
            wrong.append(f"acknowledged, but not in the history of {made.branch}: {made}")
        elif made.branch == "main":
            content = contents.setdefault(made.id, {}) or door.tree(made.id)
            contents[made.id] = content
            history.looked(Observed(f"commit {made.id[:8]}", made.span, content))
    wrong += [
        f"{observed.what} holds half a merge: {[observed.content.get(key) for key in PAIR]}"
        for observed in history.observed
        if not observed.keys and len({observed.content.get(key) for key in PAIR}) > 1
    ]
    for key, winners in history.creations.items():
        if len(winners) != 1 or tree.get(key) != winners[0]:
            wrong.append(f"{key} was created by {winners} and holds {tree.get(key)}")
    return wrong + violations(history)
