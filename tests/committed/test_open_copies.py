"""Few copies in the folder are open, however many tables are."""

import os
from pathlib import Path

import pytest

from graveler.committed.folder import CacheFolder
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles, file_address
from graveler.core.clock import SystemClock
from graveler.core.records import Record
from tests.committed.stores import NAMESPACE, value
from tests.committed.test_tiers import CountingBlocks

FIRST, SECOND = "1" * 64, "2" * 64


def open_count(folder: Path) -> int:
    """How many files of `folder` this process has open."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{number}").startswith(str(folder))
        except FileNotFoundError:  # the descriptor by which the folder is listed
            continue
    return count


def test_many_open_tables_have_few_open_files_and_need_no_request(tmp_path: Path) -> None:
    blocks = CountingBlocks()
    store = SstRangeStore(TieredFiles(blocks, tmp_path, 1 << 30, open_max=4), block_cache_bytes=0)
    records: list[Record] = [(b"%06d" % at, value(at)) for at in range(40)]
    refs = [store.write_range(NAMESPACE, [record]) for record in records]
    tables = [store.open_range(NAMESPACE, ref.id) for ref in refs]
    blocks.requests = 0
    for _ in range(2):
        for table, (key, expected) in zip(tables, records, strict=True):
            assert table.get(key) == expected
            assert open_count(tmp_path) <= 4
    assert open_count(tmp_path) == 4
    assert blocks.requests == 0


def test_a_store_that_may_keep_no_file_open_reads_its_copies(tmp_path: Path) -> None:
    blocks = CountingBlocks()
    files = TieredFiles(blocks, tmp_path, 1 << 30, open_max=0)
    files.put(NAMESPACE, FIRST, [b"first content"])
    source = files.open(NAMESPACE, FIRST)
    assert (source.size(), source.read(6, 7)) == (13, b"content")
    assert open_count(tmp_path) == 0
    assert blocks.requests == 0


def test_a_copy_that_is_closed_during_a_read_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = CountingBlocks()
    files = TieredFiles(blocks, tmp_path, 1 << 30, open_max=1)
    files.put(NAMESPACE, FIRST, [b"first content"])
    files.put(NAMESPACE, SECOND, [b"second content"])
    source = files.open(NAMESPACE, FIRST)
    read = os.pread
    opened: list[object] = []

    def late(descriptor: int, length: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(tmp_path)):
            monkeypatch.undo()
            opened.append(files.open(NAMESPACE, SECOND))  # takes the only place
        return read(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", late)
    assert source.read(0, 5) == b"first"
    assert opened
    assert open_count(tmp_path) == 1
    assert source.read(6, 7) == b"content"
    assert blocks.requests == 0


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_table_whose_closed_copy_is_gone_or_another_one_is_read_from_block_storage(
    tmp_path: Path, is_replaced: bool
) -> None:
    blocks = CountingBlocks()
    store = SstRangeStore(TieredFiles(blocks, tmp_path, 1 << 30, open_max=1), block_cache_bytes=0)
    records: list[Record] = [(b"%06d" % at, os.urandom(1_000)) for at in range(1_000)]
    ref = store.write_range(NAMESPACE, records)
    table = store.open_range(NAMESPACE, ref.id)
    store.open_range(NAMESPACE, store.write_range(NAMESPACE, records[:1]).id)  # takes the place
    for path in tmp_path.iterdir():
        path.unlink()
    if is_replaced:
        folder = CacheFolder(tmp_path, 1 << 30, SystemClock())
        folder.enter(file_address(NAMESPACE, ref.id), [b"other blocks"])
    blocks.requests = 0
    for key, expected in records[:2]:
        assert table.get(key) == expected
    assert blocks.requests == 3  # the end of the file, and the block twice
