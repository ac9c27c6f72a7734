"""The differences between two commits: many tasks compare one stretch of the keys each.

    left    ├─a─┤├──b──┤├─c─┤├────d────┤     both sides have a: no task reads it
    right   ├─a─┤├─e─┤├─f─┤  ├──g──┤├h─┤
    stretch      └────1─────┘└────2────┘     ranges that overlap; a large stretch is cut
Each range is read whole and compared with its line in the metarange, so damage raises.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from graveler.arrow.decode import COLUMNS, decoded, schema_of
from graveler.arrow.scan import meeting, records_of
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import range_columns
from graveler.core.errors import Invalid
from graveler.core.identity import identity_of
from graveler.core.ids import parse_prefix
from graveler.core.records import ABSENT, Difference, RangeRef
from graveler.spark.lake import Lake, Pin, parse_names, pinned
from graveler.spark.places import Place, opened
from graveler.spark.tasks import RANGES, each_row, in_tasks, ref_of, row_of, tasks_for

STRETCHES: Final = f"left {RANGES}, right {RANGES}, after binary, upto binary"
_RECORDS_MAX: Final = 1_000_000  # of both sides, in a stretch that can be cut
_RANGES_MIN: Final = 4  # times the largest range is the least size of a part: little is read twice
_ROWS: Final = 4_096  # in a batch
DIFF_COLUMNS: Final = ("address", "size", "checksum", "mtime")


class Stretch(NamedTuple):
    """The ranges of both sides that have keys greater than `after` and up to `upto`, with all
    ranges of the other side that overlap them.  Only the keys in this interval are compared.  An
    empty bound means no bound."""

    left: tuple[RangeRef, ...]
    right: tuple[RangeRef, ...]
    after: bytes = b""
    upto: bytes = b""

    @property
    def records(self) -> int:
        """How many records a task reads for this stretch."""
        return sum(ref.count for ref in (*self.left, *self.right))

    def row(self) -> dict[str, Any]:
        """The stretch as a row of `STRETCHES`."""
        sides = {"left": list(map(row_of, self.left)), "right": list(map(row_of, self.right))}
        return {**sides, "after": self.after, "upto": self.upto}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The instructions of a diff, equal for every task.  They go to the executors, so they hold no
    secret."""

    place: Place
    prefix: bytes
    columns: tuple[str, ...]


def stretches(
    left: Sequence[RangeRef], right: Sequence[RangeRef], records_max: int = _RECORDS_MAX
) -> list[Stretch]:
    """The ranges that only one side has, in stretches, in key order.  `left` and `right` are in key
    order.  A stretch of more than `records_max` records is cut, if its ranges are small enough."""
    whole = _overlapping(left, right)
    return [part for each in whole for part in _parts(each, records_max)]


def _parts(whole: Stretch, records_max: int) -> Iterator[Stretch]:
    """The stretch itself, or parts of it that together have each of its keys once."""
    refs = sorted((*whole.left, *whole.right), key=lambda ref: ref.max_key)
    enough = max(records_max, _RANGES_MIN * max(ref.count for ref in refs))
    cuts: list[bytes] = []
    count = 0
    for ref in refs:
        count += ref.count
        if count >= enough:
            cuts.append(ref.max_key)
            count = 0
    if cuts and cuts[-1] >= refs[-1].max_key:
        cuts.pop()
    for after, upto in pairwise([b"", *cuts, b""]):
        left, right = (
            tuple(ref for ref in side if ref.max_key > after and (not upto or ref.min_key <= upto))
            for side in (whole.left, whole.right)
        )
        yield Stretch(left, right, after, upto)


def _overlapping(left: Sequence[RangeRef], right: Sequence[RangeRef]) -> list[Stretch]:
    shared = {ref.id for ref in left} & {ref.id for ref in right}
    sided = [(ref, side) for side, refs in enumerate((left, right)) for ref in refs]
    sided = [each for each in sided if each[0].id not in shared]
    sided.sort(key=lambda each: each[0].min_key)
    groups: list[Stretch] = []
    held: tuple[list[RangeRef], list[RangeRef]] = [], []
    end = b""
    for ref, side in sided:
        if end and ref.min_key > end:
            groups.append(Stretch(tuple(held[0]), tuple(held[1])))
            held, end = ([], []), b""
        held[side].append(ref)
        end = max(end, ref.max_key)
    if end:
        groups.append(Stretch(tuple(held[0]), tuple(held[1])))
    return groups


