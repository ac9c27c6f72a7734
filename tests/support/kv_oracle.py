"""An oracle for key-value stores: a sorted dictionary that gives the right answers, and random
programs that compare them with a store's.

It is written separately from the memory store, as simply as possible, so that the two do not share
a mistake.  The contract suite uses it.
"""

import random
from collections.abc import Callable
from typing import Literal

from graveler.core.records import Absent
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Guarded,
    Matches,
    Moved,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    RowVersion,
    Store,
    Write,
    guard_of,
    scan_all,
)

_PARTITIONS = (b"p", b"p\0", b"pp", b"\xff")
_PIECES = (b"\0", b"\xff", b"a", b"b", b"a\0")


class Oracle:
    """Rows by place; every answer is computed anew."""

    def __init__(self) -> None:
        self.rows: dict[Place, Row] = {}

    def scan(self, partition: bytes, start: bytes, end: bytes) -> list[tuple[bytes, Row]]:
        rows = [(key, row) for (owner, key), row in self.rows.items() if owner == partition]
        return sorted((k, row) for k, row in rows if k >= start and (end == b"" or k < end))

    def set_if(self, place: Place, row: Row, condition: Condition) -> Outcome:
        other = True
        if isinstance(condition, Guarded):
            other = self._holds(condition.place, guard_of(condition))
            condition = condition.row
        if isinstance(condition, Moved):
            moved = self._holds(condition.place, Matches(condition.version))
            outcome = self._write(place, row, moved)
            if outcome is WRITTEN:
                del self.rows[condition.place]
            return outcome
        pair: Write | None = None
        if isinstance(condition, Paired):
            pair = condition.write
            other = self._holds((pair.partition, pair.key), condition.other)
            if condition.guard is not ABSENT:
                at, version = condition.guard
                other = other and self._holds(at, Matches(version))
            condition = condition.row
        outcome = self._write(place, row, other and self._holds(place, condition))
        if outcome is WRITTEN and pair is not None:
            self.rows[pair.partition, pair.key] = Row(pair.value, pair.version)
        return outcome

    def _holds(self, place: Place, condition: Matches | Literal[Absent.ABSENT]) -> bool:
        current = self.rows.get(place)
        if condition is ABSENT:
            return current is None
        return current is not None and current.version == condition.version

    def set_newer(self, place: Place, row: Row) -> Outcome:
        current = self.rows.get(place)
        return self._write(place, row, current is None or row.order > current.order)

    def _write(self, place: Place, row: Row, holds: bool) -> Outcome:
        if not holds:
            return Declined(self.rows.get(place, ABSENT))
        self.rows[place] = row
        return WRITTEN


