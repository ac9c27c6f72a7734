"""What reads cost when nothing is cached, counted in requests and bytes of block storage.

The repository has ten million objects; of its ranges only those that a test touches are there.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from graveler.committed import reader
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.core.streams import list_page
from tests.committed.stores import NAMESPACE
from tests.committed.test_tiers import CountingBlocks

OBJECTS = 10_000_000
PER_RANGE = 50_000  # what a raggedness of 50,000 gives, the most that is usual
RANGES = OBJECTS // PER_RANGE
PER_HOUR = 500


def key(number: int) -> bytes:
    """The path of one object, as tables in lakes have them."""
    hour = number // PER_HOUR
    day, year = hour // 24, hour // 24 // 372
    unique = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
    return (
        f"warehouse/events/year={2020 + year}/month={day // 31 % 12 + 1:02}/day={day % 31 + 1:02}/"
        f"hour={hour % 24:02}/part-{number % PER_HOUR:05}-{unique}.snappy.parquet"
    ).encode()


def entry(number: int) -> bytes:
    """A value as long as an entry is, and as hard to compress."""
    digest = hashlib.sha256(b"%d" % number)
    return digest.digest() + digest.hexdigest().encode() * 2 + b"\x08\x80" * 16


def fake(at: int) -> RangeRef:
    """A range that is not there."""
    name = RangeId(hashlib.sha256(b"%d" % at).hexdigest())
    first = at * PER_RANGE
    return RangeRef(name, key(first), key(first + PER_RANGE - 1), 18_000_000, PER_RANGE)


class Lake:
    """Ten million objects, of which the ranges `real` were written."""

    def __init__(self, folder: Path, real: Sequence[int]) -> None:
        self.blocks = CountingBlocks()
        self._folder = folder
        warm = self._space("warm")
        refs = [fake(at) for at in range(RANGES)]
        for at in real:
            records = [(key(n), entry(n)) for n in range(at * PER_RANGE, (at + 1) * PER_RANGE)]
            refs[at] = warm.store.write_range(NAMESPACE, records)
        self.metarange = warm.store.write_metarange(NAMESPACE, refs)

    def _space(self, name: str) -> Keyspace:
        store = SstRangeStore(TieredFiles(self.blocks, self._folder / name, 1 << 30))
        return Keyspace(store, NAMESPACE, BreakParameters())

    def cold(self) -> Keyspace:
        """The keyspace as a new machine sees it; counting begins anew."""
        self.blocks.requests = self.blocks.bytes = 0
        return self._space(f"cold{len(list(self._folder.iterdir()))}")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("lake"), (0, 89, 100, 101, 178))


FIRST = 100 * PER_RANGE


def touched(lake: Lake) -> str:
    return f"requests={lake.blocks.requests} bytes={lake.blocks.bytes}"


@pytest.mark.parametrize("number", [FIRST, FIRST + 1, FIRST + 25_123, FIRST + PER_RANGE - 1])
def test_a_cold_point_costs_four_reads_at_most(lake: Lake, number: int) -> None:
    assert reader.get(lake.cold(), lake.metarange, key(number)) == entry(number)
    assert lake.blocks.requests <= 4, touched(lake)
    assert lake.blocks.bytes <= 256 * 1024, touched(lake)


@pytest.mark.parametrize(
    ("start", "ranges"),
    [(0, 1), (20_017, 1), (PER_RANGE - 500, 2), (PER_RANGE - 990, 2), (PER_RANGE - 10, 2)],
)
def test_a_cold_page_costs_six_reads_at_most(lake: Lake, start: int, ranges: int) -> None:
    cursor = reader.cursor(lake.cold(), lake.metarange, ahead=1_001, jumps=False)
    first = FIRST + start
    page = list_page(cursor, b"", b"", key(first - 1), 1_000)
    assert [path for path, _ in page.lines] == [key(n) for n in range(first, first + 1_000)]
    assert lake.blocks.requests <= 6, touched(lake)
    assert lake.blocks.bytes <= 512 * 1024, touched(lake)


@pytest.mark.parametrize(
    ("folder", "lines", "ranges"),
    [(b"", 1, 1), (b"warehouse/", 1, 1), (b"warehouse/events/", 3, 3)],
)
def test_a_cold_page_of_folders_costs_two_reads_a_range(
    lake: Lake, folder: bytes, lines: int, ranges: int
) -> None:
    """Folders wider than a range: each is entered at one place, and left for another range."""
    cursor = reader.cursor(lake.cold(), lake.metarange, ahead=1_001)
    page = list_page(cursor, folder, b"/", b"", 1_000)
    assert len(page.lines) == lines
    assert lake.blocks.requests <= 2 + 2 * ranges, touched(lake)
    assert lake.blocks.bytes <= 512 * 1024, touched(lake)


def test_a_cold_page_of_narrow_folders_costs_two_reads_a_range(lake: Lake) -> None:
    """Folders narrower than a range: hours of 500 objects, days of 12,000."""
    day = key(FIRST + 5_000).rpartition(b"hour=")[0]
    cursor = reader.cursor(lake.cold(), lake.metarange, ahead=1_001)
    assert len(list_page(cursor, day, b"/", b"", 1_000).lines) == 24
    assert lake.blocks.requests <= 2 + 2, touched(lake)
    month = day.rpartition(b"day=")[0]
    after = key(FIRST + 8_000).rpartition(b"hour=")[0]
    cursor = reader.cursor(lake.cold(), lake.metarange, ahead=8)
    page = list_page(cursor, month, b"/", after, 6)
    assert len(page.lines) == 6
    assert lake.blocks.requests <= 2 + 2 * 2, touched(lake)


@pytest.mark.parametrize(("start", "ranges"), [(0, 1), (PER_RANGE - PER_HOUR // 2, 2)])
def test_a_cold_page_of_one_folder_costs_two_reads_a_range(
    lake: Lake, start: int, ranges: int
) -> None:
    """A folder of files, with a delimiter that none of them has: read on, not sought."""
    cursor = reader.cursor(lake.cold(), lake.metarange, ahead=1_001)
    folder = key(FIRST + start).rpartition(b"/")[0] + b"/"
    page = list_page(cursor, folder, b"/", b"", 1_000)
    assert len(page.lines) == PER_HOUR
    assert lake.blocks.requests <= 2 + 2 * ranges, touched(lake)
