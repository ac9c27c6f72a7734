"""The contract of the range store: immutable sorted tables (ranges), and metaranges that list them.

    R1  records are written and read in strictly increasing order of their keys
    R2  the id of a range or metarange depends only on its records (docs/reference/format.md);
        writing the same records again gives the same id and is harmless
    R3  damage raises `Corrupt`; only records that were written are returned.  When a scan ends,
        the number of records was compared with the number in the metarange
    R4  an id that was never written raises `NotFound`
    R5  the empty metarange has its own id and is readable in every namespace, written or not
    R6  a range or metarange is durable when `write_range` or `write_metarange` returns

Two chunks with equal `stored` bytes hold equal records, in whatever tables they are.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat
from operator import attrgetter, lt
from typing import Literal, NamedTuple, Protocol, TypeVar

from graveler.committed.columns import Chunk, Columns
from graveler.committed.seal import BLOCK_LENGTH
from graveler.core import limits
from graveler.core.errors import Gone, Invalid, NotFound
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import ABSENT, Absent, BreakParameters, Change, RangeRef, Record

T = TypeVar("T")
RANGE_PROPERTIES: Mapping[str, str] = {"type": "ranges"}
METARANGE_PROPERTIES: Mapping[str, str] = {"type": "metaranges"}
_AROUND_KEYS = 128  # bytes of a range's record beside its keys, at most
_AROUND_BOUND = 128  # the same of a bound in an index, as its limit counts
# So many ranges have an index that is read, however long their paths are.
_READABLE_COUNT = (
    limits.table_index_expanded_bytes_max
    // (limits.path_length_bytes_max + _AROUND_BOUND)
    * BLOCK_LENGTH
    // (3 * limits.path_length_bytes_max + _AROUND_KEYS)
)
_AHEAD = 16  # items whose ranges a store is told of
EMPTY_METARANGE = MetarangeId("00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66")


class Table(Protocol):
    """One range, open for reading by any number of threads."""

    @property
    def count(self) -> int:
        """The number of records, as the table's own properties state it."""
        ...

    @property
    def marks(self) -> Mapping[str, str]:
        """Properties that are hashed into the table's id in addition to its type.  Only tables of a
        dump have any."""
        ...

    def get(self, key: bytes) -> bytes | Absent:
        """The framed value under `key`.  Cost when nothing is cached: one block."""
        ...

    def chunks(self, start: bytes = b"", *, streaming: bool = True) -> Iterator[Chunk]:
        """The chunks from the first whose bound is not below `start`.  With `streaming`, reads far
        ahead and caches nothing; without it, reads chunks one by one and caches them.

        A table that stays open notices here that its file was collected and stored again with
        other chunks.  Then reading a chunk raises `Unavailable`, and the next try succeeds."""
        ...

    def walk(self, *, first: int, ahead: int) -> "Walk":
        """A walk through the table, for listings.  The first blocks that it reads stay cached.

        Cost when nothing is cached:

            start                          one request for about `first` records (0: one chunk)
            reading on                     one request for about `ahead` records (160 to 320 KiB),
                                           then one for 160 KiB, then one for each 1 MiB
            seek past what was read        one request for up to 8 MiB, because a reader that seeks
                                           once usually seeks again
        """
        ...


class Walk(Protocol):
    """A forward-only reader of one table."""

    def seek(self, key: bytes) -> None:
        """Skip the chunks whose bound is below `key`.  Never moves backwards."""
        ...

    def records(self) -> Sequence[Record]:
        """The records of the next chunk; empty at the end.  After a seek the chunk may
        begin below the key.  Raises `Corrupt`."""
        ...


class Rewrite(NamedTuple):
    """A range, and changes for it: in key order, none above its greatest key.  `replace`: as for
    `apply.apply`."""

    ref: RangeRef
    changes: Sequence[Change]
    replace: bool


class Rewritten(NamedTuple):
    """What took the place of a range: stored ranges, and how many paths they add, change and
    remove."""

    refs: tuple[RangeRef, ...]
    added: int
    changed: int
    removed: int


class Rewriting(Protocol):
    """A `Rewrite` that another process or thread does."""

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        """Wait until it is done.  Meanwhile `check` is called now and then; it may raise.  ABSENT:
        it hangs or has failed, or the records join the next range; the caller does it again.
        Harmless, because ranges never change."""
        ...

    def abandon(self) -> None:
        """Nobody wants the result.  What has begun goes on."""
        ...


