"""What an open table is charged with is what it holds, so that a budget keeps as many as fit."""

import gc
import random
import tracemalloc
from pathlib import Path

import pytest

from graveler.block.local import LocalBlocks
from graveler.committed.cache import BudgetedCache
from graveler.committed.sstable import SstRangeStore
from graveler.committed.table import BlockCache, SortedTable
from graveler.committed.table_end import TAIL_LENGTH
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.ids import RangeId
from graveler.core.records import RangeRef
from tests.committed.test_tiers import CountingBlocks

NAMESPACE = "local://tests/repository"
MEMORY = "mem://tests/repository"
STEM = "tables/events/date=2025-01-01/hour=12/part-"


def filled(store: SstRangeStore, namespace: str, ranges: int, per_range: int) -> list[RangeRef]:
    """Ranges with keys as people have them."""
    chance = random.Random(per_range)
    return [
        store.write_range(
            namespace,
            [
                (f"{STEM}{number:03}-{at:07}.snappy.parquet".encode(), chance.randbytes(100))
                for at in range(per_range)
            ],
        )
        for number in range(ranges)
    ]


def walked(table: SortedTable) -> int:
    """The hash of all records that a listing's walk through a table returns."""
    walk, seen = table.walk(first=0, ahead=0), 0
    while records := walk.records():
        seen = hash((seen, tuple(records)))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("per_range", [200, 1_500, 6_000])
def test_tables_are_charged_with_what_they_hold(tmp_path: Path, per_range: int) -> None:
    blocks = LocalBlocks(tmp_path / "objects", clock=SystemClock(), ids=SystemIds())
    files = StoredFiles(blocks)
    refs = filled(SstRangeStore(files), NAMESPACE, 40, per_range)
    nothing_cached: BlockCache = BudgetedCache(0)
    kept: BudgetedCache[tuple[str, str], SortedTable] = BudgetedCache(1 << 30)
    gc.collect()
    tracemalloc.start()
    try:
        for ref in refs:
            table = SortedTable(files.open(NAMESPACE, ref.id), nothing_cached)
            assert table.get(ref.min_key)  # after this a long file's end is not kept
            kept.put((NAMESPACE, ref.id), table, table.cost)
        del table
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.75 * held < kept.spent < 1.5 * held


@pytest.mark.parametrize("budget", [64 << 20, 400_000])
def test_parsed_blocks_are_charged_with_what_they_hold(tmp_path: Path, budget: int) -> None:
    blocks = LocalBlocks(tmp_path / "objects", clock=SystemClock(), ids=SystemIds())
    files = StoredFiles(blocks)
    (ref,) = filled(SstRangeStore(files), NAMESPACE, 1, 4_000)
    store = SstRangeStore(files, budget, is_near=True)
    table = store.open_range(NAMESPACE, ref.id)
    once = walked(table)
    raw = store.caches["blocks"].spent
    gc.collect()
    tracemalloc.start()
    try:
        assert walked(table) == once  # the blocks that are cached stay parsed now
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    spent = store.caches["blocks"].spent
    assert spent <= budget
    if budget > 1 << 20:
        assert 0.75 * held < spent - raw < 1.5 * held
        assert walked(table) == once
        assert store.caches["blocks"].spent == spent
    else:
        assert held < 1.5 * budget


def test_a_budget_that_holds_no_parsed_block_keeps_the_block(tmp_path: Path) -> None:
    blocks = CountingBlocks()
    files = StoredFiles(blocks)
    (ref,) = filled(SstRangeStore(files), MEMORY, 1, 60)
    store = SstRangeStore(files, 20_000)
    table = store.open_range(MEMORY, ref.id)
    once = walked(table)
    before, spent = blocks.requests, store.caches["blocks"].spent
    assert walked(table) == once
    assert (blocks.requests, store.caches["blocks"].spent) == (before, spent)


def test_a_budget_keeps_as_many_long_tables_as_fit(tmp_path: Path) -> None:
    blocks = CountingBlocks()
    files = StoredFiles(blocks)
    refs = filled(SstRangeStore(files), MEMORY, 80, 1_500)
    store = SstRangeStore(files, block_cache_bytes=0, table_cache_bytes=1 << 20)
    costs = []
    for _ in range(2):
        before = blocks.requests
        for ref in refs:
            table = store.open_range(MEMORY, ref.id)
            assert table.length > TAIL_LENGTH
            assert table.get(ref.min_key)
        costs.append(blocks.requests - before)
    assert costs == [2 * len(refs), len(refs)]  # the second time all are open


def test_the_ends_of_files_that_nobody_reads_are_let_go(tmp_path: Path) -> None:
    blocks = CountingBlocks()
    files = StoredFiles(blocks)
    refs = filled(SstRangeStore(files), MEMORY, 100, 1_500)
    store = SstRangeStore(files, block_cache_bytes=0)
    gc.collect()
    tracemalloc.start()
    try:
        for ref in refs:
            store.open_range(MEMORY, ref.id)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 75 * TAIL_LENGTH  # the ends of 64 files, and 100 indexes
    before = blocks.requests
    store.open_range(MEMORY, refs[-1].id).get(refs[-1].max_key)  # stands in an end that is kept
    assert blocks.requests == before
    store.open_range(MEMORY, refs[0].id).get(refs[0].max_key)
    assert blocks.requests == before + 1


def test_a_metarange_that_is_too_large_to_keep_is_not_read_whole_for_each_key(
    tmp_path: Path,
) -> None:
    blocks = CountingBlocks()
    files = StoredFiles(blocks)
    refs = [
        RangeRef(RangeId(f"{n:064x}"), b"%06d-a" % n, b"%06d-z" % n, 1_000_000, 10_000)
        for n in range(0, 6_000)
    ]
    made = SstRangeStore(files).write_metarange(MEMORY, refs)
    store = SstRangeStore(files, block_cache_bytes=0, table_cache_bytes=1 << 20)
    for ref in refs[::600]:
        assert store.find_range(MEMORY, made, ref.min_key) == ref
    assert blocks.requests <= 1 + 10  # the end of the file, and a block for each
    assert store.read_metarange(MEMORY, made).ranges == tuple(refs)
