"""Where a key space is cut for parallel writers, and how rows reach their writer.

A range ends after each *break key* (1 in 2,000, by the hash of the key), so writers that begin
after one write the ranges of a single writer.  Cuts are every m-th break key, and *spare* keys
(other bits of the hash) where break keys are missing.  The first pass finds them inside the JVM.
One bucket between two cuts is one task; Spark sends rows to it by the hash of a number.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from graveler.core import limits
from graveler.core.identity import break_hash, break_seed
from graveler.core.records import BreakParameters
from graveler.spark.tasks import NO_DIGEST, RowDigest

_ROWS_WANTED: Final = 300_000  # in a bucket, on average
_ROWS_MOST: Final = 500_000  # a task can hold these
_ROW_BYTES: Final = 170  # of key and value, approximately
_RANGES_WANTED: Final = 8  # in a bucket, because ranges at its ends are written twice
SPARE_ROWS: Final = 250_000  # for each spare key, on average
_SPARE_COUNT: Final = 8  # this many in one bucket do not occur by chance
_SPARE_SHIFT: Final = 20  # spare keys are chosen by other bits than breaks
_PARTITIONER_SEED: Final = 42
_WORD: Final = 0xFFFFFFFF
PATH: Final = ("path",)
ROW: Final = ("path", "address", "size", "checksum", "mtime", "content_type", "metadata")
ENDS: Final = "graveler_ends"
_BUCKET: Final = "graveler_bucket"
_KEPT: Final = "graveler_kept"
HASH: Final = "graveler_hash"
_SUM_SHIFT: Final = 34  # 30 bits a row: the sum over 8 G rows fits 63 bits
_TEXT: Final = "graveler_key"
_SEPARATOR: Final = "\0"  # no path has it


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of the first pass.  `count`: how many rows; `breaks`: the break keys, sorted, each
    once; `content`: of the rows that have a path, by the columns that were asked for; `spare`: the
    spare keys, sorted; `nameless`: how many rows have no path."""

    count: int
    breaks: tuple[bytes, ...]
    content: RowDigest = NO_DIGEST
    spare: tuple[bytes, ...] = ()
    nameless: int = 0

    def with_longer_ranges(self, breaks: BreakParameters) -> "Survey":
        """As if it had been made for `breaks`, whose raggedness is a multiple of the present one:
        its break keys are some of the present ones."""
        seed = break_seed(breaks.salt)
        ends = (key for key in self.breaks if break_hash(key, seed) % breaks.raggedness == 0)
        return replace(self, breaks=tuple(ends))


def survey(
    rows: DataFrame,
    breaks: BreakParameters,
    *,
    hashed: Sequence[str] = (),
    spare_rows: int = SPARE_ROWS,
) -> Survey:
    """Read the column `path` of all `rows` once, and the columns `hashed`, of which the content is.
    One key in `spare_rows` is a spare key."""
    path = F.col("path")
    usable = path.isNotNull() & (F.length(path) <= limits.path_length_bytes_max)
    is_kept = usable & (is_break(path, breaks) | _is_spare(path, breaks, spare_rows))
    # Separate columns: Spark does not compile an expression inside `collect_set`.
    columns = [path, is_kept.alias(_KEPT)]
    sums = [
        F.count(F.lit(1)).alias("count"),
        F.count(path).alias("named"),
        F.collect_set(F.when(F.col(_KEPT), path)).alias("kept"),
    ]
    if hashed:
        columns.append(F.when(path.isNotNull(), _hash(rows, hashed)).alias(HASH))
        sums.append(F.sum(F.shiftrightunsigned(HASH, _SUM_SHIFT)).alias("total"))
        sums.append(F.bit_xor(HASH).alias("parity"))
    row = rows.select(*columns).agg(*sums).collect()[0]
    content = RowDigest(row["total"] or 0, row["parity"] or 0) if hashed else NO_DIGEST
    count, seed = int(row["count"]), break_seed(breaks.salt)
    hashes = {key: break_hash(key, seed) for key in sorted(map(bytes, row["kept"]))}
    ends = tuple(key for key, hashed in hashes.items() if hashed % breaks.raggedness == 0)
    spare = tuple(key for key, hashed in hashes.items() if _is_spare_hash(hashed, spare_rows))
    return Survey(count, ends, content, spare, count - int(row["named"]))


def _hash(rows: DataFrame, names: Sequence[str]) -> Column:
    """The hash of those of these columns that the rows have.  Spark does not hash maps, because
    their pairs have no order; so they are sorted."""
    columns = [F.col(name) for name in names if name in rows.columns and name != "metadata"]
    if "metadata" in names and "metadata" in rows.columns:
        columns.append(F.array_sort(F.map_entries(F.col("metadata"))))
    return F.xxhash64(*columns)


def with_hashes(rows: DataFrame, hashed: Sequence[str]) -> DataFrame:
    """`rows` with one more column, `HASH`: a hash over the columns `hashed`, which `digest_of`
    adds up."""
    return rows.withColumn(HASH, _hash(rows, hashed))


def digest_of(hashes: Any) -> RowDigest:
    """The content of rows from their hashes, a numpy array of signed 64-bit numbers."""
    total = int((hashes.view(np.uint64) >> np.uint64(_SUM_SHIFT)).sum())
    return RowDigest(total, int(np.bitwise_xor.reduce(hashes)))


def is_break(path: Column, breaks: BreakParameters) -> Column:
    """Whether a range may end after a key; the rule of `committed.split.Splitter`."""
    return unsigned_modulo(_hashed_key(path, breaks), breaks.raggedness) == F.lit(0)


