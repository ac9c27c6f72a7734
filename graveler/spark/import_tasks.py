"""One task of an import: the rows of one bucket become ranges in the object store.

    rows ──► checked ──► sorted ──► each path once ──► framed values ──► ranges ──► result rows
                                            with a base: put onto it ──┘
The values equal those of `wire.encode_entry` (docs/reference/format.md), joined a column at a time.
Names of ranges follow from their records, so a task that runs twice changes nothing.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.vectors import EMPTY, fixed, joined, offsets_of, pieces, varints_of
from graveler.committed.writer import Assembler
from graveler.core import limits
from graveler.core.identity import int64, pairs, varint
from graveler.core.ids import NO_METARANGE, MetarangeId
from graveler.core.records import ABSENT, Absent, AddressType, Entry, RangeRef
from graveler.core.wire import encode_entry
from graveler.spark.cuts import ENDS, HASH, digest_of
from graveler.spark.import_columns import (
    REASONS,
    Addresses,
    CheckedTable,
    Pairs,
    Rules,
    check,
    completed,
    one_array,
    pairs_of,
)
from graveler.spark.places import Place, opened
from graveler.spark.range_writer import END, ArrowColumns, Texts, bounds_of, put_onto
from graveler.spark.tasks import (
    BAD,
    DUPLICATE,
    JobCheckpoints,
    Part,
    RejectedRow,
    Task,
    leave_checkpoint,
    rows_of,
)

_MICROSECONDS: Final = 1_000_000
_MICROSECOND_NS: Final = 1_000
_IDENTITY_LENGTH: Final = 32
_TEXT_LENGTH_MAX: Final = 16 + max(
    4 * limits.address_length_bytes_max, limits.object_metadata_length_bytes_max
)
_NO_PAIRS: Final = pairs({})
# The encoded lengths of texts, in the form of entries and in the form of identities.
_LENGTHS: Final = pa.array([varint(n) for n in range(_TEXT_LENGTH_MAX + 1)], pa.binary())
_LENGTHS_64: Final = pa.array([int64(n) for n in range(_TEXT_LENGTH_MAX + 1)], pa.binary())
DUPLICATE_PATH: Final = "another row has this path"
_RECORDS: Final = 8_192  # passed to the writer of ranges at a time
_ORDER: Final = ("mtime", "address", "checksum", "size", "content_type")
_PAIRS: Final = "pairs"


def encoded(table: pa.Table, addresses: Addresses) -> Any:
    """The framed value of every row as a binary array.  `table` has checked rows (`check.COLUMNS`),
    a few thousand of them."""
    if not table.num_rows:
        return pa.array([], pa.binary())
    kind = AddressType.RELATIVE if addresses is Addresses.RELATIVE else AddressType.FULL
    names = {name: one_array(table.column(name)) for name in table.column_names}
    for name in ("address", "checksum", "content_type"):
        names[name] = pc.fill_null(names[name].cast(pa.binary()), EMPTY)
    pairs = pairs_of(names["metadata"]).in_order()
    body = _bodies(names, pairs, kind)
    length = varints_of(
        pc.binary_length(body).to_numpy(zero_copy_only=False).astype(np.uint64) << 1
    )
    values = joined(b"\x40", _identities(names, pairs), length, body)
    twins = {int(row): _one(names, int(row), kind) for row in pairs.twins()}
    if not twins:
        return values
    return pa.array([twins.get(at, each) for at, each in enumerate(pieces(values))], pa.binary())


def _bodies(names: dict[str, Any], metadata: Pairs, kind: AddressType) -> Any:
    mtime = names["mtime"].to_numpy(zero_copy_only=False)
    seconds = _numbers(b"\x08", mtime // _MICROSECONDS)
    nanos = _numbers(b"\x10", mtime % _MICROSECONDS * _MICROSECOND_NS)
    stamp = joined(seconds, nanos)
    return joined(
        *_texts(b"\x0a", names["address"]),
        b"\x12",
        _LENGTHS.take(pc.binary_length(stamp)),
        stamp,
        _numbers(b"\x18", names["size"].to_numpy(zero_copy_only=False)),
        *_texts(b"\x22", names["checksum"]),
        *_pairs(metadata),
        b"\x30" + bytes((int(kind),)),
        *_texts(b"\x3a", names["content_type"]),
    )


def _pairs(metadata: Pairs) -> list[Any]:
    """All pairs of each row as one text; an empty list if no row has a pair."""
    if not len(metadata.keys):
        return []
    tagged = ((b"\x0a", metadata.keys), (b"\x12", metadata.items))
    pair = joined(*(joined(tag, _LENGTHS.take(pc.binary_length(x)), x) for tag, x in tagged))
    return [_grouped(joined(b"\x2a", _LENGTHS.take(pc.binary_length(pair)), pair), metadata)]


def _grouped(pairs_: Any, metadata: Pairs) -> Any:
    """Texts of pairs, joined row by row: the same bytes, in fewer pieces."""
    first = np.concatenate([[0], np.cumsum(metadata.counts)])
    return pa.Array.from_buffers(
        pa.binary(),
        len(first) - 1,
        [None, pa.py_buffer(offsets_of(pairs_)[first]), pairs_.buffers()[2]],
    )


def _hashed_pairs(metadata: Pairs) -> list[Any]:
    """The pairs in the form that identities use."""
    if not len(metadata.keys):
        return [_NO_PAIRS]
    both = (metadata.keys, metadata.items)
    each = joined(*(joined(b"\x01", _LENGTHS_64.take(pc.binary_length(x)), x) for x in both))
    return [b"\x04", _LENGTHS_64.take(pa.array(metadata.counts)), _grouped(each, metadata)]


def _identities(names: dict[str, Any], metadata: Pairs) -> Any:
    size = names["size"].to_numpy(zero_copy_only=False).astype(">i8").tobytes()
    streams = joined(
        b"\x02\x08",
        fixed(size, len(names["size"])),
        b"\x01",
        _LENGTHS_64.take(pc.binary_length(names["checksum"])),
        names["checksum"],
        *_hashed_pairs(metadata),
        *_optional(b"\x01", _LENGTHS_64, names["content_type"]),
    )
    digests = b"".join([sha256(each).digest() for each in pieces(streams)])
    return fixed(digests, len(digests) // _IDENTITY_LENGTH)


def _texts(tag: bytes, column: Any) -> list[Any]:
    return _optional(tag, _LENGTHS, column)


def _optional(tag: bytes, lengths: Any, column: Any) -> list[Any]:
    """`tag`, the length and the text, as parts to be joined; nothing for an empty text."""
    length = pc.binary_length(column)
    shortest, longest = pc.min_max(length).as_py().values()
    if longest == 0:
        return []
    parts = [tag, lengths.take(length), column]
    if shortest > 0:
        return parts
    return [pc.if_else(pc.equal(length, 0), pa.scalar(EMPTY, pa.binary()), joined(*parts))]


def _numbers(tag: bytes, numbers: Any) -> Any:
    """`tag` and the number; nothing for zero."""
    return varints_of(numbers.astype(np.uint64), tag)


def _one(names: dict[str, Any], row: int, kind: AddressType) -> bytes:
    values = {name: names[name][row].as_py() for name in names}
    return encode_entry(
        Entry(
            address=values["address"].decode(),
            size=values["size"],
            checksum=values["checksum"].decode(),
            modified_ns=values["mtime"] * _MICROSECOND_NS,
            metadata=dict(values["metadata"]),
            address_type=kind,
            content_type=values["content_type"].decode(),
        )
    )


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """The instructions of a job, equal for every task.  They go to the executors, so they hold no
    secret."""

    place: Place
    addresses: Addresses
    cuts: tuple[bytes, ...]
    samples_max: int
    base: MetarangeId = NO_METARANGE  # the rows are put onto it, if there is one
    checkpoints: JobCheckpoints | Literal[Absent.ABSENT] = ABSENT


def importing(order: TaskOrder) -> Task:
    """The function for `mapInArrow`: it takes the rows of one bucket and returns the rows of its
    part."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if any(batch.num_rows for batch in held):
            part = written(pa.Table.from_batches(held), order)
            if order.checkpoints is not ABSENT:
                leave_checkpoint(opened(order.place).blocks, order.checkpoints, part)
            yield rows_of(part)

    return run


def written(table: pa.Table, order: TaskOrder) -> Part:
    """Store the good rows of one bucket; return the part, which says what was stored and what was
    not."""
    known = table.column("path").drop_null()
    first = known[0].as_py() if len(known) else b""
    content = digest_of(one_array(table.column(HASH)).to_numpy(zero_copy_only=False))
    rows = completed(table.drop_columns([HASH]))
    judged = check(rows, Rules(order.place.namespace, order.addresses))
    rejected: Counter[tuple[str, str]] = Counter()
    samples: list[RejectedRow] = []
    for number in np.unique(judged.reasons):
        if number:
            at = np.flatnonzero(judged.reasons == number)
            rejected[BAD, REASONS[number]] += len(at)
            samples += _samples(judged, at, REASONS[number], order.samples_max - len(samples))
    rows_sorted, twins = _sorted_once(judged.good)
    if twins.num_rows:
        rejected[DUPLICATE, DUPLICATE_PATH] += twins.num_rows
        for row in twins.slice(0, order.samples_max - len(samples)).to_pylist():
            path = row["path"].decode()
            samples.append(RejectedRow(DUPLICATE, DUPLICATE_PATH, path, row["address"]))
    bucket = bisect_left(order.cuts, first)
    refs = _stored(rows_sorted, order, bucket) if rows_sorted.num_rows else ()
    return Part(bucket, refs, rows_sorted.num_rows, rejected, tuple(samples), content)


def _samples(judged: CheckedTable, rows: Any, reason: str, most: int) -> list[RejectedRow]:
    taken = judged.table.take(pa.array(rows[: max(0, most)])).select(["path", "address"])
    return [
        RejectedRow(
            BAD, reason, (row["path"] or b"").decode(errors="replace"), row["address"] or ""
        )
        for row in taken.to_pylist()
    ]


def _sorted_once(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows by path with each path once, and the duplicates.  Of rows with one path, the latest
    counts; of those, the row with the greatest values in the other columns."""
    ordered = table.take(pc.sort_indices(table.column("path")))
    is_twin = _equals_before(ordered.column("path"))
    if not is_twin.any():
        return ordered, ordered.slice(0, 0)
    ordered = ordered.append_column(_PAIRS, _pairs_of_twins(ordered, is_twin))
    keys = [("path", "ascending"), *((name, "descending") for name in (*_ORDER, _PAIRS))]
    ordered = ordered.take(pc.sort_indices(ordered, sort_keys=keys)).drop_columns([_PAIRS])
    return ordered.filter(pa.array(~is_twin)), ordered.filter(pa.array(is_twin))


def _equals_before(path: Any) -> Any:
    """Whether each path is equal to the one before it, as a numpy array."""
    is_equal = np.zeros(len(path), dtype=bool)
    if len(path) > 1:
        is_equal[1:] = pc.equal(path.slice(1), path.slice(0, len(path) - 1)).to_numpy()
    return is_equal


def _pairs_of_twins(ordered: pa.Table, is_twin: Any) -> Any:
    """The metadata of rows whose path comes more than once, as texts, because Arrow sorts no maps;
    empty texts for all other rows."""
    is_one_of_many = is_twin.copy()
    is_one_of_many[:-1] |= is_twin[1:]
    texts = [""] * len(is_twin)
    metadata = ordered.column("metadata")
    for row in np.flatnonzero(is_one_of_many).tolist():
        texts[row] = repr(sorted(metadata[row].as_py() or ()))
    return pa.array(texts, pa.string())


def _stored(table: pa.Table, order: TaskOrder, bucket: int) -> tuple[RangeRef, ...]:
    space = opened(order.place).space
    if order.base != NO_METARANGE:
        base = space.metarange(order.base).ranges
        rows = SortedRows(table, order)
        return put_onto(space, base, bounds_of(order.cuts, bucket, bucket), rows.upto)
    assembler = Assembler(space)
    for columns in _records(table, order):
        assembler.add_columns(columns)
    return assembler.finish()


class SortedRows:
    """The rows of one bucket, taken from the front."""

    def __init__(self, table: pa.Table, order: TaskOrder) -> None:
        """`table`: sorted by path, with each path once."""
        self._table = table
        self._order = order
        self._paths = Texts(one_array(table.column("path")))
        self._at = 0

    def upto(self, bound: bytes) -> Iterator[ArrowColumns]:
        """See `range_writer.Rows`."""
        begin, paths = self._at, self._paths
        self._at = len(paths) if bound == END else bisect_right(paths, bound, begin)
        return _records(self._table.slice(begin, self._at - begin), self._order)


def _records(table: pa.Table, order: TaskOrder) -> Iterator[ArrowColumns]:
    for at in range(0, table.num_rows, _RECORDS):
        piece = table.slice(at, _RECORDS)
        keys = Texts(one_array(piece.column("path")))
        ends = np.flatnonzero(one_array(piece.column(ENDS)).to_numpy(zero_copy_only=False))
        yield ArrowColumns(keys, Texts(encoded(piece, order.addresses)), ends.tolist())
