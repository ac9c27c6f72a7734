"""One download for all who ask, and the folder that machines share."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graveler.block.adapter import TO_END, Body
from graveler.committed import reader, writer
from graveler.committed.folder import CacheFolder
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles, file_address
from graveler.core.clock import SystemClock
from graveler.core.errors import Unavailable
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, BreakParameters
from tests.committed.stores import NAMESPACE
from tests.committed.test_tiers import RECORDS, CountingBlocks

ONE_RANGE = BreakParameters(raggedness=1_000_000_000)
BUDGET = 1 << 30


class SlowBlocks(CountingBlocks):
    """A whole file takes until `opened` is set; `whole` counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.whole = 0

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        self.whole += 1
        body = super().get(address, start, end)
        return body._replace(chunks=self._slowly(body.chunks))

    def _slowly(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            assert self.opened.wait(30)
            yield chunk


class Fleet:
    """Machines with a folder of their own each, and one that they share."""

    def __init__(self, folder: Path) -> None:
        self.blocks = SlowBlocks()
        self.folder = folder
        self.shared = folder / "shared"
        self.shared.mkdir()
        self.count = 0

    def machine(self) -> TieredFiles:
        self.count += 1
        own = self.folder / f"own{self.count}"
        return TieredFiles(self.blocks, own, BUDGET, self.shared, BUDGET)

    def space(self, files: TieredFiles) -> Keyspace:
        return Keyspace(SstRangeStore(files), NAMESPACE, ONE_RANGE)

    def written(self) -> MetarangeId:
        """Records that are in block storage and nowhere else."""
        metarange = writer.write(self.space(self.machine()), RECORDS)
        for copy in self.folder.glob("*/*.sst"):
            copy.unlink()
        self.blocks.requests = self.blocks.bytes = self.blocks.whole = 0
        return metarange


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_many_threads_that_scan_download_a_file_once(fleet: Fleet) -> None:
    metarange = fleet.written()
    space = fleet.space(fleet.machine())
    with ThreadPoolExecutor(6) as pool:
        scans = [pool.submit(lambda: list(reader.scan(space, metarange))) for _ in range(6)]
        fleet.blocks.opened.set()
        for scan in scans:
            assert scan.result() == RECORDS
    assert fleet.blocks.whole == 1


def test_many_machines_that_share_a_folder_download_a_file_once(fleet: Fleet) -> None:
    metarange = fleet.written()
    spaces = [fleet.space(fleet.machine()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        scans = [pool.submit(lambda s=s: list(reader.scan(s, metarange))) for s in spaces]
        fleet.blocks.opened.set()
        for scan in scans:
            assert scan.result() == RECORDS
    assert fleet.blocks.whole == 1


def test_a_machine_reads_what_another_fetched_without_a_request(fleet: Fleet) -> None:
    metarange = fleet.written()
    fleet.blocks.opened.set()
    assert list(reader.scan(fleet.space(fleet.machine()), metarange)) == RECORDS
    fleet.blocks.requests = 0
    assert list(reader.scan(fleet.space(fleet.machine()), metarange)) == RECORDS
    assert fleet.blocks.requests == 0
    assert len(list((fleet.folder / f"own{fleet.count}").glob("*.sst"))) == 2


def test_what_one_machine_wrote_is_there_for_all(fleet: Fleet) -> None:
    metarange = writer.write(fleet.space(fleet.machine()), RECORDS)
    fleet.blocks.requests = 0
    assert list(reader.scan(fleet.space(fleet.machine()), metarange)) == RECORDS
    assert fleet.blocks.requests == 0


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100_000])
def test_a_damaged_shared_copy_is_fetched_again(fleet: Fleet, damage: bytes) -> None:
    metarange = writer.write(fleet.space(fleet.machine()), RECORDS)
    for copy in fleet.shared.glob("*.sst"):
        copy.write_bytes(damage)
    fleet.blocks.opened.set()
    assert list(reader.scan(fleet.space(fleet.machine()), metarange)) == RECORDS
    fleet.blocks.requests = 0
    assert list(reader.scan(fleet.space(fleet.machine()), metarange)) == RECORDS
    assert fleet.blocks.requests == 0


def test_a_shared_folder_that_vanished_only_costs_requests(fleet: Fleet) -> None:
    metarange = fleet.written()
    fleet.blocks.opened.set()
    files = fleet.machine()
    fleet.shared.rename(fleet.folder / "gone")
    (fleet.folder / "shared").write_bytes(b"in the way")
    assert list(reader.scan(fleet.space(files), metarange)) == RECORDS
    assert list(reader.scan(fleet.space(files), metarange)) == RECORDS
    writer.write(fleet.space(files), RECORDS[:50])


def test_a_short_file_is_kept_by_its_first_request(fleet: Fleet) -> None:
    files = fleet.machine()
    metarange = writer.write(fleet.space(files), RECORDS[:100])
    for copy in fleet.folder.glob("*/*.sst"):
        copy.unlink()
    fleet.blocks.requests = 0
    assert list(reader.scan(fleet.space(files), metarange)) == RECORDS[:100]
    assert fleet.blocks.requests == 2
    assert list(reader.scan(fleet.space(fleet.machine()), metarange)) == RECORDS[:100]
    assert fleet.blocks.requests == 2


def test_a_download_that_fails_lets_the_next_one_try(fleet: Fleet, tmp_path: Path) -> None:
    class Failing(SlowBlocks):
        def _slowly(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
            yield next(chunks)
            raise Unavailable("the network is gone")

    good = fleet.written()
    failing = Failing()
    [address] = [
        file_address(NAMESPACE, ref.id) for ref in reader.ranges(fleet.space(fleet.machine()), good)
    ]
    fleet.blocks.opened.set()
    failing.put(address, fleet.blocks.get(address).chunks)
    files = TieredFiles(failing, tmp_path / "failing", BUDGET)
    with pytest.raises(Unavailable):
        files.fetch(address)
    assert not list((tmp_path / "failing").glob("*.part"))
    assert not list((tmp_path / "failing").glob("*.sst"))
    assert TieredFiles(fleet.blocks, tmp_path / "failing", BUDGET).fetch(address) is not ABSENT


HOLDER = """
import sys
from pathlib import Path
from graveler.core.clock import SystemClock
from graveler.committed.folder import CacheFolder
with CacheFolder(Path(sys.argv[1]), 1, SystemClock()).alone("address") as alone:
    print(alone, flush=True)
    sys.stdin.readline()
"""


class Hurrying(SystemClock):
    """Time passes with every look at it, and when it is waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def steady_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_one_process_at_a_time_and_a_dead_one_does_not_count(tmp_path: Path) -> None:
    held = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert held.stdout is not None
    assert held.stdout.readline() == "True\n"
    clock = Hurrying()
    with CacheFolder(tmp_path, 1, clock).alone("address") as alone:
        assert not alone
    assert clock.seconds >= 10
    held.kill()
    held.communicate()
    with CacheFolder(tmp_path, 1, SystemClock()).alone("address") as alone:
        assert alone
