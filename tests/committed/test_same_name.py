"""A file that is stored already stays as it is: its name tells its records, not its blocks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.block.adapter import Beat, ObjectHead, unwatched
from graveler.block.local import LocalBlocks
from graveler.block.memory import MemoryBlocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles, TableFiles, TieredFiles, file_address
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.records import RangeRef, Record
from tests.committed.files import stored_columns

NAMESPACE, NAME = "mem://bucket/repo", "0" * 64


def _stored(folder: Path) -> TableFiles:
    return StoredFiles(MemoryBlocks(SystemClock()))


def _tiered(folder: Path) -> TableFiles:
    return TieredFiles(MemoryBlocks(SystemClock()), folder, 1 << 20)


@pytest.mark.parametrize("make", [_stored, _tiered])
def test_who_read_the_index_finds_the_blocks_that_it_knows(
    make: Callable[[Path], TableFiles], tmp_path: Path
) -> None:
    files = make(tmp_path)
    files.put(NAMESPACE, NAME, [b"first ", b"index"])
    early = files.open(NAMESPACE, NAME)
    assert early.size() == 11
    files.put(NAMESPACE, NAME, [b"other blocks of the same records"])
    files.put(NAMESPACE, NAME, [b"and others again"])
    late = files.open(NAMESPACE, NAME)
    for source in (early, late):
        assert (source.size(), source.read(0, 11)) == (11, b"first index")


def test_what_is_stored_again_is_another_version_so_that_no_collection_takes_it(
    tmp_path: Path,
) -> None:
    blocks = LocalBlocks(tmp_path / "objects", clock=SystemClock(), ids=SystemIds())
    files = StoredFiles(blocks)
    place = file_address("local://bucket/repo", NAME)
    files.put("local://bucket/repo", NAME, [b"first index"])
    seen = blocks.head(place)
    files.put("local://bucket/repo", NAME, [b"other blocks of the same records"])
    blocks.delete(place, seen.version)
    assert blocks.read(place, 0, 11) == b"first index"


def test_a_file_that_is_collected_between_two_looks_is_written(tmp_path: Path) -> None:
    class Collecting(MemoryBlocks):
        def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
            self.delete(source)
            return super().copy(source, destination, beat)

    blocks = Collecting(SystemClock())
    files = StoredFiles(blocks)
    files.put(NAMESPACE, NAME, [b"first index"])
    files.put(NAMESPACE, NAME, [b"second"])
    assert files.open(NAMESPACE, NAME).read(0, 6) == b"second"


@pytest.mark.parametrize("is_spliced_first", [True, False])
def test_what_is_in_memory_of_a_file_that_was_collected_is_not_taken_for_the_next_one(
    tmp_path: Path, is_spliced_first: bool
) -> None:
    records: list[Record] = [(b"%06d" % at, (b"%08d" % at) * 20) for at in range(1_500)]
    blocks = MemoryBlocks(SystemClock())
    store = SstRangeStore(StoredFiles(blocks))
    parts = [
        stored_columns(part, tmp_path) for part in (records[:37], records[37:90], records[90:])
    ]

    def spliced() -> RangeRef:
        return store.splice_range(NAMESPACE, [columns for part in parts for columns in part])

    def built() -> RangeRef:
        return store.write_range(NAMESPACE, records)

    counts = []
    for write in (spliced, built) if is_spliced_first else (built, spliced):
        ref = write()
        table = store.open_range(NAMESPACE, ref.id)
        assert [table.get(key) for key, _ in records] == [value for _, value in records]
        counts.append(table.blocks_count)
        blocks.delete(file_address(NAMESPACE, ref.id))
    assert counts[0] != counts[1]


def test_another_process_keeps_no_copy_that_differs_from_what_is_stored(tmp_path: Path) -> None:
    blocks = MemoryBlocks(SystemClock())
    one = TieredFiles(blocks, tmp_path / "one", 1 << 20)
    other = TieredFiles(blocks, tmp_path / "other", 1 << 20)
    one.put(NAMESPACE, NAME, [b"first index"])
    other.put(NAMESPACE, NAME, [b"other blocks of the same records"])
    assert other.open(NAMESPACE, NAME).read(0, 11) == b"first index"
