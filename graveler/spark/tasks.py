"""How rows of the driver reach tasks, and how results of tasks come back.

Spark repeats a task that raises, and keeps the rows of exactly one attempt of each task.  So the
result rows are the only record of what was written.  Tables that must not be computed twice are
stored in pieces, and a bucket that is finished leaves a checkpoint; both appear as a whole.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from graveler.block.adapter import Blocks
from graveler.block.address import join
from graveler.block.drivers import list_all
from graveler.core.errors import Invalid
from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.spark.places import Place, opened

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]  # for `mapInArrow`
_SETTING: Final = "spark.sql.shuffle.partitions"
_DEFAULT: Final = 200  # Spark's own
_AT_ONCE_UNKNOWN: Final = 8
_CARRIED_MAX: Final = 256
ROWS_EACH: Final = 64  # in a task that reads a file for each, when there are more than enough tasks
_ROWS_LEAST: Final = 8  # of these: a task costs as much as a few requests
ENTRIES_LEAST = 50_000  # in a task that reads or writes them: a quarter of a second
_FILES_LEAST: Final = 32  # in a task that reads them: each is a request or more
_ENTRIES_MOST: Final = 1_000_000
_ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}
RANGE_ROWS: Final = "id string, min_key binary, max_key binary, size bigint, count bigint"
RANGES: Final = f"array<struct<{RANGE_ROWS.replace(' ', ':').replace(',:', ',')}>>"
_FIELDS: Final = ("id", "min_key", "max_key", "size", "count")
RANGE: Final = "range"
TAKEN: Final = "taken"
BAD: Final = "bad"
DUPLICATE: Final = "duplicate"
SAMPLE: Final = "sample"
CONTENT: Final = "content"
SAMPLES_MAX = 1_000
SCHEMA: Final = (
    "kind string, bucket int, id string, min_key binary, max_key binary, size bigint, "
    "count bigint, reason string, path binary, address string"
)
NO_FINGERPRINT: Final = "0" * 64
_LENGTH: Final = 64


def parallel_tasks(spark: SparkSession) -> int:
    """Spark's number of partitions after a shuffle.  If the setting is not a number (Databricks has
    "auto"), Spark's default of 200."""
    text = str(spark.conf.get(_SETTING)).strip()  # Spark refuses a default that is not a number
    return max(1, int(text)) if text.isdecimal() else _DEFAULT


def context_of(spark: SparkSession) -> Any:
    """Spark's context; None over Connect, and where a platform hides it."""
    try:
        return spark.sparkContext
    except Exception:  # each platform refuses it with another error
        return None


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks Spark runs at one time, as its context says; a few if there is none."""
    context = context_of(spark)
    if context is None:
        return min(parallel_tasks(spark), _AT_ONCE_UNKNOWN)
    return max(1, int(context.defaultParallelism))


def shuffle_tasks(spark: SparkSession, rows_max: int, rows_each: int) -> int:
    """In how many tasks at most `rows_max` rows are worked on after a shuffle, so that each has
    `rows_each`: no more than `parallel_tasks`.  Spark itself makes fewer tasks of a few rows, but
    not of rows that it caches (Spark 4 leaves those as the setting says), and it does not know that
    a row may be a request."""
    return max(1, min(parallel_tasks(spark), -(-rows_max // rows_each)))


def in_tasks(
    spark: SparkSession,
    rows: Sequence[Mapping[str, Any]],
    schema: str,
    run: Task,
    result: str | StructType,
    tasks: int = 0,
) -> DataFrame:
    """What `run` makes of rows of `schema`, in at most `tasks` tasks (0: by their number, for rows
    that are a request or two each).  A few rows go to the tasks inside the function: there is no
    job that makes a DataFrame of them and no shuffle.  `run` gets the values of `schema`, perhaps
    in wider types."""
    some = shuffle_tasks(spark, len(rows), _ROWS_LEAST)
    count_max = tasks or max(some, len(rows) // ROWS_EACH)
    count = max(1, min(count_max, len(rows)))
    if len(rows) > _CARRIED_MAX:
        spread = spark.createDataFrame(list(rows), schema, verifySchema=False).repartition(count)
        return spread.mapInArrow(run, result)
    carried = list(rows)

    def carrying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(
            pa.RecordBatch.from_pylist([carried[at] for at in batch.column(0).to_pylist()])
            for batch in batches
        )

    frame = spark.range(0, len(carried), 1, count).mapInArrow(carrying, result)
    return frame if carried else frame.limit(0)  # which Spark plans without a task


def each_row(work: Callable[[dict[str, Any]], Iterator[pa.RecordBatch]]) -> Task:
    """The function for `mapInArrow` that does `work` for each row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from work(row)

    return run


def arrow_schema(columns: str) -> pa.Schema:
    """Columns in Spark's notation as an Arrow schema."""
    named = [column.split() for column in columns.split(", ")]
    return pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in named])