class _Program:
    """One random program, run on a store and on the oracle."""

    def __init__(self, store: Store, oracle: Oracle, chance: random.Random) -> None:
        self.store = store
        self.oracle = oracle
        self.chance = chance
        self.stamps = 0

    def place(self) -> Place:
        return self.chance.choice(_PARTITIONS), self.key()

    def key(self) -> bytes:
        return b"".join(self.chance.choices(_PIECES, k=self.chance.randint(1, 3)))

    def row(self, order: int = 0) -> Row:
        self.stamps += 1
        value = self.chance.choice((b"", b"\0", b"\xff", b"v%d" % self.stamps))
        return Row(value, b"%016d" % self.stamps, order)

    def get(self) -> None:
        place = self.place()
        assert self.store.get(*place) == self.oracle.rows.get(place, ABSENT), place

    def get_many(self) -> None:
        places = [self.place() for _ in range(self.chance.randint(0, 8))]
        expected = {place: self.oracle.rows[place] for place in places if place in self.oracle.rows}
        assert self.store.get_many(places) == expected, places

    def scan(self) -> None:
        partition, start = self.place()
        start = self.chance.choice((b"", start))
        end = self.chance.choice((b"", self.key()))
        page = self.chance.choice((1, 2, 5, 100))
        rows = list(scan_all(self.store, partition, start, end, page))
        assert rows == self.oracle.scan(partition, start, end), (partition, start, end, page)

    def set(self) -> None:
        place, row = self.place(), self.row()
        self.store.set(*place, row.value, row.version)
        self.oracle.rows[place] = row

    def set_many(self) -> None:
        rows = {self.place(): self.row() for _ in range(self.chance.randint(0, 5))}
        self.store.set_many([Write(*place, row.value, row.version) for place, row in rows.items()])
        self.oracle.rows.update(rows)

    def set_if(self) -> None:
        place, row = self.place(), self.row(self.chance.randint(0, 9))
        condition: Condition = self.condition(place)
        second, drawn = self.place(), self.chance.random()
        if drawn < 0.3:
            guard = self.oracle.rows.get(second)
            version = b"%016d" % 1 if guard is None else guard.version
            absent = self.chance.random() < 0.2
            condition = Guarded(self.condition(place), second, ABSENT if absent else version)
        elif drawn < 0.6 and second != place:
            also = self.row()
            write = Write(*second, also.value, also.version)
            condition = Paired(self.condition(place), self.condition(second), write)
            third = self.place()
            if drawn < 0.45 and third not in (place, second):
                guard = self.oracle.rows.get(third)
                version = b"%016d" % 1 if guard is None else guard.version
                condition = condition._replace(guard=RowVersion(third, version))
        elif drawn < 0.75 and second != place:
            moved = self.oracle.rows.get(second)
            condition = Moved(second, b"%016d" % 1 if moved is None else moved.version)
        expected = self.oracle.set_if(place, row, condition)
        outcome = self.store.set_if(*place, row.value, row.version, condition, row.order)
        assert outcome == expected, (place, condition)

    def condition(self, place: Place) -> Matches | Literal[Absent.ABSENT]:
        known = self.oracle.rows.get(place)
        if known is None or self.chance.random() < 0.3:
            return ABSENT
        return Matches(self.chance.choice((known.version, known.version, b"%016d" % 1)))

    def set_newer(self) -> None:
        """One row, or several at once."""
        together = self.chance.random() < 0.3
        places = {self.place() for _ in range(self.chance.randint(0, 6) if together else 1)}
        rows = [(place, self.row(self.chance.randint(1, 9))) for place in sorted(places)]
        expected = [self.oracle.set_newer(place, row) for place, row in rows]
        newer = [Newer(*place, row.value, row.version, row.order) for place, row in rows]
        if together:
            outcomes = list(self.store.set_newer_many(newer))
        else:
            outcomes = [self.store.set_newer(*newer[0])]
        assert outcomes == expected, newer

    def delete(self) -> None:
        partition = self.chance.choice(_PARTITIONS)
        keys = [self.key() for _ in range(self.chance.choice((0, 1, 2, 12)))]
        rows = [self.oracle.rows.get((partition, key)) for key in keys]
        versions = [b"%016d" % 1 if row is None else row.version for row in rows]
        if self.chance.random() < 0.5:
            self.store.delete(partition, keys)
        else:
            versions = [self.chance.choice((version, b"%016d" % 1)) for version in versions]
            self.store.delete(partition, keys, versions)
        for key, version in zip(keys, versions, strict=True):
            row = self.oracle.rows.get((partition, key))
            if row is not None and row.version == version:
                del self.oracle.rows[partition, key]


def compare_at_random(store: Store, seed: int, steps: int) -> None:
    """Run `steps` random requests on an empty store and on the oracle; every answer must be equal.

    A failure names the seed; the same seed runs the same program.
    """
    program = _Program(store, Oracle(), random.Random(seed))
    verbs: list[Callable[[], None]] = [
        *[program.get, program.set_if, program.set_newer] * 3,
        *[program.get_many, program.scan, program.set, program.set_many, program.delete],
    ]
    for step in range(steps):
        try:
            program.chance.choice(verbs)()
        except Exception as error:
            error.add_note(f"replay with {seed=}, failed at {step=}")
            raise
