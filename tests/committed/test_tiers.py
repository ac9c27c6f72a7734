"""The folder before block storage: a cache that may lie, vanish, or be shared."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from graveler.block.adapter import TO_END, Body, ObjectHead
from graveler.block.memory import MemoryBlocks
from graveler.committed import reader, writer
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.table_end import TAIL_LENGTH
from graveler.committed.tiers import StoredFiles, TieredFiles, file_address
from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt, NotFound, StorageFull
from graveler.core.records import ABSENT, BreakParameters, Record
from tests.committed.files import contents, stored_columns
from tests.committed.stores import NAMESPACE, value

RECORDS: list[Record] = [(b"%06d" % at, value(at) + b"z" * 200) for at in range(20_000)]
BREAKS = BreakParameters(raggedness=2_000)


class CountingBlocks(MemoryBlocks):
    """Counts requests and bytes."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.requests = 0
        self.bytes = 0

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        self.requests += 1
        body = super().get(address, start, end)
        self.bytes += body.end - body.start
        return body

    def read(self, address: str, start: int, length: int) -> bytes:
        self.requests += 1
        raw = super().read(address, start, length)
        self.bytes += len(raw)
        return raw

    def head(self, address: str) -> ObjectHead:
        self.requests += 1
        return super().head(address)


@pytest.fixture
def blocks() -> CountingBlocks:
    return CountingBlocks()


def space(blocks: MemoryBlocks, folder: Path, budget: int = 1 << 30) -> Keyspace:
    return Keyspace(SstRangeStore(TieredFiles(blocks, folder, budget)), NAMESPACE, BREAKS)


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_what_was_written_here_is_read_from_the_folder(
    blocks: CountingBlocks, tmp_path: Path
) -> None:
    metarange = writer.write(space(blocks, tmp_path), RECORDS)
    blocks.requests = 0
    assert list(reader.scan(space(blocks, tmp_path), metarange)) == RECORDS
    assert blocks.requests == 0


@pytest.mark.parametrize("count", [1, 150, 280, 290, 2_000])  # of up to 64 KiB, and longer
def test_a_table_that_was_just_stored_is_open(
    blocks: CountingBlocks, tmp_path: Path, count: int
) -> None:
    few: list[Record] = [(b"%06d" % at, os.urandom(200)) for at in range(count)]
    one, other = (SstRangeStore(StoredFiles(blocks)) for _ in range(2))
    ref = one.splice_range(NAMESPACE, stored_columns(few, tmp_path))
    blocks.requests = 0
    table = one.open_range(NAMESPACE, ref.id)
    assert table.count == count
    assert table.get(few[-1][0]) == few[-1][1]
    assert blocks.requests == 0
    assert contents(table) == few
    assert blocks.requests == (table.length > TAIL_LENGTH)
    # To this store the file is not new: it may have other blocks.
    other.splice_range(NAMESPACE, stored_columns(few, tmp_path))
    blocks.requests = 0
    assert other.open_range(NAMESPACE, ref.id).get(few[0][0]) == few[0][1]
    assert blocks.requests > 0


def test_a_cold_point_costs_kilobytes_and_a_scan_fills_the_folder(
    blocks: CountingBlocks, tmp_path: Path
) -> None:
    large = BreakParameters(raggedness=1_000_000_000)
    files = TieredFiles(blocks, tmp_path / "a", 1 << 30)
    metarange = writer.write(Keyspace(SstRangeStore(files), NAMESPACE, large), RECORDS * 1)
    size = sum(ref.size for ref in reader.ranges(space(blocks, tmp_path / "a"), metarange))
    blocks.requests = blocks.bytes = 0
    cold = space(blocks, tmp_path / "b")
    assert reader.get(cold, metarange, RECORDS[777][0]) == RECORDS[777][1]
    assert blocks.requests <= 6
    assert blocks.bytes < size / 10
    assert list(reader.scan(cold, metarange)) == RECORDS
    blocks.requests = 0
    assert list(reader.scan(cold, metarange)) == RECORDS
    again = space(blocks, tmp_path / "b")
    for key, held in RECORDS[::1_000]:
        assert reader.get(again, metarange, key) == held
    assert blocks.requests <= 4  # the metarange, which is smaller than a block


