"""Checkpoints of a dump: the tables of refs, and the ranges of commits that were written so far.

    branches, tags ──► commits, range by range ──every 50,000 commits──► a checkpoint

    commits-<when the dump began, in nanoseconds>-<n>      ranges, in order

Each range ended at a break, so an attempt that continues after it writes the same ranges as a
single attempt would.  If the first table of a dump is so old that collection could delete it, the
dump begins again.  Used by dump.py.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from graveler import limits, wire
from graveler.committed.dumps import StoredTable
from graveler.engine.jobs.checkpoints import Step, Steps
from graveler.errors import Corrupt
from graveler.ids import MetarangeId, is_hex64
from graveler.records import ABSENT, Absent, RangeRef

_NAME: Final = re.compile(r"commits-([0-9]{20})-[0-9]{5}", re.ASCII)


class RefTables(NamedTuple):
    """The tables of the refs, with which a dump begins."""

    branches: StoredTable
    tags: StoredTable


class DumpSteps:
    """The checkpoints of earlier attempts, and where this attempt stores its own."""

    def __init__(self, steps: Steps, now_ns: int, seconds_max: int) -> None:
        """`now_ns`: when this attempt began.  Checkpoints of a dump that began more than
        `seconds_max` before are left out.  Cost: a get for each checkpoint."""
        self._steps = steps
        known = [match for match in map(_NAME.fullmatch, steps.names("commits-")) if match]
        oldest_ns = now_ns - seconds_max * limits.SECOND_NS
        fresh = (began_ns for match in known if (began_ns := int(match[1])) > oldest_ns)
        self.began_ns = next(fresh, now_ns)
        self.refs: RefTables | Literal[Absent.ABSENT] = ABSENT
        self.ranges: list[RangeRef] = []
        self._number = 0
        while (part := self._part()) is not ABSENT:
            self.refs = part.refs
            self.ranges += part.ranges
            self._number += 1
        self._held: list[RangeRef] = []

    @property
    def after(self) -> str:
        """The last commit in a checkpoint; empty if there is none."""
        return self.ranges[-1].max_key.decode("ascii") if self.ranges else ""

    def add(self, ref: RangeRef, refs: RefTables) -> None:
        """Record a range that follows all others and that a break has ended.  Cost: a put once a
        checkpoint is full.
        """
        if not self._steps.row_count:
            return
        self._held.append(ref)
        if sum(each.count for each in self._held) >= self._steps.row_count:
            rows = [wire.encode_range(each)[1].hex() for each in self._held]
            self._steps.add(self._name, Step({"begins": self.after, "refs": refs}, rows))
            self.ranges += self._held
            self._number += 1
            self._held = []

    @property
    def _name(self) -> str:
        return f"commits-{self.began_ns:020}-{self._number:05}"

    def _part(self) -> "_Part | Literal[Absent.ABSENT]":
        """The next checkpoint, if it continues where the one before it ended, for the same refs."""
        step = self._steps.read(self._name)
        if step is ABSENT or step.said.get("begins") != self.after:
            return ABSENT
        refs, ranges = _ref_tables(step.said.get("refs")), _ranges(step.rows, self.after)
        if refs is ABSENT or not ranges or self.refs not in (ABSENT, refs):
            return ABSENT
        return _Part(refs, ranges)


class _Part(NamedTuple):
    refs: RefTables
    ranges: Sequence[RangeRef]


def _ref_tables(pairs: object) -> RefTables | Literal[Absent.ABSENT]:
    """The tables in a checkpoint; ABSENT if they are invalid."""
    try:
        branches, tags = (_written(*each) for each in _list(pairs))
    except (ValueError, TypeError):
        return ABSENT
    return RefTables(branches, tags)


def _written(id: object, files: object) -> StoredTable:
    names = [_hex64(name) for name in _list(files)]
    return StoredTable(MetarangeId(_hex64(id)), tuple(names))


def _ranges(rows: Sequence[object], after: str) -> Sequence[RangeRef]:
    """The ranges in a checkpoint.  None if they are invalid: their keys must be ids of commits, all
    after `after`.
    """
    try:
        ranges = [wire.decode_range(bytes.fromhex(_text(row))) for row in rows]
        for ref in ranges:
            _hex64(ref.id), _hex64(ref.min_key.decode("ascii")), _hex64(ref.max_key.decode("ascii"))
    except (ValueError, TypeError, Corrupt):
        return []
    keys = [after.encode(), *(key for ref in ranges for key in (ref.min_key, ref.max_key))]
    return ranges if all(left <= right for left, right in pairwise(keys)) else []


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _hex64(value: object) -> str:
    text = _text(value)
    if not is_hex64(text):
        raise ValueError("not an id")
    return text
