"""A file that is stored already stays as it is: its name tells its records, not its blocks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.block.memory import MemoryBlocks
from graveler.clock import SystemClock
from graveler.committed.tiers import StoredFiles, TableFiles, TieredFiles

NAMESPACE, NAME = "mem://bucket/repo", "0" * 64


def _stored(folder: Path) -> TableFiles:
    return StoredFiles(MemoryBlocks(SystemClock()), folder)


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
    files.add(NAMESPACE, NAME, lambda path: path.write_bytes(b"and others again") and None)
    late = files.open(NAMESPACE, NAME)
    for source in (early, late):
        assert (source.size(), source.read(0, 11)) == (11, b"first index")


def test_another_process_keeps_no_copy_that_differs_from_what_is_stored(tmp_path: Path) -> None:
    blocks = MemoryBlocks(SystemClock())
    one = TieredFiles(blocks, tmp_path / "one", 1 << 20)
    other = TieredFiles(blocks, tmp_path / "other", 1 << 20)
    one.put(NAMESPACE, NAME, [b"first index"])
    other.put(NAMESPACE, NAME, [b"other blocks of the same records"])
    assert other.open(NAMESPACE, NAME).read(0, 11) == b"first index"
