"""Where a key space is cut for parallel writers, and how rows find their writer.

    all keys ──first pass, inside the JVM──► the keys after which a range must end (1 in 50,000)
                                                    │ every m-th
                                                    ▼
    cuts     c₀ < c₁ < …     bucket b holds the keys in (c₍b₋₁₎, c₍b₎]

With `min_size` 0 a range ends after every such key whatever came before it, so writers that begin
behind one write the ranges that a single writer would.  They are also an even sample of the keys.
Where a cut is no end after all (a minimum size, a row that was refused), `merging.py` mends it.

The hash is the one that Spark computes itself (docs/format.md).  One bucket is one task: Spark
sends a row to the task that the hash of a number says, so each bucket has a number that is sent to
the task of its own.  For this package.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from graveler import limits
from graveler.records import BreakParameters

_ROWS_WANTED: Final = 300_000  # in a bucket, on average
_PARTITIONER_SEED: Final = 42
_WORD: Final = 0xFFFFFFFF
_BUCKET: Final = "graveler_bucket"
_HEX: Final = "graveler_key"


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first pass found: how many rows, and the break keys, sorted, each once; `content`
    says which rows, if that was asked for."""

    count: int
    breaks: tuple[bytes, ...]
    content: str = ""


def survey(rows: DataFrame, breaks: BreakParameters, *, of_content: bool = False) -> Survey:
    """Read the column `path` of all `rows` once; `of_content`: all columns, for a sum of hashes
    that is the same for the same rows in any order."""
    path = F.col("path")
    usable = path.isNotNull() & (F.length(path) <= limits.path_length_bytes_max)
    wanted = [
        F.count(F.lit(1)).alias("count"),
        F.collect_set(F.when(usable & is_break(path, breaks), path)).alias("breaks"),
    ]
    if of_content:
        wanted.append(F.sum(_hash(rows).cast("decimal(38,0)")).alias("content"))
    found = rows.agg(*wanted).collect()[0]
    content = str(found["content"]) if of_content else ""
    return Survey(int(found["count"]), tuple(sorted(map(bytes, found["breaks"]))), content)


def _hash(rows: DataFrame) -> Column:
    """Of a row; Spark hashes no maps, whose pairs have no order."""
    pairs = F.array_sort(F.map_entries(F.col("metadata")))
    return F.xxhash64(*(F.col(name) for name in rows.columns if name != "metadata"), pairs)


def is_break(path: Column, breaks: BreakParameters) -> Column:
    """Whether a range may end after a key, as `splitting.Splitter` finds it."""
    hashed = F.xxhash64(literal(breaks.salt), path)
    return unsigned_modulo(hashed, breaks.raggedness) == F.lit(0)


def unsigned_modulo(number: Column, divisor: int) -> Column:
    """The remainder of a 64-bit number that Spark takes for a signed one."""
    half = F.pmod(F.shiftrightunsigned(number, 1), F.lit(divisor))
    return F.pmod(half * F.lit(2) + number.bitwiseAND(F.lit(1)), F.lit(divisor))


def literal(raw: bytes) -> Column:
    """Bytes as a constant."""
    return F.unhex(F.lit(raw.hex()))


def chosen(found: Survey, breaks: BreakParameters, tasks: int) -> tuple[bytes, ...]:
    """Which of the break keys to cut at: buckets of a few hundred thousand rows, and `tasks` of
    them or more if there are breaks enough."""
    by_size = -(-_ROWS_WANTED // breaks.raggedness)
    step = max(1, min(by_size, len(found.breaks) // max(1, tasks)))
    return found.breaks[step - 1 :: step]


def spread(
    rows: DataFrame, cuts: Sequence[bytes], without: Collection[int] = frozenset()
) -> DataFrame:
    """`rows`, each in the task of its bucket, but for those of the buckets `without`.  Rows that
    have no path are in the first."""
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
    """`rows` with one more column: how many cuts are below the path.

    A binary search inside the JVM, a column a step, as one expression would double at each.  Keys
    are compared in hexadecimal, which has the same order, so that all cuts are one constant.
    """
    bounds = _constants([cut.hex().upper() for cut in cuts])
    found, key = F.col(_BUCKET), F.col(_HEX)
    rows = rows.withColumn(_HEX, F.hex(F.col("path"))).withColumn(_BUCKET, F.lit(0))
    for power in range(len(cuts).bit_length() - 1, -1, -1):
        step = F.lit(1 << power)
        is_beyond = key > F.get(bounds, found + step - F.lit(1))
        rows = rows.withColumn(_BUCKET, found + F.when(is_beyond, step).otherwise(F.lit(0)))
    return rows.drop(_HEX)


def _constants(texts: Sequence[str]) -> Column:
    """An array that Spark computes once, from a single constant."""
    return F.split(F.lit(",".join(texts)), ",")


def task_numbers(count: int) -> list[int]:
    """For each of `count` tasks the least number whose rows Spark sends to it."""
    numbers: dict[int, int] = {}
    number = 0
    while len(numbers) < count:
        numbers.setdefault(_hashed(number) % count, number)
        number += 1
    return [numbers[task] for task in range(count)]


def _hashed(number: int) -> int:
    """Murmur3 of a 32-bit number as Spark's partitioner has it: signed, so that the remainder by
    Python's rule is the one that it takes."""
    word = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    state = _rotated(_PARTITIONER_SEED ^ word, 13) * 5 + 0xE6546B64 & _WORD
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD
