"""Whatever bytes are read: a record, or an error of the kinds that are promised; in bounded memory.

A failure prints the seed and the input.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from graveler.block.memory import MemoryBlocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles, file_address
from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt, NotFound
from graveler.core.ids import MetarangeId
from graveler.core.records import RangeRef
from simulator import damage
from simulator.damage import encoded_records
from tests import draws
from tests.fuzz import bombs
from tests.support.range_suite import numbered

ROOT = Path(__file__).parents[2]
NAMESPACE = "mem://fuzz/lake"
GROWN_KIB_MAX = 64 * 1024


@pytest.fixture
def generator() -> random.Random:
    """Of a seed that is printed."""
    seed = draws.seed()
    return random.Random(seed)


@pytest.mark.parametrize(
    ("fuzz", "count"),
    [
        (damage.fuzz_tables, 10_000),
        (damage.fuzz_blocks, 10_000),
        (damage.fuzz_records, 20_000),
        (damage.fuzz_framing, 15_000),
        (damage.fuzz_refs, 10_000),
    ],
)
def test_malformed_input_is_refused_by_its_kind(
    generator: random.Random, fuzz: damage.Fuzz, count: int
) -> None:
    """Fresh in every run; `make soak` draws more at once."""
    assert fuzz(generator, count) == []


def test_the_samples_decode_and_every_decoder_has_one() -> None:
    decoders = dict(damage.decoders_of_records())
    samples = encoded_records()
    assert decoders.keys() == samples.keys()
    for name, decode in decoders.items():
        decode(samples[name])


def test_a_fuzzer_notices_an_error_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(raw: bytes) -> bytes:
        return raw[:1] + bytes([raw[1]])  # IndexError where nothing is

    monkeypatch.setattr("graveler.core.identity.unframe", broken)
    wrong = damage.fuzz_framing(random.Random(1), 500)
    assert any(each.startswith("IndexError") for each in wrong)


def test_a_damaged_metarange_is_corrupt(generator: random.Random, tmp_path: Path) -> None:
    blocks = MemoryBlocks(SystemClock())
    store = SstRangeStore(StoredFiles(blocks))
    refs: list[RangeRef] = []
    for first in range(0, 300, 50):
        refs.append(store.write_range(NAMESPACE, numbered(300)[first : first + 50]))
    name = store.write_metarange(NAMESPACE, refs)
    address = file_address(NAMESPACE, name)
    raw = b"".join(blocks.get(address).chunks)
    for _ in range(1_500):
        blocks.put(address, [damage.mutated(generator, raw)])
        fresh = SstRangeStore(StoredFiles(blocks))
        try:
            found = fresh.read_metarange(NAMESPACE, name)
        except Corrupt:
            continue
        assert list(found.ranges) == refs
    with pytest.raises(NotFound):
        store.read_metarange(NAMESPACE, MetarangeId("11" * 32))


def test_small_files_that_expand_stay_small(tmp_path: Path) -> None:
    for name, raw in bombs.tables():
        (tmp_path / name).write_bytes(raw)
    finished = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.bombs", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [line.split("\t") for line in finished.stdout.splitlines()]
    assert len(lines) == 14
    read = [name for name, ended, _ in lines if ended == "read"]
    assert read == ["as many records as a block may have, data"]
    assert max(int(grown) for _, _, grown in lines) < GROWN_KIB_MAX, finished.stdout