def row_of(ref: RangeRef) -> dict[str, Any]:
    """A range as a row of `RANGE_ROWS`."""
    return {name: getattr(ref, name) for name in _FIELDS}


def ref_of(row: Mapping[str, Any]) -> RangeRef:
    """The range in a row of `RANGE_ROWS`."""
    keys = bytes(row["min_key"]), bytes(row["max_key"])
    return RangeRef(RangeId(row["id"]), *keys, row["size"], row["count"])


def put_piece(place: Place, where: str, batch: pa.RecordBatch) -> None:
    """Store a piece at a full address, and overwrite an earlier one.  One put."""
    opened(place).blocks.put(where, [to_stream(batch)])


def to_stream(batch: pa.RecordBatch) -> bytes:
    """A batch as a stream of Arrow."""
    body = io.BytesIO()
    with pa.ipc.new_stream(body, batch.schema) as writer:
        writer.write_batch(batch)
    return body.getvalue()


def read_piece(place: Place, where: str) -> Iterator[pa.RecordBatch]:
    """The rows of a piece.  One get."""
    body = b"".join(opened(place).blocks.get(where).chunks)
    with pa.ipc.open_stream(io.BytesIO(body)) as reader:
        yield from reader


def frame_of_pieces(
    spark: SparkSession, place: Place, names: Sequence[str], schema: str
) -> DataFrame:
    """The rows of pieces with one schema, read by the executors."""
    run = each_row(lambda row: read_piece(place, row["name"]))
    return in_tasks(spark, [{"name": name} for name in names], "name string", run, schema)


class RejectedRow(NamedTuple):
    """An input row that did not become an entry.  `path` and `address` are empty or have
    replacement characters where they are not text."""

    kind: str
    reason: str
    path: str
    address: str


@dataclass(frozen=True, slots=True)
class Report:
    """How many rows did not become entries, by reason, and at most `SAMPLES_MAX` of them."""

    bad: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0
    samples: tuple[RejectedRow, ...] = ()

    @property
    def bad_count(self) -> int:
        """The number of bad rows."""
        return sum(self.bad.values())

    @property
    def count(self) -> int:
        """The number of rows that did not become entries."""
        return self.bad_count + self.duplicates

    @property
    def is_clean(self) -> bool:
        """Whether every row became an entry."""
        return not self.bad and not self.duplicates

    def __str__(self) -> str:
        reasons = [f"{reason}: {count}" for reason, count in sorted(self.bad.items())]
        if self.duplicates:
            reasons.append(f"duplicate path: {self.duplicates}")
        return "; ".join(reasons)


class BadRows(Invalid):
    """The input has rows that cannot be entries, or a path twice; nothing was committed."""

    def __init__(self, report: Report) -> None:
        first = [f"{each.reason}: path={each.path!r:.200}" for each in report.samples[:3]]
        super().__init__(
            f'rows refused: {report}; mend them, or pass on_bad="skip"; first: {"; ".join(first)}'
        )
        self.report = report


class RowDigest(NamedTuple):
    """A digest of rows that does not depend on their order: the sum of 30 bits of each row's 64-bit
    hash, and the exclusive or of all hashes.  The sum detects a case that the exclusive or does
    not: one row that occurs twice in place of another row that occurred twice."""

    total: int
    parity: int

    def joined(self, other: "RowDigest") -> "RowDigest":
        """The content of both sets of rows."""
        return RowDigest(self.total + other.total, self.parity ^ other.parity)


NO_DIGEST: Final = RowDigest(0, 0)


class Part(NamedTuple):
    """What one task made of the rows of its bucket.  The ranges are in key order and include the
    base's, if there is a base.  The other fields say how many rows became entries, how many did
    not, some of those, and the content of the rows read, where it is compared."""

    bucket: int
    ranges: tuple[RangeRef, ...]
    taken: int
    rejected: Mapping[tuple[str, str], int]
    samples: tuple[RejectedRow, ...]
    content: RowDigest = NO_DIGEST


def rows_of(part: Part) -> pa.RecordBatch:
    """The part as rows of `SCHEMA`."""
    rows = [{"kind": RANGE, **row_of(ref)} for ref in part.ranges]
    rows.append({"kind": TAKEN, "count": part.taken})
    rows.append({"kind": CONTENT, "size": part.content.total, "count": part.content.parity})
    for (kind, reason), count in part.rejected.items():
        rows.append({"kind": kind, "reason": reason, "count": count})
    for each in part.samples:
        fields = {"reason": each.reason, "path": each.path.encode(), "address": each.address}
        rows.append({"kind": SAMPLE, "id": each.kind, **fields})
    for row in rows:
        row["bucket"] = part.bucket
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))


