"""Joins the ranges of all buckets into one list, for one metarange.

    made       ├─r─┤├─r─┤├r┤‖├─r─┤├──r──┤├─r─┤‖├r┤├─r─┤       ‖: a cut
    result     ├─r─┤├─r─┤├── s ──┤├──r──┤├─ s ─────┤          s: a seam
A range that may end only because its bucket ended is a *seam*: a task writes it again with the
ranges after it, until a new end falls on an old one.  The result is that of a single writer.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.committed.ranges import Keyspace
from graveler.committed.writer import Assembler, Splitter
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef
from graveler.spark.places import Place, opened
from graveler.spark.range_writer import END, Bounds, bounds_of, side
from graveler.spark.tasks import (
    RANGES,
    SCHEMA,
    Part,
    Task,
    each_row,
    in_tasks,
    parts_of,
    ref_of,
    row_of,
    rows_of,
)

_SEAMS_EACH: Final = 4
_EVERYTHING: Final = Bounds(b"", END)
_SEAMS: Final = "start int, is_end boolean, pieces " + RANGES.replace(
    ">>", ",is_last:boolean,after:binary,upto:binary>>"
)


class Piece(NamedTuple):
    """A stored range of the result, or its records within `bounds`.  `is_last`: the range may end
    only because its bucket, or the base, ended."""

    ref: RangeRef
    is_last: bool
    bounds: Bounds = _EVERYTHING

    @property
    def is_whole(self) -> bool:
        """Whether all of its records count."""
        return self.bounds.holds(self.ref)


class Seam(NamedTuple):
    """The pieces from number `start` on, to be read until an end agrees.  `is_end`: no pieces
    follow."""

    start: int
    pieces: tuple[Piece, ...]
    is_end: bool


class SeamRanges(NamedTuple):
    """The ranges that replace the first `used` pieces of a seam.  `used` is 0 if no end agreed."""

    start: int
    used: int
    ranges: tuple[RangeRef, ...]


class Rounds(NamedTuple):
    """How seams are tried.  `span`: ranges for a seam at first; usually an end agrees after a few.
    `of_all`: after so many rounds, only the seam that is needed next is tried."""

    span: int = 12
    of_all: int = 3


ROUNDS: Final = Rounds()
Sewing = Callable[[Sequence[Seam]], Iterable[SeamRanges]]


def joined_over(
    sew: Sewing,
    breaks: BreakParameters,
    base: Sequence[RangeRef],
    cuts: Sequence[bytes],
    refs_of: Mapping[int, Sequence[RangeRef]],
    rounds: Rounds = ROUNDS,
) -> tuple[RangeRef, ...]:
    """The ranges of the whole key space.  `refs_of`: the ranges that tasks made, by bucket (an
    empty sequence: everything was deleted). Every other bucket keeps the ranges of the base."""
    splitter = Splitter(breaks)
    kept_ends = {ref.max_key for ref in base[:-1] if not splitter.closes(ref)}
    pieces: list[Piece] = []
    for bounds, refs in _stretches(cuts, refs_of):
        if refs is ABSENT:
            pieces += _of_base(base, bounds)
            continue
        for at, ref in enumerate(refs, 1):
            pieces.append(Piece(ref, at == len(refs) and ref.max_key not in kept_ends))
    result = tuple(_joined(pieces, splitter, sew, rounds))
    for before, ref in pairwise(result):
        if before.max_key >= ref.min_key:
            raise Invalid(f"write a metarange: ranges overlap: min_key={ref.min_key!r}")
    return result


def _stretches(
    cuts: Sequence[bytes], refs_of: Mapping[int, Sequence[RangeRef]]
) -> Iterator[tuple[Bounds, Sequence[RangeRef] | Literal[Absent.ABSENT]]]:
    """Every bucket that a task made, and the interval between two such buckets as one stretch."""
    begin = 0
    for bucket in sorted(refs_of):
        if begin < bucket:
            yield bounds_of(cuts, begin, bucket - 1), ABSENT
        yield bounds_of(cuts, bucket, bucket), refs_of[bucket]
        begin = bucket + 1
    if begin <= len(cuts):
        yield bounds_of(cuts, begin, len(cuts)), ABSENT


def _of_base(base: Sequence[RangeRef], bounds: Bounds) -> Iterator[Piece]:
    first = bisect_left(base, bounds.after, key=lambda ref: ref.max_key)
    for ref in base[first:]:
        if bounds.meets(ref):
            yield Piece(ref, ref is base[-1], bounds)
        elif ref.min_key > bounds.after:
            return


def _joined(
    pieces: Sequence[Piece], splitter: Splitter, sew: Sewing, rounds: Rounds
) -> list[RangeRef]:
    starts = [at for at in range(len(pieces)) if _is_seam(pieces, at, splitter)]
    seams, sewn = set(starts), dict[int, SeamRanges]()
    result: list[RangeRef] = []
    at, span, tried, due = 0, rounds.span, 0, starts
    while True:
        due = [start for start in due if start >= at and start not in sewn]
        seam_pieces = [
            Seam(start, tuple(pieces[start : start + span]), start + span >= len(pieces))
            for start in due
        ]
        sewn |= {
            part.start: part for part in (sew(seam_pieces) if seam_pieces else ()) if part.used
        }
        while at < len(pieces) and (at not in seams or at in sewn):
            seam = sewn[at] if at in seams else SeamRanges(at, 1, (pieces[at].ref,))
            result += seam.ranges
            at += seam.used
        if at == len(pieces):
            return result
        span, tried = span * 2, tried + 1
        due = due if tried < rounds.of_all else [at]


def _is_seam(pieces: Sequence[Piece], at: int, splitter: Splitter) -> bool:
    piece = pieces[at]
    if not piece.is_whole:
        return True
    return piece.is_last and at + 1 < len(pieces) and not splitter.closes(piece.ref)


# ---- one seam ------------------------------------------------------------------------------------


def here(space: Keyspace) -> Sewing:
    """Seams sewn by this process, one after another."""

    def sew(seams: Sequence[Seam]) -> list[SeamRanges]:
        return [_sewn(space, seam) for seam in seams]

    return sew


def _sewn(space: Keyspace, seam: Seam) -> SeamRanges:
    """Write one seam.  Memory: one open run."""
    assembler = Assembler(space)
    for used, piece in enumerate(seam.pieces, 1):
        if piece.is_whole:
            assembler.add_range(piece.ref, is_last=piece.is_last)
        else:
            _add_side(space, assembler, piece)
        if assembler.is_settled:
            return SeamRanges(seam.start, used, assembler.finish())
    if seam.is_end:
        return SeamRanges(seam.start, len(seam.pieces), assembler.finish())
    return SeamRanges(seam.start, 0, ())


def _add_side(space: Keyspace, assembler: Assembler, piece: Piece) -> None:
    for columns in side(space, piece.ref, piece.bounds):
        assembler.add_columns(columns)
    if piece.bounds.upto == END or piece.ref.max_key <= piece.bounds.upto:
        assembler.end_range(piece.ref, is_last=piece.is_last)


# ---- by tasks ------------------------------------------------------------------------------------


def sewing(place: Place) -> Task:
    """The function for `mapInArrow`: it takes seams and returns for each the rows of a part.  The
    part's bucket is the seam's start, and its `taken` is the number of pieces used."""

    def sewn(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        pieces = tuple(map(piece_of, row["pieces"]))
        seam = _sewn(opened(place).space, Seam(row["start"], pieces, row["is_end"]))
        yield rows_of(Part(seam.start, seam.ranges, seam.used, {}, ()))

    return each_row(sewn)


def by_tasks(spark: SparkSession, run: Task, seams_each: int = _SEAMS_EACH) -> Sewing:
    """Seams sewn by Spark tasks that execute `run`.  A task sews `seams_each`.  Only references to
    ranges reach the driver."""

    def sew(seams: Sequence[Seam]) -> Iterator[SeamRanges]:
        rows = [
            {
                "start": seam.start,
                "is_end": seam.is_end,
                "pieces": list(map(_row_of, seam.pieces)),
            }
            for seam in seams
        ]
        tasks = -(-len(rows) // seams_each)
        for part in parts_of(in_tasks(spark, rows, _SEAMS, run, SCHEMA, tasks).collect()):
            yield SeamRanges(part.bucket, part.taken, part.ranges)

    return sew


def _row_of(piece: Piece) -> dict[str, Any]:
    after, upto = piece.bounds
    return {**row_of(piece.ref), "is_last": piece.is_last, "after": after, "upto": upto}


def piece_of(row: Mapping[str, Any]) -> Piece:
    """The piece in a row that a task gets."""
    return Piece(ref_of(row), row["is_last"], Bounds(row["after"], row["upto"]))