def test_a_few_look_ups_fetch_a_file_of_many_blocks(blocks: CountingBlocks, tmp_path: Path) -> None:
    """A request for a block takes as long as one for the whole of a range of the usual length."""
    records = [(b"%06d" % at, os.urandom(150)) for at in range(2_500)]
    store = SstRangeStore(TieredFiles(blocks, tmp_path / "a", 1 << 30))
    ref = store.write_range(NAMESPACE, records)
    for name, shared in (("b", ABSENT), ("c", tmp_path / "shared")):
        files = TieredFiles(blocks, tmp_path / name, 1 << 30, shared, 1 << 30)
        cold = SstRangeStore(files, block_cache_bytes=0)
        blocks.requests = 0
        for key, held in records[:1_000:100]:
            assert cold.open_range(NAMESPACE, ref.id).get(key) == held
        # The end, a block, the whole.  A copy in a shared folder is dearer than a few requests.
        assert (blocks.requests <= 3) == (shared is ABSENT), blocks.requests


def test_the_folder_keeps_its_budget(blocks: CountingBlocks, tmp_path: Path) -> None:
    budget = 200_000
    small = space(blocks, tmp_path, budget)
    metarange = writer.write(small, RECORDS)
    assert used(tmp_path) <= budget
    assert list(reader.scan(space(blocks, tmp_path, budget), metarange)) == RECORDS
    assert used(tmp_path) <= budget
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_of_many_copies_is_not_looked_through_for_each(
    blocks: CountingBlocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room is made for a 64th of the budget at a time: here, for three copies."""
    looks: list[Path] = []
    look = os.scandir

    def noted(folder: Path) -> object:
        looks.append(folder)
        return look(folder)

    monkeypatch.setattr(os, "scandir", noted)
    budget = 200_000
    files = TieredFiles(blocks, tmp_path, budget)
    for at in range(300):
        files.put(NAMESPACE, f"{at:064x}", [bytes([at % 256]) * 1_000])
        assert used(tmp_path) <= budget
    assert looks.count(tmp_path) == 100
    blocks.requests = 0
    for at in range(150, 300):
        assert files.open(NAMESPACE, f"{at:064x}").size() == 1_000
    assert blocks.requests == 0


def on_disk(folder: Path) -> int:
    """The bytes on the disk of files that this process has open, evicted ones included."""
    size = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith(str(folder)):
                size += os.stat(int(number)).st_size
    return size


def test_tables_that_stay_open_hold_no_more_than_the_budget(
    blocks: CountingBlocks, tmp_path: Path
) -> None:
    generator = random.Random(1)
    records = [(key, held[:100] + generator.randbytes(500)) for key, held in RECORDS[:6_000]]
    budget = 1_000_000
    files = TieredFiles(blocks, tmp_path, budget)
    small = Keyspace(SstRangeStore(files), NAMESPACE, BreakParameters(raggedness=500))
    metarange = writer.write(small, records)
    assert sum(ref.size for ref in reader.ranges(small, metarange)) > 3 * budget
    for _ in range(2):
        assert list(reader.scan(small, metarange)) == records
        assert 0 < on_disk(tmp_path) <= budget
    for key, expected in records[::300]:
        assert reader.get(small, metarange, key) == expected
    assert 0 < on_disk(tmp_path) <= budget


def test_a_damaged_copy_is_fetched_again(blocks: CountingBlocks, tmp_path: Path) -> None:
    metarange = writer.write(space(blocks, tmp_path), RECORDS)
    for path in tmp_path.iterdir():
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    assert list(reader.scan(space(blocks, tmp_path), metarange)) == RECORDS
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:20])
    assert list(reader.scan(space(blocks, tmp_path), metarange)) == RECORDS
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    assert list(reader.scan(space(blocks, tmp_path), metarange)) == RECORDS


def test_a_poisoned_copy_is_not_believed(blocks: CountingBlocks, tmp_path: Path) -> None:
    """A copy of another file under this one's name is whole, but belongs to another address."""
    one = space(blocks, tmp_path)
    left = writer.write(one, RECORDS[:100])
    right = writer.write(one, RECORDS[100:200])
    names = {reader.ranges(one, metarange)[0].id: metarange for metarange in (left, right)}
    blocks_of = [b"".join(blocks.get(file_address(NAMESPACE, name)).chunks) for name in names]
    assert blocks_of[0] != blocks_of[1]
    first, second = names
    blocks.put(file_address(NAMESPACE, first), [blocks_of[1]])
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(Corrupt):
        list(reader.scan(space(blocks, tmp_path), names[first]))
    assert list(reader.scan(space(blocks, tmp_path), names[second])) == RECORDS[100:200]


def test_an_open_file_outlives_its_eviction(blocks: CountingBlocks, tmp_path: Path) -> None:
    one = space(blocks, tmp_path)
    metarange = writer.write(one, RECORDS)
    scan = reader.scan(space(blocks, tmp_path), metarange)
    found = [next(scan)]
    for path in tmp_path.iterdir():
        path.unlink()
    assert [*found, *scan] == RECORDS


def test_a_folder_that_vanished_only_costs_requests(blocks: CountingBlocks, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    metarange = writer.write(space(blocks, folder), RECORDS)
    cold = space(blocks, folder)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert list(reader.scan(cold, metarange)) == RECORDS


def test_what_block_storage_lost_is_not_found(blocks: CountingBlocks, tmp_path: Path) -> None:
    metarange = writer.write(space(blocks, tmp_path), RECORDS)
    for ref in reader.ranges(space(blocks, tmp_path), metarange):
        blocks.delete(file_address(NAMESPACE, ref.id))
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(NotFound):
        list(reader.scan(space(blocks, tmp_path), metarange))


def test_a_full_disk_is_named_and_leaves_nothing(blocks: CountingBlocks, tmp_path: Path) -> None:
    class Full(MemoryBlocks):
        def put(self, *arguments: Any, **options: Any) -> ObjectHead:
            raise StorageFull("no room is left")

    full = Full(SystemClock())
    for files in (TieredFiles(full, tmp_path / "a", 1 << 30), StoredFiles(full)):
        with pytest.raises(StorageFull):
            files.put(NAMESPACE, "f" * 64, [b"half"])
        with pytest.raises(NotFound):
            files.open(NAMESPACE, "f" * 64).size()
    assert not list(tmp_path.glob("*/*"))


CHILD = """
import random, sys
from pathlib import Path
from typing import Any
from graveler.block.memory import MemoryBlocks
from graveler.core.clock import SystemClock
from graveler.committed import reader, writer
from tests.committed.test_tiers import RECORDS, space

folder, seed = Path(sys.argv[1]), int(sys.argv[2])
generator = random.Random(seed)
blocks = MemoryBlocks(SystemClock())
metarange = writer.write(space(blocks, folder, 300_000), RECORDS)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(15):
    fresh = space(blocks, folder, generator.choice([100_000, 300_000, 500_000]))
    start = generator.randrange(len(RECORDS))
    assert list(reader.scan(fresh, metarange, RECORDS[start][0])) == RECORDS[start:]
    for at in generator.sample(range(len(RECORDS)), 20):
        assert reader.get(fresh, metarange, RECORDS[at][0]) == RECORDS[at][1]
print("right")
"""


def children(folder: Path, count: int) -> Iterator[subprocess.Popen[str]]:
    for seed in range(count):
        yield subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.mark.slow
def test_two_processes_share_a_folder_that_is_too_small_for_them(tmp_path: Path) -> None:
    running = list(children(tmp_path, 2))
    for child in running:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    results = [child.communicate("go\n", timeout=60) for child in running]
    assert [out for out, _ in results] == ["right\n", "right\n"], results
