"""The contract of range storage: immutable sorted tables, and metaranges that list them.

    R1  records go in sorted, strictly increasing by key, and come out so
    R2  the id of a range or metarange follows from its records alone (docs/format.md); writing the
        same records again gives the same id and is harmless
    R3  damage raises `Corrupt`; what is returned was written.  A scan that ends has been compared
        with the number of records that the metarange names
    R4  an id that was never written raises `NotFound`
    R5  the empty metarange has its own id and may be read everywhere, written or not
    R6  what was written is durable when `write_range` or `write_metarange` returns

Chunks let readers skip what is equal without looking inside: two chunks with equal `stored` bytes
hold equal records, whatever tables they are in.  Drivers: `memory.py` (reference), `sstable.py`.
Everybody in this package may import this.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter, lt
from typing import NamedTuple, Protocol

from graveler import identity
from graveler.errors import Gone, Invalid, NotFound
from graveler.ids import MetarangeId, RangeId
from graveler.records import ABSENT, Absent, BreakParameters, RangeRef, Record

RANGE_PROPERTIES: Mapping[str, str] = {"type": "ranges"}
METARANGE_PROPERTIES: Mapping[str, str] = {"type": "metaranges"}
EMPTY_METARANGE = MetarangeId("00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66")


class Columns:
    """Some adjacent records, as their keys and their values; and how the store they come from
    holds them, if exactly these records are one chunk of it.  Never changed once made."""

    def __init__(
        self, keys: Sequence[bytes], values: Sequence[bytes], chunk: "Chunk | Absent" = ABSENT
    ) -> None:
        self.keys = keys
        self.values = values
        self.chunk = chunk

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Columns":
        """The same records, turned."""
        return cls(list(map(itemgetter(0), records)), list(map(itemgetter(1), records)))

    @property
    def records(self) -> list[Record]:
        """The same records, turned back."""
        return list(zip(self.keys, self.values, strict=True))

    @cached_property
    def key_size(self) -> int:
        """The length of all keys."""
        return sum(map(len, self.keys))

    @cached_property
    def size(self) -> int:
        """The logical size of the records."""
        return self.key_size + sum(map(len, self.values))

    def hash_breaks(self, seed: int, raggedness: int) -> Sequence[int]:
        """The positions of the keys after which a range may end."""
        return identity.hash_breaks(self.keys, seed, raggedness)

    def split(self, at: int) -> tuple["Columns", "Columns"]:
        """The first `at` records, and the rest."""
        return (
            Columns(self.keys[:at], self.values[:at]),
            Columns(self.keys[at:], self.values[at:]),
        )


class Chunk(Protocol):
    """Some adjacent records of a table."""

    @property
    def bound(self) -> bytes:
        """No key in this chunk is greater, and every key in the next one is."""
        ...

    @property
    def stored(self) -> bytes:
        """Equal bytes, equal records."""
        ...

    def records(self) -> list[Record]:
        """All of them, in order.  Raises `Corrupt`."""
        ...

    def columns(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All keys and all values.  Raises `Corrupt`."""
        ...


class Table(Protocol):
    """One range, open for reading by any number of threads."""

    @property
    def count(self) -> int:
        """The number of records that the table itself claims."""
        ...

    @property
    def marks(self) -> Mapping[str, str]:
        """Properties that count in the table's id besides its type; only dumped refs have any."""
        ...

    def get(self, key: bytes) -> bytes | Absent:
        """The framed value under `key`.  Cost when nothing is cached: one block."""
        ...

    def chunks(self, start: bytes = b"", *, streaming: bool = True) -> Iterator[Chunk]:
        """From the first chunk whose bound is not below `start`.  `streaming` reads far ahead and
        caches nothing; otherwise chunks are read one by one and stay cached."""
        ...

    def walk(self, *, first: int, wanted: int) -> "Walk":
        """For listings: what is read stays cached at first.  Cost when nothing is cached: one
        request for about `first` records (0: one chunk).  Who reads on: one for about `wanted`
        (160 to 320 KiB), then 160 KiB once, then 1 MiB each.  Who seeks beyond what was read: one
        for up to 8 MiB, since he will seek again."""
        ...


class Walk(Protocol):
    """One reader's way through a table, forward."""

    def seek(self, key: bytes) -> None:
        """Skip the chunks whose bound is below `key`; never backwards."""
        ...

    def records(self) -> list[Record]:
        """The next chunk's records, which may begin below a key that was sought; none at the end.
        Raises `Corrupt`."""
        ...


class RangeStore(Protocol):
    """See the module's clauses."""

    def open_range(self, namespace: str, range_id: RangeId) -> Table:
        """Cost when nothing is cached: one request for the end of the file."""
        ...

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> "Metarange":
        """All ranges of a metarange that is not `""`.  Cost when nothing is cached: one file."""
        ...

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> "RangeRef | Absent":
        """The first range of a metarange that does not end before `key`.  Cost when nothing is
        cached: the end of the file, and one block if the file is long."""
        ...

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        """Store a table; raises `Invalid` if `records` are none or out of order."""
        ...

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        """As `write_range`, of records that mostly stand in chunks of this store already, which
        then need not be made again."""
        ...

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        """Store a metarange over ranges that are stored already; raises `Invalid` if they overlap
        or are out of order."""
        ...


@dataclass(frozen=True, slots=True)
class Metarange:
    """The ranges of a keyspace in key order, not overlapping; their greatest keys, for search."""

    ranges: tuple[RangeRef, ...]
    max_keys: tuple[bytes, ...]

    @classmethod
    def of(cls, ranges: Sequence[RangeRef]) -> "Metarange":
        """Over `ranges`, which are in order already."""
        return cls(tuple(ranges), tuple(ref.max_key for ref in ranges))

    def first_from(self, key: bytes) -> RangeRef | Absent:
        """The first range that does not end before `key`."""
        at = bisect_left(self.max_keys, key)
        return self.ranges[at] if at < len(self.ranges) else ABSENT


NO_RANGES = Metarange((), ())


def unchecked() -> None:
    """Whoever reads has all the time it needs."""


class Keyspace(NamedTuple):
    """Where the ranges of one repository live, and where they break.  `check` is called before each
    range is opened, and raises to end a walk over many of them."""

    store: RangeStore
    namespace: str
    breaks: BreakParameters
    check: Callable[[], None] = unchecked

    def metarange(self, metarange_id: MetarangeId) -> Metarange:
        """The ranges of a metarange; `""` is the empty keyspace.  Raises `Gone`."""
        if metarange_id in ("", EMPTY_METARANGE):
            return NO_RANGES
        try:
            return self.store.read_metarange(self.namespace, metarange_id)
        except NotFound as error:
            raise Gone(f"content has expired, or is lost: metarange={metarange_id}") from error

    def first_from(self, metarange_id: MetarangeId, key: bytes) -> RangeRef | Absent:
        """The first range of a metarange that does not end before `key`.  Raises `Gone`."""
        if metarange_id in ("", EMPTY_METARANGE):
            return ABSENT
        try:
            return self.store.find_range(self.namespace, metarange_id, key)
        except NotFound as error:
            raise Gone(f"content has expired, or is lost: metarange={metarange_id}") from error

    def open(self, ref: RangeRef) -> Table:
        """The table of a range.  Raises `Gone`, and what `check` raises."""
        self.check()
        try:
            return self.store.open_range(self.namespace, ref.id)
        except NotFound as error:
            raise Gone(f"content has expired, or is lost: range={ref.id}") from error


def check_run(run: Sequence[Columns]) -> None:
    """Raises `Invalid` if a range's records are none or not strictly increasing by key."""
    if not any(columns.keys for columns in run):
        raise Invalid("write a range: there must be at least one record")
    last: bytes | Absent = ABSENT
    for columns in run:
        keys = columns.keys
        if not keys:
            continue
        if last is not ABSENT and keys[0] <= last:
            raise Invalid(f"write a range: keys must be strictly increasing: key={keys[0]!r}")
        if columns.chunk is ABSENT and not all(map(lt, keys, keys[1:])):
            at = next(i for i in range(1, len(keys)) if keys[i - 1] >= keys[i])
            raise Invalid(f"write a range: keys must be strictly increasing: key={keys[at]!r}")
        last = keys[-1]


def ref_of(range_id: RangeId, run: Sequence[Columns]) -> RangeRef:
    """The reference of a range of these records."""
    held = [columns for columns in run if columns.keys]
    size = sum(columns.size for columns in held)
    count = sum(len(columns.keys) for columns in held)
    return RangeRef(range_id, held[0].keys[0], held[-1].keys[-1], size, count)


def totals(refs: Sequence[RangeRef]) -> tuple[int, int]:
    """How many records ranges have together, and the bytes of their keys and values."""
    return sum(ref.count for ref in refs), sum(ref.size for ref in refs)


def check_ranges(ranges: Sequence[RangeRef]) -> None:
    """Raises `Invalid` if ranges overlap or are out of order."""
    for left, right in pairwise(ranges):
        if left.max_key >= right.min_key:
            raise Invalid(
                "write a metarange: ranges must be in order and apart: "
                f"max_key={left.max_key!r} next_min_key={right.min_key!r}"
            )
