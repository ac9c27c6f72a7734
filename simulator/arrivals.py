"""What must hold of events and their batches, beside the checks of `invariants.py` on every write.

    E1  a message that is delivered until it is acknowledged is acknowledged in the end
    E2  an acknowledged message that is delivered again changes nothing
    E3  the history has at most one commit of a batch, and every commit that a caller was given
    E4  the commit of a batch holds everything that was acknowledged before the batch was closed
    E5  after enough time no batch waits, and paths that only events changed are committed

legality.py checks that an event is one write, and that a newer event of its object hides it.
"""

from collections.abc import Sequence
from itertools import chain

from graveler.core import wire
from graveler.engine.events import rules
from graveler.engine.events.batches import BATCH_KEY
from graveler.engine.ports import open_repository
from graveler.kv.store import Row
from graveler.refs.keys import BATCHES
from simulator.histories import AFTERWARDS, Run
from simulator.legality import Judge
from simulator.schedule import NEVER, Call
from simulator.stage import NO_BRANCH
from simulator.verbs.arrivals import RULE, SEQUENCES, Event

_LONG_NS = 100 * 1_000_000_000  # longer than a batch stays open by any client's clock
_PASSES = SEQUENCES + 1
_MOVING = ("hard", "reset", "merge")
_CLOSING = "closing:"


class ArrivalWatch:
    """Watches a run in which events arrive.  It creates the event rule, before the run is
    played."""

    def __init__(self, run: Run) -> None:
        rules.create(open_repository(run.ports(), run.stage.repo), RULE)
        self._run = run
        self._closed: dict[str, int] = {}
        run.world.watches.append(self._watch)

    def _watch(self, partition: bytes, key: bytes, row: Row | None) -> None:
        if key.startswith(BATCHES) and partition.startswith(b"r/") and row is not None:
            for name in wire.decode_pairs(row.value):
                if name.startswith(_CLOSING):
                    self._closed.setdefault(name.removeprefix(_CLOSING), self._run.world.step)

    def settle(self, clients: Sequence[Sequence[Call]]) -> list[Call]:
        """Deliver all messages that were not acknowledged, end all batches, then deliver everything
        again."""
        run = self._run
        told = [call for call in chain(*clients) if call.verb == "arrive" and call.start != NEVER]
        settled: list[Call] = []
        waiting = [call for call in told if not call.acknowledged]
        for _ in range(_PASSES):  # an older event waits for a newer one whose worker died
            tried = [self._delivered(call) for call in waiting]
            settled += tried
            waiting = [call for call in tried if not call.acknowledged]
        if waiting:
            run.wrong.append(f"E1 failed with nobody around: {waiting[0].error!r}")
        settled += self._ended()
        self._committed([call for call in chain(*clients) if call.start != NEVER])
        before = run.shown("main")
        again = [self._delivered(call) for call in reversed(told)]
        settled += again
        if not all(call.acknowledged for call in again):
            run.wrong.append("E1 what was acknowledged is so no more")
        if run.shown("main") != before:
            run.wrong.append(f"E2 delivered again: {before} became {run.shown('main')}")
        return settled + self._ended()

    def _ended(self) -> list[Call]:
        """Two ticks after a long time: the first ends all batches, the second must find none."""
        self._run.world.jumped_ns += _LONG_NS
        ticks = [self._alone(Call(AFTERWARDS, "tick")) for _ in range(2)]
        if ticks[-1].answer:
            self._run.wrong.append(f"E5 batches still wait: {ticks[-1].answer}")
        return ticks

    def _delivered(self, call: Call) -> Call:
        return self._alone(Call(AFTERWARDS, "arrive", call.arguments))

    def _alone(self, call: Call) -> Call:
        self._run.world.step += 1
        done = self._run.alone(call)
        if done.verb == "tick" and done.error is not None:
            self._run.wrong.append(f"E5 tick failed with nobody around: {done.error!r}")
        return done

    def judge(self, clients: Sequence[Sequence[Call]]) -> None:
        """Add violations to the run's `wrong`."""
        run = self._run
        calls = [call for call in chain(*clients) if call.start != NEVER]
        history = self._history()
        marks = [mark for mark in history.values() if mark]
        if len(set(marks)) < len(marks):
            run.wrong.append(f"E3 more than one commit of a batch: {marks}")
        verdict = Judge(run, "main", calls)
        for call in calls:
            if call.verb not in ("arrive", "tick") or not call.acknowledged:
                continue
            for batch, commit in call.answer.items():
                if commit not in history and not any(each.verb == "hard" for each in calls):
                    run.wrong.append(f"E3 the commit of a batch is not in the history: {commit}")
                since = Call(call.client, "E4", start=self._closed[batch], end=call.end)
                verdict.check(f"E4 batch {batch}", run.content_of(commit), since)

    def _history(self) -> dict[str, str]:
        """The commits reachable from the head, each with the batch in its metadata ("" if none)."""
        found: dict[str, str] = {}
        todo, seen = [str(self._run.watched("main").heads[-1][1])], set[str]()
        while todo:
            here = todo.pop()
            record = self._run.commit_record(here) if here not in seen else None
            seen.add(here)
            if record is not None:
                found[here] = record.metadata.get(BATCH_KEY, "")
                todo.extend(record.parents)
        return found

    def _committed(self, calls: Sequence[Call]) -> None:
        run = self._run
        shown = run.shown("main")
        if shown == NO_BRANCH or any(call.verb in _MOVING for call in calls):
            return
        events = [event for call in calls for event in call.arguments if isinstance(event, Event)]
        others = {call.arguments[0] for call in calls if call.verb in ("write", "delete")}
        head = run.content_of(run.watched("main").heads[-1][1])
        for key in {event.key for event in events} - others:
            if isinstance(shown, dict) and head.get(key) != shown.get(key):
                run.wrong.append(f"E5 {key} is not committed: {head.get(key)} {shown.get(key)}")
