"""A table stays open while its file is collected and stored again: same records, other blocks."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.block.memory import MemoryBlocks
from graveler.committed import reader, splice
from graveler.committed.columns import Run
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.table import SortedTable
from graveler.committed.tiers import StoredFiles, TieredFiles, file_address
from graveler.core import wire
from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt, Unavailable
from graveler.core.ids import RangeId
from graveler.core.records import ABSENT, BreakParameters, RangeRef, Record
from graveler.core.streams import END
from tests.committed.files import contents, stored_columns
from tests.committed.stores import NAMESPACE
from tests.committed.test_tiers import CountingBlocks

CHANCE = random.Random(1)
RECORDS: list[Record] = [(b"%06d" % at, CHANCE.randbytes(160)) for at in range(6_000)]
MakeStore = Callable[[MemoryBlocks, Path], SstRangeStore]


def far(blocks: MemoryBlocks, folder: Path) -> SstRangeStore:
    return SstRangeStore(StoredFiles(blocks))


def near(blocks: MemoryBlocks, folder: Path) -> SstRangeStore:
    return SstRangeStore(StoredFiles(blocks), is_near=True)


def behind_a_folder(blocks: MemoryBlocks, folder: Path) -> SstRangeStore:
    """No copy stays open, so that one that was evicted is not read any more."""
    return SstRangeStore(TieredFiles(blocks, folder / "copies", 1 << 30, open_max=0))


class Lake:
    """A store that has written a range, and opened it."""

    def __init__(self, make: MakeStore, folder: Path) -> None:
        self.blocks = CountingBlocks()
        self.store = make(self.blocks, folder)
        self._folder = folder
        self.ref = self.store.write_range(NAMESPACE, RECORDS)
        self.table = self.store.open_range(NAMESPACE, self.ref.id)
        self.address = file_address(NAMESPACE, self.ref.id)

    def store_again(self) -> None:
        """What two other processes do: one collects the file, one stores it with other blocks."""
        stored = self.blocks.read(self.address, 0, 1 << 30)
        self.blocks.delete(self.address)
        for copy in self._folder.glob("copies/*"):
            copy.unlink()
        assert far(self.blocks, self._folder).splice_range(NAMESPACE, self._run()) == self.ref
        assert self.blocks.read(self.address, 0, 1 << 30) != stored
        self.blocks.requests = 0

    def _run(self) -> Run:
        return other_blocks(RECORDS, self._folder)

    def damage(self) -> None:
        """Change one byte of the first block."""
        raw = bytearray(self.blocks.read(self.address, 0, 1 << 30))
        raw[100] ^= 1
        self.blocks.put(self.address, [bytes(raw)])
        for copy in self._folder.glob("copies/*"):
            copy.unlink()
        self.blocks.requests = 0


def other_blocks(records: list[Record], folder: Path) -> Run:
    """The records in stored blocks that end elsewhere than in a table that is written at once."""
    pieces = [stored_columns(part, folder) for part in (records[:37], records[37:])]
    return Run([columns for piece in pieces for columns in piece])


def short_blocks(records: list[Record], folder: Path) -> Run:
    """The records in stored blocks that are shorter than usual, and compress less."""
    pieces = [stored_columns(records[at : at + 30], folder) for at in range(0, len(records), 30)]
    return Run([columns for piece in pieces for columns in piece])


@pytest.fixture(params=[far, near, behind_a_folder])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


def walked(table: SortedTable, change: Callable[[], None]) -> list[Record]:
    """All records of a walk; `change` happens after its first chunk."""
    walk = table.walk(first=0, ahead=0)
    records = list(walk.records())
    change()
    while chunk := walk.records():
        records += chunk
    return records


def test_a_look_up_reads_the_file_as_it_is_now(lake: Lake) -> None:
    lake.store_again()
    for key, expected in RECORDS[::100]:
        assert lake.table.get(key) == expected
    assert lake.store.open_range(NAMESPACE, lake.ref.id) is not lake.table


def test_a_look_up_that_meets_other_blocks_costs_two_requests_more(tmp_path: Path) -> None:
    lake = Lake(far, tmp_path)
    lake.store_again()
    assert lake.table.get(RECORDS[2_000][0]) == RECORDS[2_000][1]
    assert lake.blocks.requests == 3
    table = lake.store.open_range(NAMESPACE, lake.ref.id)
    assert table.get(RECORDS[4_000][0]) == RECORDS[4_000][1]
    assert lake.blocks.requests == 4
    assert lake.table.get(RECORDS[5_000][0]) == RECORDS[5_000][1]  # the file is open already
    assert lake.blocks.requests == 6


def test_a_walk_goes_on_in_the_file_as_it_is_now(lake: Lake) -> None:
    assert walked(lake.table, lake.store_again) == RECORDS


def test_a_walk_that_begins_late_reads_the_file_as_it_is_now(lake: Lake) -> None:
    lake.store_again()
    walk = lake.table.walk(first=0, ahead=0)
    walk.seek(RECORDS[3_000][0])
    records = list(walk.records())
    assert records[0][0] <= RECORDS[3_000][0] <= records[-1][0]
    walk.seek(RECORDS[5_000][0])
    later = list(walk.records())
    assert later[0][0] <= RECORDS[5_000][0] <= later[-1][0]


def test_a_walk_may_seek_between_the_last_key_of_a_block_and_its_bound(tmp_path: Path) -> None:
    records = [(b"%06dx" % (3 * at), content) for at, (_, content) in enumerate(RECORDS)]
    blocks = MemoryBlocks(SystemClock())
    store = near(blocks, tmp_path)
    ref = store.splice_range(NAMESPACE, other_blocks(records, tmp_path))
    table = store.open_range(NAMESPACE, ref.id)
    blocks.delete(file_address(NAMESPACE, ref.id))
    other = far(blocks, tmp_path)
    assert other.write_range(NAMESPACE, records) == ref
    ends = [chunk.records()[-1][0] for chunk in other.open_range(NAMESPACE, ref.id).chunks()]
    for end in ends[:-1]:
        walk = table.walk(first=0, ahead=0)
        walk.seek(end + b"y")
        assert walk.records()[-1][0] > end


def test_a_listing_goes_on_in_the_file_as_it_is_now(lake: Lake) -> None:
    metarange = lake.store.write_metarange(NAMESPACE, [lake.ref])
    cursor = reader.cursor(Keyspace(lake.store, NAMESPACE, BreakParameters()), metarange)
    records = [cursor.peek()]
    cursor.advance()
    lake.store_again()
    while (item := cursor.peek()) is not END:
        records.append(item)
        cursor.advance()
    assert records == RECORDS


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_scan_is_unavailable_once(lake: Lake, is_streaming: bool) -> None:
    lake.store_again()
    with pytest.raises(Unavailable, match="stored again"):
        for chunk in lake.table.chunks(streaming=is_streaming):
            chunk.records()
    assert contents(lake.store.open_range(NAMESPACE, lake.ref.id)) == RECORDS


def test_damage_stays_an_error(lake: Lake) -> None:
    lake.damage()
    for _ in range(2):
        table = lake.store.open_range(NAMESPACE, lake.ref.id)
        with pytest.raises(Corrupt):
            table.get(RECORDS[0][0])
        with pytest.raises(Corrupt):
            table.walk(first=0, ahead=0).records()
        with pytest.raises(Corrupt):
            contents(table)
        assert table.get(RECORDS[5_000][0]) == RECORDS[5_000][1]


def test_a_metarange_is_read_as_it_is_now(tmp_path: Path) -> None:
    ids = [RangeId(CHANCE.randbytes(32).hex()) for _ in range(2_000)]
    refs = [RangeRef(name, b"%06d" % at, b"%06d" % at, 9, 1) for at, name in enumerate(ids)]
    blocks = MemoryBlocks(SystemClock())
    name = far(blocks, tmp_path).write_metarange(NAMESPACE, refs)
    seeker, decoder = far(blocks, tmp_path), far(blocks, tmp_path)
    for store in (seeker, decoder):  # the first look-up leaves the table open
        assert store.find_range(NAMESPACE, name, refs[3].min_key) == refs[3]
    run = other_blocks([wire.encode_range(ref) for ref in refs], tmp_path)
    stored = blocks.read(file_address(NAMESPACE, name), 0, 1 << 30)
    blocks.delete(file_address(NAMESPACE, name))
    content = splice.spliced(run).content
    assert StoredFiles(blocks).put(NAMESPACE, name, content)
    assert b"".join(content) != stored
    assert seeker.find_range(NAMESPACE, name, refs[1_900].min_key) == refs[1_900]
    assert decoder.read_metarange(NAMESPACE, name).ranges == tuple(refs)


def test_a_file_that_is_shorter_now_is_corrupt_for_those_who_knew_it(tmp_path: Path) -> None:
    lake = Lake(far, tmp_path)
    source = StoredFiles(lake.blocks).open(NAMESPACE, lake.ref.id)
    size = source.size()
    assert source.read(0, 1)
    lake.blocks.put(lake.address, [b"short"])
    for offset in (0, size - 10):
        with pytest.raises(Corrupt, match="shorter than its index states"):
            source.read(offset, 10)


def test_scans_of_a_file_that_is_shorter_now_are_tried_again_once(tmp_path: Path) -> None:
    """Its end was passed, so it is not in memory any more."""
    records = [(b"%08d" % at, CHANCE.randbytes(40) + bytes(range(200))) for at in range(8_000)]
    blocks = MemoryBlocks(SystemClock())
    ref = far(blocks, tmp_path).splice_range(NAMESPACE, short_blocks(records, tmp_path))
    table = far(blocks, tmp_path).open_range(NAMESPACE, ref.id)
    assert table.get(records[0][0]) == records[0][1]
    blocks.delete(file_address(NAMESPACE, ref.id))
    far(blocks, tmp_path).write_range(NAMESPACE, records)
    with pytest.raises(Unavailable, match="try again"):
        contents(table)
    with pytest.raises(Unavailable, match="try again"):
        [chunk.stored for chunk in table.chunks(records[-1][0], streaming=False)]
    assert contents(table.reopened()) == records


def test_a_metarange_that_is_shorter_now_is_read(tmp_path: Path) -> None:
    stem = bytes(range(150))
    refs = [
        RangeRef(RangeId(CHANCE.randbytes(32).hex()), key, key, 1_500_000, 10_000)
        for key in (stem + b"%08d" % at for at in range(5_000))
    ]
    records = [wire.encode_range(ref) for ref in refs]
    blocks = MemoryBlocks(SystemClock())
    store = far(blocks, tmp_path)
    name = store.write_metarange(NAMESPACE, refs)
    content = splice.spliced(short_blocks(records, tmp_path)).content
    address = file_address(NAMESPACE, name)
    whole = blocks.read(address, 0, 1 << 30)
    blocks.put(address, content)
    reader_of_it = far(blocks, tmp_path)
    assert reader_of_it.find_range(NAMESPACE, name, refs[3].min_key) is not ABSENT
    blocks.put(address, [whole])
    found = reader_of_it.read_metarange(NAMESPACE, name)
    assert [each.id for each in found.ranges] == [each.id for each in refs]
