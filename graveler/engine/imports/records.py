"""What the sources of an import hold: few records in memory, the rest in ranges, in key order.

    list ──► in memory ──every 100,000──► a range, and the step that names it
                                              │ another runner
                                              ▼ takes the steps, and lists on behind the last
    for each source its ranges and what is in memory ──merge──► records; the later source wins

For importing.py.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed.reader import range_columns
from graveler.engine.commits.seal import Once
from graveler.engine.imports.sources import ImportPath, one, pages
from graveler.engine.jobs.record import Pulse
from graveler.engine.ports import Ports, keyspace
from graveler.ids import JobId
from graveler.records import ABSENT, Absent, RangeRef, Record, Repository
from graveler.refs.jobs import record
from graveler.refs.jobs.record import Step

_Ranked = tuple[bytes, int, bytes]


class Resumed(NamedTuple):
    """A run of a job that may not be the first and may not be the last: the mark of its commit,
    how long the job has lasted, and how many records it holds before it stores them as a step."""

    once: Once
    age_seconds: float = 0.0
    spill_count: int = limits.import_spill_count


class Steps:
    """What earlier runners of a job have listed, and where this one stores what it lists."""

    def __init__(self, ports: Ports, repo: Repository, resumed: Resumed) -> None:
        self._ports = ports
        self._repo = repo
        self._job = JobId(resumed.once.value)
        self.spill_count = resumed.spill_count
        self.done = record.steps(ports.kv, repo, self._job)

    def add(self, step: Step) -> Step:
        """Store a step; the one that counts, which is another runner's if that was first."""
        stamp = self._ports.ids.stamp()
        number = len(self.done)
        kept = record.add_step(self._ports.kv, self._repo, self._job, number, step, stamp)
        self.done.append(kept)
        return kept


class Found:
    """The records of all sources; may be read again and again."""

    def __init__(
        self,
        ports: Ports,
        repo: Repository,
        pulse: Pulse,
        steps: Steps | Literal[Absent.ABSENT] = ABSENT,
    ) -> None:
        self._ports = ports
        self._space = keyspace(ports, repo)
        self._pulse = pulse
        self._steps = steps
        self._ranges: dict[int, list[RangeRef]] = {}
        self._memory: dict[int, dict[bytes, bytes]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many were listed; a path that several sources give counts once if all its records
        are in memory."""
        if self._ranges:
            return self._count
        return len(set().union(*self._memory.values()))

    def take(self, number: int, source: ImportPath) -> None:
        """List a source; what was listed before is not listed again."""
        held = self._memory.setdefault(number, {})
        if source.kind == "object":
            key, value = one(self._ports, source)
            held[key] = value
            self._counted(1)
            return
        after = self._taken_up(number)
        while True:
            for records, listed in pages(self._ports, source, after):
                held.update(records)
                self._counted(len(records))
                if self._steps is not ABSENT and len(held) >= self._steps.spill_count:
                    after = self._spilled(number, listed)
                    break
            else:
                return

    def _counted(self, more: int) -> None:
        self._count += more
        self._pulse.beat(self._count)

    def _taken_up(self, number: int) -> str:
        """Where to list on."""
        after = ""
        for step in [] if self._steps is ABSENT else self._steps.done:
            if step.source == number:
                self._ranges.setdefault(number, []).append(step.found)
                self._count += step.found.count
                after = step.after
        return after

    def _spilled(self, number: int, after: str) -> str:
        """Put what is held in a range; where to list on."""
        assert self._steps is not ABSENT, "only a job that others may run stores steps"
        held = self._memory[number]
        ref = self._space.store.write_range(self._space.namespace, sorted(held.items()))
        kept = self._steps.add(Step(number, after, ref))
        self._ranges.setdefault(number, []).append(kept.found)
        self._count += kept.found.count - len(held)
        held.clear()
        return kept.after

    def __iter__(self) -> Iterator[Record]:
        last = b""
        ranked = merge(*(self._ranked(number) for number in self._memory))
        for count, (key, _, value) in enumerate(ranked):
            if count and key == last:
                continue
            last = key
            self._pulse.beat()
            yield key, value

    def _ranked(self, number: int) -> Iterator[_Ranked]:
        """Of one source; of equal keys those of the later source come first."""
        for ref in self._ranges.get(number, []):
            for columns in range_columns(self._space, ref):
                for key, value in columns.records:
                    yield key, -number, value
        for key, value in sorted(self._memory[number].items()):
            yield key, -number, value
