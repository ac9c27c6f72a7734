"""What the tasks of a job return: rows.  Errors of the input are rows too, never exceptions.

    range       a range that the task has stored: id, bounds, size, count
    taken       how many rows became entries
    bad         how many rows cannot become entries for one reason
    duplicate   how many rows have a path that another row has too
    sample      one of those rows: its path and address, and the reason
    content     of all rows that the task read: `size` is the total, `count` the parity

Spark retries a task that raises, and keeps the rows of exactly one attempt of each task.  So these
rows are the only record of what was written.  For this package.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from graveler.errors import Invalid
from graveler.ids import RangeId
from graveler.records import RangeRef

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


def arrow_schema() -> pa.Schema:
    """`SCHEMA` as an Arrow schema."""
    types = {"string": pa.string(), "int": pa.int32(), "binary": pa.binary(), "bigint": pa.int64()}
    columns = [column.split() for column in SCHEMA.split(", ")]
    return pa.schema([(name, types[kind]) for name, kind in columns])


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


class Content(NamedTuple):
    """A digest of rows that does not depend on their order: the sum of 30 bits of each row's 64-bit
    hash, and the exclusive or of all hashes.

    The sum detects a case that the exclusive or does not: one row that occurs twice in place of
    another row that occurred twice.
    """

    total: int
    parity: int

    def joined(self, other: "Content") -> "Content":
        """The content of both sets of rows."""
        return Content(self.total + other.total, self.parity ^ other.parity)


NO_CONTENT: Final = Content(0, 0)


class Part(NamedTuple):
    """What one task made of the rows of its bucket.

    The ranges are in key order and include the base's, if there is a base.  The other fields say
    how many rows became entries, how many did not, some of those, and the content of the rows read,
    where it is compared.
    """

    bucket: int
    ranges: tuple[RangeRef, ...]
    taken: int
    rejected: Mapping[tuple[str, str], int]
    samples: tuple[RejectedRow, ...]
    content: Content = NO_CONTENT


def rows_of(part: Part) -> pa.RecordBatch:
    """The part as rows of `SCHEMA`."""
    rows = [
        {
            "kind": RANGE,
            "id": ref.id,
            "min_key": ref.min_key,
            "max_key": ref.max_key,
            "size": ref.size,
            "count": ref.count,
        }
        for ref in part.ranges
    ]
    rows.append({"kind": TAKEN, "count": part.taken})
    rows.append({"kind": CONTENT, "size": part.content.total, "count": part.content.parity})
    for (kind, reason), count in part.rejected.items():
        rows.append({"kind": kind, "reason": reason, "count": count})
    for each in part.samples:
        fields = {"reason": each.reason, "path": each.path.encode(), "address": each.address}
        rows.append({"kind": SAMPLE, "id": each.kind, **fields})
    for row in rows:
        row["bucket"] = part.bucket
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema())


def parts_of(rows: Iterable[Any]) -> list[Part]:
    """The parts in collected rows, by bucket."""
    ranges: dict[int, list[RangeRef]] = {}
    taken: Counter[int] = Counter()
    rejected: dict[int, Counter[tuple[str, str]]] = {}
    samples: dict[int, list[RejectedRow]] = {}
    contents: dict[int, Content] = {}
    for row in rows:
        bucket = row["bucket"]
        held = ranges.setdefault(bucket, [])
        if row["kind"] == RANGE:
            bounds = bytes(row["min_key"]), bytes(row["max_key"])
            held.append(RangeRef(RangeId(row["id"]), *bounds, row["size"], row["count"]))
        elif row["kind"] == SAMPLE:
            path = bytes(row["path"]).decode(errors="replace")
            sample = RejectedRow(row["id"], row["reason"], path, row["address"])
            samples.setdefault(bucket, []).append(sample)
        elif row["kind"] == CONTENT:
            content = Content(row["size"], row["count"])
            contents[bucket] = contents.get(bucket, NO_CONTENT).joined(content)
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
            contents.get(bucket, NO_CONTENT),
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
