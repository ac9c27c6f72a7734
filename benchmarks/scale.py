"""Computes how far one branch scales: simulated load, and sizes from the real writer.

    python -m benchmarks.scale            prints the tables (two minutes)

The load is simulated against DynamoDB's limits.
"""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from benchmarks.committed import key, value
from benchmarks.scale_runs import COMMIT_SECONDS, Outcome, events, growth, readers, writers
from benchmarks.single import print_table
from graveler.block.memory import MemoryBlocks
from graveler.committed import writer
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles, file_address
from graveler.core.clock import SystemClock
from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef

OBJECTS = 1_000_000_000
SAMPLE = 150_000
_REGION = 20_000_000  # objects in one region of keys, sorted by their number
NAMESPACE = "mem://bucket/lake"


class Sizes(NamedTuple):
    """The sizes of a repository with `objects` objects.  File sizes are those of written files."""

    objects: int
    record_bytes: float  # key and framed value, which the break rule counts
    stored_bytes: float  # bytes of one record in a file
    records_per_range: float
    ranges: int
    metarange_bytes: int


def sizes(objects: int = OBJECTS, sample: int = SAMPLE) -> Sizes:
    """The sizes of a repository with `objects` objects.

    The real writer writes the ranges of a sample.  The metarange is written in full, over as many
    ranges as the repository would have.
    """
    breaks = BreakParameters(salt=b"scale")
    blocks = MemoryBlocks(SystemClock())
    store = SstRangeStore(StoredFiles(blocks))
    space = Keyspace(store, NAMESPACE, breaks)
    written = writer.write(space, ((_key(n), value(n)) for n in range(sample)))
    refs = space.metarange(written).ranges
    stored = sum(blocks.head(file_address(NAMESPACE, ref.id)).size for ref in refs)
    record = sum(ref.size for ref in refs) / sample
    per_range = mean_count(record, breaks)
    count = round(objects / per_range)
    faked = [_ref(at, per_range) for at in range(count)]
    metarange = store.write_metarange(NAMESPACE, faked)
    size = blocks.head(file_address(NAMESPACE, metarange)).size
    return Sizes(objects, record, stored / sample, per_range, count, size)


def mean_count(record_bytes: float, breaks: BreakParameters) -> float:
    """The average number of records in a range.

    Each record ends its range with a probability of one in `raggedness`; the last record that fits
    always ends it.
    """
    most = breaks.max_size / record_bytes
    return float(breaks.raggedness * (1 - (1 - 1 / breaks.raggedness) ** most))


def _key(number: int) -> bytes:
    region, rest = divmod(number, _REGION)
    return b"r=%03d/" % region + key(rest)


def _ref(at: int, per_range: float) -> RangeRef:
    first = int(at * per_range)
    name = RangeId(f"{at * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 256):064x}")
    return RangeRef(name, _key(first), _key(first + int(per_range) - 1), 18_000_000, int(per_range))


_HEADS = ("clients", "calls/s", "p50 ms", "p99 ms", "503 of 1,000", "throttled", "commits", "lost")


def _show(what: str, runs: Iterable[tuple[str, Callable[[int], Outcome], tuple[int, ...]]]) -> None:
    """A table of simulated loads: the line, the load, and the numbers of clients."""

    def row(name: str, clients: int, found: Outcome) -> tuple[object, ...]:
        landed = f"{found.commits - found.failed} of {found.commits}"
        times = (found.p50_ms, found.p99_ms, found.answers_503, found.throttled)
        return name, clients, found.per_second, *times, landed, found.lost

    rows = (row(name, clients, run(clients)) for name, run, numbers in runs for clients in numbers)
    print_table(what, _HEADS, rows)


def main() -> None:
    """Print the tables of how far one branch scales."""
    argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=main.__doc__
    ).parse_args()
    found = sizes()
    print_table("A billion objects", ("",), list(found._asdict().items()))
    _show(
        "One branch: clients without pauses for 5 s beside one who commits every 5 s",
        [
            *(
                (f"writers, {shards} shards", partial(_writers, shards), (10, 100, 1_000))
                for shards in (1, 8, 64)
            ),
            ("readers", lambda count: readers(count, 5), (100, 1_000)),
        ],
    )
    grown, lost = growth(100, 5, 10.0)
    assert not lost, f"acknowledged but not committed: {lost=}"
    print_table(
        "A branch that grows: 100 writers, a commit every 10 s",
        ("shards", "rows", "rows/s"),
        [(f"until commit {at}", *each) for at, each in enumerate(grown, 1)],
    )
    _show(
        "Committers without pauses for 5.5 s beside 50 writers, 8 shards",
        [("committers", lambda count: writers(8, 50, 4, (count, 0.0)), (1, 8, 32, 100))],
    )
    _show(
        "Functions that take in deliveries of 100 events",
        [
            (f"functions, {shards} shards", partial(_events, shards), (16, 64))
            for shards in (1, 8, 64)
        ],
    )


def _writers(shards: int, count: int) -> Outcome:
    return writers(shards, count, 5, (1, COMMIT_SECONDS))


def _events(shards: int, count: int) -> Outcome:
    return events(shards, count, 4)


if __name__ == "__main__":
    main()