class Rewriters(Protocol):
    """Processes or threads that rewrite ranges of a store."""

    def begin(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        """See `RangeStore.begin_rewrite`."""
        ...


class RangeStore(Protocol):
    """See the module's clauses.  The three methods that read raise `WouldWait` instead of opening
    or decoding a file, on a thread that must not wait (`kv.store.Prompt`)."""

    def open_range(self, namespace: str, range_id: RangeId) -> Table:
        """Open a range for reading.  Cost when nothing is cached: one request for the end of the
        file."""
        ...

    def expect(self, namespace: str, refs: Iterable[RangeRef]) -> None:
        """The caller will read these ranges soon, most of each, in this order.  A store whose files
        are far fetches some of them meanwhile; another one does not even look at them.  Returns at
        once; raises nothing."""
        ...

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> "Metarange":
        """All ranges of a metarange.  The id must not be `""`.  Cost when nothing is cached: one
        file is read."""
        ...

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> "RangeRef | Absent":
        """The first range of a metarange that does not end before `key`; ABSENT if there is none.
        Cost when nothing is cached: one request for the end of the file, and one for a block if
        the file is long."""
        ...

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        """Store a range.  Raises `Invalid` if `records` are empty or out of order."""
        ...

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        """As `write_range`, for records of which most are in stored chunks of this store already.
        Such chunks are reused and not encoded again."""
        ...

    def write_behind(
        self, namespace: str, run: Sequence[Columns]
    ) -> tuple[RangeRef, Callable[[], object]] | Literal[Absent.ABSENT]:
        """Begin a `splice_range`, and let the caller go on: its result, and a function that waits
        for its end and raises its error.  Nothing may name the range before.  The caller must not
        change `run` any more.  ABSENT: this store does not."""
        ...

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        """Begin to apply changes to a range elsewhere, as `apply.rewritten` does.  ABSENT if nobody
        does: the caller does it, and need not ask again for the same metarange."""
        ...

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        """Store a metarange over ranges that are stored already.  Raises `Invalid` if they overlap
        or are out of order."""
        ...


max_key_of: Callable[[RangeRef], bytes] = attrgetter("max_key")
min_key_of: Callable[[RangeRef], bytes] = attrgetter("min_key")


class Waiters(Protocol):
    """Threads that wait for the disk, or for the object store."""

    def begin(self, write: Callable[[], object]) -> Callable[[], object]:
        """Call `write` in another thread.  The result waits for its end, and raises its error."""
        ...


@dataclass(frozen=True, slots=True)
class Metarange:
    """The ranges of a keyspace, in key order and without overlap; and their greatest keys, for
    binary search."""

    ranges: tuple[RangeRef, ...]
    max_keys: tuple[bytes, ...]

    @classmethod
    def of(cls, ranges: Sequence[RangeRef]) -> "Metarange":
        """The metarange over `ranges`, which must be in key order."""
        return cls(tuple(ranges), tuple(map(max_key_of, ranges)))

    def first_from(self, key: bytes) -> RangeRef | Absent:
        """The first range that does not end before `key`."""
        at = bisect_left(self.max_keys, key)
        return self.ranges[at] if at < len(self.ranges) else ABSENT


NO_RANGES = Metarange((), ())


def unchecked() -> None:
    """The default of `Keyspace.check`: reads have no time limit."""


class Keyspace(NamedTuple):
    """The ranges of one repository: their store, their storage namespace and their break
    parameters.

    `check` is called before each range is opened.  It raises to stop a walk over many ranges."""

    store: RangeStore
    namespace: str
    breaks: BreakParameters
    check: Callable[[], None] = unchecked

    def metarange(self, metarange_id: MetarangeId) -> Metarange:
        """The ranges of a metarange; `""` means the empty keyspace.  Raises `Gone` if the file is
        not there."""
        if metarange_id in ("", EMPTY_METARANGE):
            return NO_RANGES
        try:
            return self.store.read_metarange(self.namespace, metarange_id)
        except NotFound as error:
            raise Gone(f"content has expired or was lost: metarange={metarange_id}") from error

    def first_from(self, metarange_id: MetarangeId, key: bytes) -> RangeRef | Absent:
        """The first range of a metarange that does not end before `key`; ABSENT if there is none.
        Raises `Gone` if the file is not there."""
        if metarange_id in ("", EMPTY_METARANGE):
            return ABSENT
        try:
            return self.store.find_range(self.namespace, metarange_id, key)
        except NotFound as error:
            raise Gone(f"content has expired or was lost: metarange={metarange_id}") from error

    def open(self, ref: RangeRef) -> Table:
        """The open table of a range.  Raises `Gone` if the file is not there, and any error of
        `check`."""
        self.check()
        try:
            return self.store.open_range(self.namespace, ref.id)
        except NotFound as error:
            raise Gone(f"content has expired or was lost: range={ref.id}") from error


def counts_ahead() -> Iterator[int]:
    """How many items ahead a store is told of, at one item after another."""
    return chain((0, 1, 2, 4, 8), repeat(_AHEAD))


def foreseen(
    space: Keyspace,
    items: Iterable[T],
    refs_of: Callable[[T], Iterable[RangeRef]],
    *,
    is_whole: bool = False,
) -> Iterator[T]:
    """The same items.  Before each one that the caller takes, the store is told of the ranges that
    are read with the next ones: none at first, because the caller may stop soon, then more and
    more.  `is_whole`: all items are taken, so 16 at once, with the present one."""
    source, near = iter(items), deque[T]()
    for count in repeat(_AHEAD) if is_whole else counts_ahead():
        near.extend(islice(source, max(0, 1 + count - len(near))))
        if not near:
            return
        following = islice(near, 0 if is_whole else 1, None)
        space.store.expect(space.namespace, chain.from_iterable(map(refs_of, following)))
        yield near.popleft()


def check_run(run: Sequence[Columns]) -> None:
    """Raises `Invalid` if the records of a range are empty or not strictly increasing by key."""
    if not any(columns.count for columns in run):
        raise Invalid("write a range: there must be at least one record")
    last: bytes | Absent = ABSENT
    for columns in run:
        if not columns.count:
            continue
        if last is not ABSENT and columns.first <= last:
            raise Invalid(f"write a range: keys must be strictly increasing: key={columns.first!r}")
        keys = columns.keys if columns.chunk is ABSENT else ()
        if not all(map(lt, keys, keys[1:])):
            at = next(i for i in range(1, len(keys)) if keys[i - 1] >= keys[i])
            raise Invalid(f"write a range: keys must be strictly increasing: key={keys[at]!r}")
        last = columns.last


def ref_of(range_id: RangeId, run: Sequence[Columns]) -> RangeRef:
    """The reference of a range of these records."""
    held = [columns for columns in run if columns.count]
    size = sum(columns.size for columns in held)
    count = sum(columns.count for columns in held)
    return RangeRef(range_id, held[0].first, held[-1].last, size, count)


def totals(refs: Sequence[RangeRef]) -> tuple[int, int]:
    """The total number of records of the ranges, and the total bytes of their keys and values."""
    return sum(ref.count for ref in refs), sum(ref.size for ref in refs)


def check_ranges(ranges: Sequence[RangeRef]) -> None:
    """Raises `Invalid` if ranges overlap, are out of order, or are so many that no reader would
    take the index of their metarange."""
    following = map(min_key_of, islice(ranges, 1, None))
    if not all(map(lt, map(max_key_of, ranges), following)):
        left, right = next(
            (left, right) for left, right in pairwise(ranges) if left.max_key >= right.min_key
        )
        raise Invalid(
            "write a metarange: ranges must be in order and apart: "
            f"max_key={left.max_key!r} next_min_key={right.min_key!r}"
        )
    if (
        len(ranges) > _READABLE_COUNT
        and _index_bytes(ranges) > limits.table_index_expanded_bytes_max
    ):
        longest = max(len(ref.max_key) for ref in ranges)
        raise Invalid(
            "write a metarange: too many ranges with long paths; pack the branch into longer "
            f"ranges: ranges={len(ranges)} longest_path_bytes={longest}"
        )


def _index_bytes(ranges: Sequence[RangeRef]) -> int:
    """How long the index of a metarange may be, as its limit counts: a bound for each block, and
    the longest paths are the bounds."""
    size = sum(len(ref.min_key) + 2 * len(ref.max_key) + _AROUND_KEYS for ref in ranges)
    blocks = size // BLOCK_LENGTH + 1
    lengths = sorted((len(ref.max_key) for ref in ranges), reverse=True)
    return sum(lengths[:blocks]) + _AROUND_BOUND * blocks
