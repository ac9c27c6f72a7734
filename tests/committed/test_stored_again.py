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
from graveler.core.errors import Corrupt
from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef, Record
from graveler.core.streams import END
from tests.committed.files import contents, stored_columns
from tests.committed.stores import NAMESPACE
from tests.committed.test_tiers import CountingBlocks

CHANCE = random.Random(1)
RECORDS: list[Record] = [(b"%06d" % at, CHANCE.randbytes(160)) for at in range(6_000)]
MakeStore = Callable[[MemoryBlocks, Path], SstRangeStore]


def far(blocks: MemoryBlocks, folder: Path) -> SstRangeStore:
    return SstRangeStore(StoredFiles(blocks, folder))


def near(blocks: MemoryBlocks, folder: Path) -> SstRangeStore:
    return SstRangeStore(StoredFiles(blocks, folder), is_near=True)


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


def test_a_walk_goes_on_in_the_file_as_it_is_now(lake: Lake) -> None:
    assert walked(lake.table, lake.store_again) == RECORDS


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
    content = splice.spliced(run)
    assert StoredFiles(blocks, tmp_path).put(NAMESPACE, name, content)
    assert b"".join(content) != stored
    assert seeker.find_range(NAMESPACE, name, refs[1_900].min_key) == refs[1_900]
    assert decoder.read_metarange(NAMESPACE, name).ranges == tuple(refs)