def with_ends(rows: DataFrame, breaks: BreakParameters) -> DataFrame:
    """`rows` with one more column, `ENDS`: whether a range may end after the path.  Spark needs a
    fifth of the time that Python needs to hash a key."""
    return rows.withColumn(ENDS, is_break(F.col("path"), breaks))


def _is_spare(path: Column, breaks: BreakParameters, spare_rows: int) -> Column:
    bits = F.shiftrightunsigned(_hashed_key(path, breaks), _SPARE_SHIFT)
    return bits % F.lit(spare_rows) == F.lit(0)


def _is_spare_hash(hashed: int, spare_rows: int) -> bool:
    return (hashed >> _SPARE_SHIFT) % spare_rows == 0


def _hashed_key(path: Column, breaks: BreakParameters) -> Column:
    return F.xxhash64(literal(breaks.salt), path)


def unsigned_modulo(number: Column, divisor: int) -> Column:
    """The remainder of an unsigned 64-bit number, which Spark reads as a signed one."""
    half = F.pmod(F.shiftrightunsigned(number, 1), F.lit(divisor))
    return F.pmod(half * F.lit(2) + number.bitwiseAND(F.lit(1)), F.lit(divisor))


def literal(raw: bytes) -> Column:
    """Bytes as a constant column."""
    return F.unhex(F.lit(raw.hex()))


def chosen(known: Survey, breaks: BreakParameters, tasks: int) -> tuple[bytes, ...]:
    """The keys to cut at.  Buckets have at most a few hundred thousand rows, or more if ranges have
    a minimum size.  There are `tasks` of them if there are enough breaks, or a multiple, unless
    that would leave too few ranges in a bucket.  Spare keys are added where breaks are missing."""
    least = _RANGES_WANTED * breaks.min_size // _ROW_BYTES
    by_size = -(-min(_ROWS_MOST, max(_ROWS_WANTED, least)) // breaks.raggedness)
    pieces, tasks = len(known.breaks) + 1, max(1, tasks)
    at_once = 1 if breaks.min_size else tasks
    count = min(pieces, max(tasks, at_once * -(-pieces // (by_size * at_once))))
    ends = (known.breaks[pieces * number // count - 1] for number in range(1, count))
    at = tuple(filter(_is_constant, ends))
    more: set[bytes] = set()
    for number in range(len(at) + 1):
        first = bisect_right(known.spare, at[number - 1]) if number else 0
        last = bisect_left(known.spare, at[number]) if number < len(at) else len(known.spare)
        if last - first >= _SPARE_COUNT:
            more.update(filter(_is_constant, known.spare[first:last]))
    return tuple(sorted(more.union(at))) if more else at


def _is_constant(key: bytes) -> bool:
    """Whether a key can be a part of the constant in which Spark gets the cuts."""
    try:
        return _SEPARATOR not in key.decode()
    except UnicodeDecodeError:
        return False


def spread(
    rows: DataFrame, cuts: Sequence[bytes], without: Collection[int] = frozenset()
) -> DataFrame:
    """`rows`, each in the task of its bucket, without the rows of the buckets in `without`.  Rows
    without a path go to the first bucket."""
    count = len(cuts) + 1
    if count == 1:
        return rows.where(F.lit(0 not in without)).repartition(1)
    numbers = _constants(list(map(str, task_numbers(count)))).cast("array<int>")
    placed = with_bucket(rows, cuts)
    if without:
        placed = placed.where(~F.col(_BUCKET).isin(*without))
    placed = placed.withColumn(_BUCKET, F.get(numbers, F.col(_BUCKET)))
    return placed.repartition(count, F.col(_BUCKET)).drop(_BUCKET)


def with_bucket(rows: DataFrame, cuts: Sequence[bytes]) -> DataFrame:
    """`rows` with one more column: the number of cuts below the path.  This is a binary search
    inside the JVM, with one column for each step; as one expression, it would double in size at
    each step.  Spark compares texts byte by byte, whatever the bytes are, and takes the bytes of a
    path as a text without a copy.  So all cuts fit into one constant."""
    bounds = _constants([cut.decode() for cut in cuts])
    bucket, key = F.col(_BUCKET), F.col(_TEXT)
    rows = rows.withColumn(_TEXT, F.col("path").cast("string")).withColumn(_BUCKET, F.lit(0))
    for power in range(len(cuts).bit_length() - 1, -1, -1):
        step = F.lit(1 << power)
        is_beyond = key > F.get(bounds, bucket + step - F.lit(1))
        rows = rows.withColumn(_BUCKET, bucket + F.when(is_beyond, step).otherwise(F.lit(0)))
    return rows.drop(_TEXT)


def _constants(texts: Sequence[str]) -> Column:
    """An array that Spark computes once, from a single constant."""
    return F.split(F.lit(_SEPARATOR.join(texts)), _SEPARATOR)


def task_numbers(count: int) -> list[int]:
    """For each of `count` tasks, the smallest number whose rows Spark sends to this task."""
    numbers: dict[int, int] = {}
    number = 0
    while len(numbers) < count:
        numbers.setdefault(_hashed(number) % count, number)
        number += 1
    return [numbers[task] for task in range(count)]


def _hashed(number: int) -> int:
    """Murmur3 of a 32-bit number, as in Spark's partitioner."""
    word = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    state = _rotated(_PARTITIONER_SEED ^ word, 13) * 5 + 0xE6546B64 & _WORD
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD
