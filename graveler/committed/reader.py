"""Reads a keyspace: single keys, scans and cursors.

Values are returned framed, as they are stored.  When a range is read to its end, its record count
is compared with the metarange, so that damage cannot shorten a result silently.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import NamedTuple

from graveler.committed import seal
from graveler.committed.columns import Columns
from graveler.committed.ranges import (
    RANGE_PROPERTIES,
    Keyspace,
    Metarange,
    Walk,
    counts_ahead,
    foreseen,
)
from graveler.core.errors import Corrupt, NotFound
from graveler.core.identity import identity_of, merkle_identity
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, Absent, RangeRef, Record
from graveler.core.streams import END, Cursor, End, Item, successor

_FORESIGHT = 200  # ranges among which those of the next folders are looked for
_SCAN_SHARE = 8  # if more than 1/8 of a range's keys are wanted, scan it instead of looking up


def get(space: Keyspace, metarange_id: MetarangeId, key: bytes) -> bytes | Absent:
    """The framed value under `key`.  Cost when nothing is cached: one request each for the end of
    the metarange, one block of it if it is long, the end of one range, and one block of it."""
    ref = space.first_from(metarange_id, key)
    return ABSENT if ref is ABSENT or key < ref.min_key else space.open(ref).get(key)


def get_many(
    space: Keyspace, metarange_id: MetarangeId, keys: Sequence[bytes]
) -> dict[bytes, bytes]:
    """The framed values of those of `keys` that exist.  `keys` may have any order."""
    return get_many_from(space, space.metarange(metarange_id), keys)


def get_many_from(
    space: Keyspace, metarange: Metarange, keys: Sequence[bytes]
) -> dict[bytes, bytes]:
    """As `get_many`, over a metarange that was read already.  Each range is opened once.  It is
    scanned if more than 1/8 of its keys are wanted; otherwise each key is looked up."""
    values: dict[bytes, bytes] = {}
    parts = _parts(metarange, sorted(keys))
    for part in foreseen(space, parts, lambda part: [part.ref][: part.is_scanned], is_whole=True):
        _collect(space, part, values)
    return values


class _Part(NamedTuple):
    """Keys that are wanted of a range."""

    ref: RangeRef
    keys: Sequence[bytes]

    @property
    def is_scanned(self) -> bool:
        """Whether they are so many that all of the range is read."""
        return len(self.keys) * _SCAN_SHARE > self.ref.count


def _parts(metarange: Metarange, keys: Sequence[bytes]) -> Iterator[_Part]:
    """The ranges that can have some of these sorted keys, each with its keys."""
    begin = 0
    while begin < len(keys):
        at = bisect_left(metarange.max_keys, keys[begin])
        if at == len(metarange.ranges):
            return
        ref = metarange.ranges[at]
        end = bisect_right(keys, ref.max_key, begin)
        yield _Part(ref, keys[begin:end])
        begin = end


def _collect(space: Keyspace, part: _Part, values: dict[bytes, bytes]) -> None:
    ref, keys = part
    if part.is_scanned:
        names = set(keys)
        for records in range_batches(space, ref):
            values.update([record for record in records if record[0] in names])
        return
    table = space.open(ref)
    for key in keys:
        value = table.get(key)
        if value is not ABSENT:
            values[key] = value


def ranges(space: Keyspace, metarange_id: MetarangeId) -> Sequence[RangeRef]:
    """The ranges of a metarange, in key order."""
    return space.metarange(metarange_id).ranges


def scan(
    space: Keyspace, metarange_id: MetarangeId, start: bytes = b"", prefix: bytes = b""
) -> Iterator[Record]:
    """All records with `prefix` and key >= `start`, in key order.  Reads ahead."""
    return chain.from_iterable(_scanned(space, space.metarange(metarange_id), start, prefix))


def _scanned(
    space: Keyspace, metarange: Metarange, start: bytes, prefix: bytes
) -> Iterator[list[Record]]:
    first = max(start, prefix)
    beyond = successor(prefix)
    begin = bisect_left(metarange.max_keys, first)
    behind = (metarange.ranges[at] for at in range(begin, len(metarange.ranges)))
    refs = takewhile(lambda ref: not beyond or ref.min_key < beyond, behind)
    for ref in foreseen(space, refs, lambda ref: (ref,)):
        if first <= ref.min_key and not (beyond and ref.max_key >= beyond):
            yield from range_batches(space, ref)
            continue
        for chunk in space.open(ref).chunks(first):
            records = chunk.records()
            if records and (records[0][0] < first or (beyond and records[-1][0] >= beyond)):
                records = [r for r in records if r[0] >= first and r[0].startswith(prefix)]
            yield records
            if beyond and chunk.bound >= beyond:
                break


def range_batches(space: Keyspace, ref: RangeRef) -> Iterator[list[Record]]:
    """All records of a range, in lists, with the checks of `range_columns`."""
    return (columns.records for columns in range_columns(space, ref))


def range_columns(space: Keyspace, ref: RangeRef) -> Iterator[Columns]:
    """All records of a range, chunk by chunk.  Raises `Corrupt` if their number, order or bounds
    differ from the metarange."""
    census = Census(ref)
    for chunk in space.open(ref).chunks():
        columns = chunk.columns()
        if columns.count:
            census.count(columns.first, columns.last, columns.count)
            yield columns
    census.close()


class Census:
    """Compares the records that were read of a range with the range's entry in the metarange."""

    def __init__(self, ref: RangeRef) -> None:
        self._ref = ref
        self._count = 0
        self._last = b""

    def count(self, first: bytes, last: bytes, records: int) -> None:
        """Note the next `records` (at least one) of the range, from key `first` to key `last`.
        Raises `Corrupt` if they are out of order or out of bounds."""
        in_order = first > self._last if self._count else first == self._ref.min_key
        if not in_order:
            raise Corrupt(f"range has keys out of order or bounds: range={self._ref.id}")
        self._count += records
        self._last = last

    def close(self) -> None:
        """Call this after the last record.  Raises `Corrupt` if the count or the last key is
        wrong."""
        ref = self._ref
        if self._count != ref.count or self._last != ref.max_key:
            raise Corrupt(
                f"range and metarange disagree on the number of records: range={ref.id} "
                f"records={self._count} expected={ref.count}"
            )


class Folders(NamedTuple):
    """What a listing shows as one line: all keys below `prefix` with the same text up to the next
    `delimiter`."""

    prefix: bytes
    delimiter: bytes

    def begins_in(self, ref: RangeRef) -> bool:
        """Whether a range may hold the first key of another folder than that of its own first."""
        if ref.min_key[: len(self.prefix)] > self.prefix:
            return False
        at = ref.min_key.find(self.delimiter, len(self.prefix))
        return at < 0 or not ref.max_key.startswith(ref.min_key[: at + len(self.delimiter)])


def cursor(
    space: Keyspace,
    metarange_id: MetarangeId,
    *,
    ahead: int = 0,
    jumps: bool = True,
    folders: Folders | Absent = ABSENT,
) -> Cursor:
    """A cursor over all records.  A seek costs at most one block, plus the records read after it.

    `ahead`: how many records the caller may read in sequence.  `jumps`: whether the caller may
    seek.  Without `jumps` the cursor requests all `ahead` records at once.  `folders`: the caller
    seeks from folder to folder, so a far store fetches the ranges where the next ones begin."""
    return CommittedCursor(space, space.metarange(metarange_id), ahead, jumps, folders)


class CommittedCursor:
    """See `streams.Cursor`.  Reads nothing before the first `peek`.  Then it reads block by block
    through the cache, and reads further ahead the longer it stays in one range."""

    def __init__(
        self,
        space: Keyspace,
        metarange: Metarange,
        ahead: int = 0,
        jumps: bool = True,
        folders: Folders | Absent = ABSENT,
    ) -> None:
        self._space = space
        self._metarange = metarange
        self._range = 0
        self._walk: Walk | Absent = ABSENT  # of the current range, once it is open
        self._wanted = ahead
        self._jumps = jumps
        self._folders = folders
        self._counts = counts_ahead()  # of ranges where folders begin, at each jump
        self._is_reading_on = False  # entered the current range from the one before, without a seek
        self._is_dense = False  # has sought inside a range: such a caller needs many of its blocks
        self._sought = b""
        self._records: Sequence[Record] = ()
        self._at = 0

    def seek(self, key: bytes) -> None:
        if key <= self._sought:
            return
        if self._at < len(self._records) and key <= self._records[-1][0]:
            self._at = bisect_left(self._records, (key, b""), self._at)
            return
        self._sought = key
        self._records, self._at = (), 0
        place = bisect_left(self._metarange.max_keys, key, self._range)
        if place > self._range:
            self._enter(place, reading_on=False)
            self._foresee(place)
        elif self._walk is not ABSENT:
            self._walk.seek(key)
            self._is_dense = True

    def peek(self) -> Item | End:
        while self._at >= len(self._records):
            if not self._load():
                return END
            self._at = bisect_left(self._records, (self._sought, b""))
        return self._records[self._at]

    def advance(self) -> None:
        if self._at < len(self._records) or self.peek() is not END:
            self._at += 1

    def take(self, count: int, end: bytes) -> Sequence[Item]:
        if self.peek() is END:
            return ()
        records, first = self._records, self._at
        last = min(first + count, len(records))
        if end and records[last - 1][0] >= end:
            last = bisect_left(records, (end, b""), first, last)
        self._at = last
        return records[first:last]

    def _foresee(self, place: int) -> None:
        folders = self._folders
        if folders is ABSENT:
            return
        near = self._metarange.ranges[place : place + _FORESIGHT]
        first = islice(filter(folders.begins_in, near), next(self._counts))
        self._space.store.expect(self._space.namespace, first)

    def _enter(self, place: int, *, reading_on: bool) -> None:
        self._range, self._walk, self._is_reading_on = place, ABSENT, reading_on

    def _first(self) -> int:
        """How many records of a range the first request asks for."""
        if self._is_dense:
            return self._metarange.ranges[self._range].count
        return self._wanted if self._is_reading_on or not self._jumps else 0

    def _load(self) -> bool:
        """Load the next chunk that has records, from this range or a later one.  False: none is
        left."""
        while self._range < len(self._metarange.ranges):
            if self._walk is ABSENT:
                table = self._space.open(self._metarange.ranges[self._range])
                self._walk = table.walk(first=self._first(), ahead=self._wanted)
                self._walk.seek(self._sought)
            self._records = self._walk.records()
            if self._records:
                self._wanted -= min(self._wanted, len(self._records))
                return True
            self._enter(self._range + 1, reading_on=True)
        self._records, self._at = (), 0
        return False


