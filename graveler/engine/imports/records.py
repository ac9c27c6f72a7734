"""The records of an import, in key order: some in memory, the rest stored in ranges.

    list ──► memory ──every 100,000 records──► a range, and a checkpoint (`Step`) that names it
                                                 │ the next attempt
                                                 ▼ reads the checkpoints, and lists from the last on
    for each source: its ranges, then its memory ──merge──► records; of equal keys the later source
                                                            wins

Used by `run.py`.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed.reader import range_columns
from graveler.engine.commits.search import Once
from graveler.engine.imports.sources import (
    NOTHING_SKIPPED,
    ImportPath,
    SkippedNames,
    one,
    pages,
)
from graveler.engine.jobs.record import Heartbeat
from graveler.engine.ports import OpenRepository, keyspace
from graveler.errors import Contended, Invalid
from graveler.ids import JobId
from graveler.records import ABSENT, Absent, RangeRef, Record
from graveler.refs.jobs import record
from graveler.refs.jobs.record import Step

_Ranked = tuple[bytes, int, bytes]


class ImportState(NamedTuple):
    """The state of a job that several attempts may work on, one after the other.

    - `once`: the idempotency key of its commit; the value is the job's id.
    - `age_seconds`: the age of the job.
    - `spill_count`: how many records an attempt holds in memory before it stores a checkpoint.
    """

    once: Once
    age_seconds: float = 0.0
    spill_count: int = limits.import_spill_count


class Steps:
    """The checkpoints of a job: `done` holds those of earlier attempts and of this one."""

    def __init__(self, repo: OpenRepository, resumed: ImportState) -> None:
        self._repo = repo
        self._job = JobId(resumed.once.value)
        self.spill_count = resumed.spill_count
        self.done = record.steps(repo.kv, repo.record, self._job)

    def add(self, step: Step) -> Step:
        """Store a checkpoint.  Return the one that counts: another attempt's, if that was first."""
        stamp = self._repo.ids.stamp()
        number = len(self.done)
        stored = record.add_step(self._repo.kv, self._repo.record, self._job, number, step, stamp)
        self.done.append(stored)
        return stored


class SourceRecords:
    """The records of all sources, in key order; may be iterated many times."""

    def __init__(
        self, repo: OpenRepository, pulse: Heartbeat, steps: Steps | Literal[Absent.ABSENT] = ABSENT
    ) -> None:
        self._ports = repo
        self._space = keyspace(repo)
        self._pulse = pulse
        self._steps = steps
        self._ranges: dict[int, list[RangeRef]] = {}
        self._memory: dict[int, dict[bytes, bytes]] = {}
        self._count = 0
        self.skipped = NOTHING_SKIPPED

    def __len__(self) -> int:
        """The number of listed records.

        If all records are in memory, a path of several sources counts once.
        """
        if self._ranges:
            return self._count
        return len(set().union(*self._memory.values()))

    def take(self, number: int, source: ImportPath) -> None:
        """List the source with this number, from its last checkpoint on.  Raises `Invalid` for one
        of which everything is skipped."""
        held = self._memory.setdefault(number, {})
        if source.kind == "object":
            key, value = one(self._ports, source)
            held[key] = value
            self._counted(1)
            return
        after = self._taken_up(number)
        skipped = NOTHING_SKIPPED
        while True:
            listed, is_over = after, True
            for page in pages(self._ports, source, after):
                listed = page.last
                held.update(page.records)
                skipped = skipped.plus(page.skipped)
                self._counted(len(page.records))
                if self._is_full(len(held)):
                    is_over = False
                    break
            # What is left of many sources must fit into memory as well.
            if is_over and not (held and self._is_full(sum(map(len, self._memory.values())))):
                if not held and number not in self._ranges:
                    _check_empty(source, skipped)
                self.skipped = self.skipped.plus(skipped)
                return
            after = self._spilled(number, listed, skipped)
            skipped = NOTHING_SKIPPED
            if is_over and after == listed:
                return

    def _is_full(self, count: int) -> bool:
        return self._steps is not ABSENT and count >= self._steps.spill_count

    def _counted(self, more: int) -> None:
        self._count += more
        self._pulse.beat(self._count)

    def _taken_up(self, number: int) -> str:
        """Read the checkpoints of a source; return the address to continue the listing behind."""
        after = ""
        for step in [] if self._steps is ABSENT else self._steps.done:
            if step.source == number:
                self._ranges.setdefault(number, []).append(step.found)
                self._count += step.found.count
                self._note_skipped(step)
                after = step.after
        return after

    def _note_skipped(self, step: Step) -> None:
        self.skipped = self.skipped.plus(SkippedNames(step.skipped, step.examples))

    def _spilled(self, number: int, after: str, skipped: SkippedNames) -> str:
        """Store the records in memory as a range with a checkpoint.

        Returns the address to continue the listing behind.
        """
        assert self._steps is not ABSENT, "only a job that others may run stores steps"
        held = self._memory[number]
        ref = self._space.store.write_range(self._space.namespace, sorted(held.items()))
        stored = self._steps.add(Step(number, after, ref, *skipped))
        if stored.source != number:  # of an attempt that was overtaken, and got as far as here
            raise Contended("another attempt of the import was at another source; begin again")
        self._note_skipped(stored)
        self._ranges.setdefault(number, []).append(stored.found)
        self._count += stored.found.count - len(held)
        held.clear()
        return stored.after

    def __iter__(self) -> Iterator[Record]:
        if len(self._memory) == 1:  # nothing to merge
            (number,) = self._memory
            for key, _, value in self._ranked(number):
                self._pulse.beat()
                yield key, value
            return
        last = b""
        ranked = merge(*(self._ranked(number) for number in self._memory))
        for count, (key, _, value) in enumerate(ranked):
            if count and key == last:
                continue
            last = key
            self._pulse.beat()
            yield key, value

    def _ranked(self, number: int) -> Iterator[_Ranked]:
        """The records of one source; in a merge, a later source sorts first among equal keys."""
        for ref in self._ranges.get(number, []):
            for columns in range_columns(self._space, ref):
                for key, value in columns.records:
                    yield key, -number, value
        for key, value in sorted(self._memory[number].items()):
            yield key, -number, value


def _check_empty(source: ImportPath, skipped: SkippedNames) -> None:
    """Raises `Invalid` for a source without records that has names, such as links to a disk that is
    not mounted: it is not empty, so the import must not remove what is below its destination."""
    if skipped.total:
        raise Invalid(
            f"invalid import source: none of its names can be imported: path={source.path[:200]} "
            f"names={skipped.total} first={skipped.examples[0]}"
        )