def parts_of(rows: Iterable[Any]) -> list[Part]:
    """The parts in collected rows, by bucket."""
    ranges: dict[int, list[RangeRef]] = {}
    taken: Counter[int] = Counter()
    rejected: dict[int, Counter[tuple[str, str]]] = {}
    samples: dict[int, list[RejectedRow]] = {}
    contents: dict[int, RowDigest] = {}
    for row in rows:
        bucket = row["bucket"]
        held = ranges.setdefault(bucket, [])
        if row["kind"] == RANGE:
            held.append(ref_of(row))
        elif row["kind"] == SAMPLE:
            path = bytes(row["path"]).decode(errors="replace")
            sample = RejectedRow(row["id"], row["reason"], path, row["address"])
            samples.setdefault(bucket, []).append(sample)
        elif row["kind"] == CONTENT:
            content = RowDigest(row["size"], row["count"])
            contents[bucket] = contents.get(bucket, NO_DIGEST).joined(content)
        elif row["kind"] == TAKEN:
            taken[bucket] += row["count"]
        else:
            rejected.setdefault(bucket, Counter())[row["kind"], row["reason"]] += row["count"]
    return [
        Part(
            bucket,
            tuple(sorted(ranges[bucket], key=lambda ref: ref.min_key)),
            taken[bucket],
            rejected.get(bucket, {}),
            tuple(samples.get(bucket, ())),
            contents.get(bucket, NO_DIGEST),
        )
        for bucket in sorted(ranges)
    ]


def report_of(parts: Sequence[Part]) -> Report:
    """The report over all parts."""
    bad: Counter[str] = Counter()
    duplicates = 0
    samples: list[RejectedRow] = []
    for part in parts:
        for (kind, reason), count in part.rejected.items():
            if kind == DUPLICATE:
                duplicates += count
            else:
                bad[reason] += count
        samples += part.samples[: SAMPLES_MAX - len(samples)]
    return Report(bad, duplicates, tuple(samples))


@dataclass(frozen=True, slots=True)
class JobCheckpoints:
    """Where the checkpoints of a job are, and the fingerprint that they must have."""

    namespace: str
    job: str
    fingerprint: str = NO_FINGERPRINT
    birth: int = 0

    @property
    def prefix(self) -> str:
        """The common prefix of the addresses of the job's checkpoints.  It contains the birth,
        because another job can get the name after the first is forgotten."""
        return join(self.namespace, f"_graveler/jobs/{self.job}/part-{self.birth}-")


def fingerprint(*values: Any) -> str:
    """64 hex digits over everything that the result of a job depends on."""
    return hashlib.sha256(repr(values).encode()).hexdigest()


def leave_checkpoint(blocks: Blocks, checkpoints: JobCheckpoints, part: Part) -> None:
    """Write the checkpoint of a finished bucket.  One put."""
    body = checkpoints.fingerprint.encode() + to_stream(rows_of(part))
    blocks.put(f"{checkpoints.prefix}{part.bucket}", [body])


def count_checkpoints(blocks: Blocks, checkpoints: JobCheckpoints) -> int:
    """How many buckets are finished.  One request for each 1,000."""
    return sum(1 for _ in _addresses(blocks, checkpoints))


def finished_parts(blocks: Blocks, checkpoints: JobCheckpoints) -> dict[int, Part]:
    """The finished parts, by bucket.  One request for each part, and one for each 1,000 parts."""
    parts: dict[int, Part] = {}
    for address in _addresses(blocks, checkpoints):
        body = b"".join(blocks.get(address).chunks)
        if body[:_LENGTH] == checkpoints.fingerprint.encode():
            rows = pa.ipc.open_stream(body[_LENGTH:]).read_all().to_pylist()
            parts |= {part.bucket: part for part in parts_of(rows)}
    return parts


def _addresses(blocks: Blocks, checkpoints: JobCheckpoints) -> Iterator[str]:
    return (line.address for line in list_all(blocks, checkpoints.prefix))


def tasks_for(spark: SparkSession, count: int, files: int = 0) -> int:
    """How many tasks read or write `count` entries, which are in so many `files`: `parallel_tasks`,
    if each has a quarter of a second to do, and more if one would have more than a million.  The
    cores of the moment do not count: a cluster that grows would cut the same rows elsewhere, and a
    named job that is run again would not find what it has done."""
    by_files = shuffle_tasks(spark, files, _FILES_LEAST)
    return max(shuffle_tasks(spark, count, ENTRIES_LEAST), by_files, count // _ENTRIES_MOST)


def tasks_onto(
    spark: SparkSession, count: int, base: Sequence[RangeRef], breaks: BreakParameters
) -> int:
    """How many tasks put `count` entries onto the ranges of a base: for each, a whole range may be
    read and written again."""
    again = min(sum(ref.count for ref in base), count * breaks.raggedness)
    return tasks_for(spark, count + again)