# ---- checks --------------------------------------------------------------------------------------


class Damage(NamedTuple):
    """The damage of one file.  `id`: the id of a range or a metarange."""

    id: str
    reason: str


def metarange_damages(
    space: Keyspace, metarange_id: MetarangeId, skip: frozenset[str] = frozenset()
) -> Iterator[Damage]:
    """All damages of a metarange and of its ranges, except the ranges whose ids are in `skip`.

    Checks ids, order, counts, bounds, and identities if they are recorded.  The recorded sizes of
    ranges are not checked: other writers record an estimate, and it says only where to split.
    """
    try:
        refs = space.metarange(metarange_id).ranges
    except (Corrupt, NotFound) as error:
        yield Damage(metarange_id, str(error))
        return
    for ref in refs:
        if ref.id not in skip:
            yield from range_damages(space, ref)


def range_damages(space: Keyspace, ref: RangeRef) -> Iterator[Damage]:
    """The damage of one range, if any."""
    records: list[Record] = []
    try:
        marks = space.open(ref).marks
        for batch in range_batches(space, ref):
            records.extend(batch)
        identities = [(key, identity_of(value)) for key, value in records]
    except (Corrupt, NotFound) as error:
        yield Damage(ref.id, str(error))
        return
    if seal.file_id(records, {**RANGE_PROPERTIES, **marks}) != ref.id:
        yield Damage(ref.id, f"range does not hash to its id: range={ref.id}")
    elif ref.identity and merkle_identity(identities) != ref.identity:
        yield Damage(ref.id, f"range does not hash to its identity: range={ref.id}")