def comparing(order: Comparison) -> Any:
    """The function for `mapInArrow`: it takes rows of stretches and returns rows of differences."""

    def compared(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        left, right = (tuple(map(ref_of, row[side])) for side in ("left", "right"))
        stretch = Stretch(left, right, row["after"], row["upto"])
        differing = differences(opened(order.place).space, stretch)
        yield from _batches(
            (each for each in differing if each.key.startswith(order.prefix)), order
        )

    return each_row(compared)


def differences(space: Keyspace, stretch: Stretch) -> Iterator[Difference]:
    """The keys of a stretch whose values differ in identity, in key order.  Reads every range to
    its end.  Raises `Corrupt`."""
    readers = _Side(space, stretch.left, stretch), _Side(space, stretch.right, stretch)
    while ends := [side.keys[-1] for side in readers if side.keys]:
        old, new = (side.take(min(ends)) for side in readers)
        for key in sorted({key for key, _ in old.items() ^ new.items()}):
            before, after = old.get(key, ABSENT), new.get(key, ABSENT)
            if before is ABSENT:
                yield Difference("added", key, before, after)
            elif after is ABSENT:
                yield Difference("removed", key, before, after)
            elif identity_of(before) != identity_of(after):
                yield Difference("changed", key, before, after)


class _Side:
    """The records of some ranges within the bounds of a stretch, block by block.  `keys` is empty
    only at the end."""

    def __init__(self, space: Keyspace, refs: Sequence[RangeRef], stretch: Stretch) -> None:
        self._blocks = chain.from_iterable(range_columns(space, ref) for ref in refs)
        self._bounds = stretch.after, stretch.upto
        self.keys: Sequence[bytes] = ()
        self._values: Sequence[bytes] = ()
        self._load()

    def take(self, end: bytes) -> dict[bytes, bytes]:
        """The records up to `end` that were not taken yet."""
        taken: dict[bytes, bytes] = {}
        while self.keys and self.keys[0] <= end:
            cut = bisect_right(self.keys, end)
            taken.update(zip(self.keys[:cut], self._values[:cut], strict=True))
            self.keys, self._values = self.keys[cut:], self._values[cut:]
            self._load()
        return taken

    def _load(self) -> None:
        while not self.keys:
            block = next(self._blocks, None)
            if block is None:
                return
            after, upto = self._bounds
            first = bisect_right(block.keys, after)
            last = bisect_right(block.keys, upto) if upto else len(block.keys)
            self.keys, self._values = block.keys[first:last], block.values[first:last]


# ---- differences as Arrow ------------------------------------------------------------------------


def _batches(differing: Iterator[Difference], order: Comparison) -> Iterator[pa.RecordBatch]:
    held: list[Difference] = []
    for difference in differing:
        held.append(difference)
        if len(held) == _ROWS:
            yield _batch(held, order)
            held = []
    if held:
        yield _batch(held, order)


def _batch(differing: Sequence[Difference], order: Comparison) -> pa.RecordBatch:
    keys = [each.key for each in differing]
    path = decoded(records_of(keys, keys), order.place.namespace, ("path",)).column(0)
    arrays = [pa.array([each.kind for each in differing]), path]
    names = ["type", "path"]
    for side in ("left", "right"):
        values = [getattr(each, side) for each in differing]
        present = [at for at, value in enumerate(values) if value is not ABSENT]
        known = records_of([keys[at] for at in present], [values[at] for at in present])
        part = decoded(known, order.place.namespace, order.columns)
        row = {at: number for number, at in enumerate(present)}
        places = pa.array([row.get(at) for at in range(len(differing))], pa.int32())
        arrays += [part.column(at).take(places) for at in range(len(order.columns))]
        names += [f"{side}_{name}" for name in order.columns]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def diff(
    lake: Lake,
    left: str,
    right: str,
    prefix: str = "",
    columns: str | Sequence[str] = DIFF_COLUMNS,
) -> DataFrame:
    """The paths with `prefix` on which two refs of one repository differ; both are
    "repository/ref".

    Columns: `type` (added, removed, changed), `path`, and for each of `columns` (those of `entries`
    without the path) its value at the left ref, `left_…`, and at the right ref, `right_…`; null
    where there is no entry.  Only content counts: the same bytes at another address are no change.

    Errors: `Invalid`, `NotFound`; in tasks `Corrupt` or `Unavailable`, wrapped by Spark.  Cost: 4
    requests to the API and one metarange for each side; each evaluation reads the ranges that only
    one side has and that may hold the prefix.
    """
    comparison = compared(lake, left, right, prefix, parse_names(columns))
    records = sum(each.records for each in comparison.stretches)
    files = sum(len(each.left) + len(each.right) for each in comparison.stretches)
    tasks = tasks_for(lake.spark, records, files)
    rows = [each.row() for each in comparison.stretches]
    return in_tasks(lake.spark, rows, STRETCHES, comparison.run, comparison.schema, tasks)


class DiffPlan(NamedTuple):
    """The columns of a diff, the stretches to compare, and the function that compares one
    stretch."""

    schema: str
    stretches: Sequence[Stretch]
    run: Any


def compared(lake: Lake, left: str, right: str, prefix: str, columns: Sequence[str]) -> DiffPlan:
    """The part of `diff` that needs no Spark session."""
    unknown = [name for name in columns if name not in COLUMNS or name == "path"]
    if unknown:
        raise Invalid(f"unknown columns of an entry: {','.join(unknown)}")
    start = parse_prefix(prefix)
    pins = _whole(lake, left), _whole(lake, right)
    if pins[0].repository != pins[1].repository:
        raise Invalid(f"refs must be of one repository: {left=} {right=}")
    before, after = (meeting(side.ranges(), start) for side in pins)
    order = Comparison(pins[0].place, start, tuple(columns))
    schema = ", ".join(
        ["type string", "path string", *_renamed("left", columns), *_renamed("right", columns)]
    )
    return DiffPlan(schema, stretches(before, after), comparing(order))


def _renamed(side: str, columns: Sequence[str]) -> list[str]:
    return [f"{side}_{schema_of([name])}" for name in columns]


def _whole(lake: Lake, where: str) -> Pin:
    at = pinned(lake, where)
    if at.prefix:
        raise Invalid(
            f"a ref of a diff must be repository/ref; give the prefix separately: {where!r:.200}"
        )
    return at
