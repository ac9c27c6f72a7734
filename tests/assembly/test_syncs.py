"""How often the embedded store waits for its disk."""

import os
from pathlib import Path

import pytest

from graveler.assembly.embedded import open_embedded
from graveler.core.records import BreakParameters
from graveler.engine.repositories import repository
from graveler.kv.rocksdb import RocksStore
from tests.engine.lake import Lake


@pytest.mark.parametrize("paths", [10, 3_000])
def test_a_commit_and_a_merge_wait_for_four_syncs_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: int
) -> None:
    """One for all rows; for the files, one of the journal if both are small, else three."""
    embedded = open_embedded(tmp_path)
    kv = embedded.ports.kv
    assert isinstance(kv, RocksStore)
    files: list[int] = []
    for name in ("fsync", "fdatasync"):
        sync = getattr(os, name)

        def counted(descriptor: int, sync=sync) -> None:  # type: ignore[no-untyped-def]
            files.append(descriptor)
            sync(descriptor)

        monkeypatch.setattr(os, name, counted)

    def since(rows: int, begun: int) -> tuple[int, int]:
        return kv.counts.syncs - rows, len(files) - begun

    try:
        breaks = BreakParameters(raggedness=1 << 20, salt=b"syncs")
        new = repository.NewRepository("lake", "local://lake/x", breaks=breaks)
        lake = Lake(embedded.ports, repository.create(embedded.ports, new))
        for number in range(paths):
            lake.put(f"{number:06}", f"{number:032}" * 2)
        lake.commit()
        lake.branch("side")
        lake.put("more", "1", "side")
        lake.put("other", "2")
        lake.commit("first of this branch")
        before = kv.counts.syncs, len(files)
        lake.commit("one", "side")
        rows, written = since(*before)
        assert (rows, written <= 3) == (1, True), written
        before = kv.counts.syncs, len(files)
        lake.merge("side")
        rows, written = since(*before)
        assert (rows, written <= 3) == (1, True), written
    finally:
        embedded.close()
