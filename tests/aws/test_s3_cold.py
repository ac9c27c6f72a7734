"""Cold reads over the wire: a committed look-up and a page from S3, counted behind the driver."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graveler.block.retry import retrying_blocks
from graveler.block.s3 import S3Blocks
from graveler.committed import reader
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters
from graveler.core.requests import RetryPolicy
from graveler.core.streams import list_page
from tests.aws.buckets import create_bucket
from tests.aws.conftest import PATIENT_S3, local
from tests.aws.test_s3_urls import WithoutClients
from tests.committed.test_cold_reads import PER_RANGE, RANGES, entry, fake, key
from tests.fault_proxy import FaultProxy, Forward, Reply, Request, fault_proxy

REAL = 100
FIRST = REAL * PER_RANGE


class Counting:
    """The proxy, and the bytes that came through it."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.bytes = 0

    def count(self, request: Request, forward: Forward) -> Reply | None:
        """A fault that only looks."""
        reply = forward(request)
        self.bytes += len(reply.body)
        return reply


@pytest.fixture(scope="module")
def wire(engine: str) -> Iterator[Counting]:
    with fault_proxy(engine) as proxy:
        yield Counting(proxy)


@pytest.fixture(scope="module")
def written(
    session: AwsSession, fresh_name: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, MetarangeId]:
    """A bucket with ten million objects' metarange, and one of its ranges."""
    name = fresh_name()
    create_bucket(session, name)
    blocks = S3Blocks(session, SystemClock(), [name], PATIENT_S3)
    store = SstRangeStore(TieredFiles(blocks, tmp_path_factory.mktemp("warm"), 1 << 30))
    refs = [fake(at) for at in range(RANGES)]
    records = [(key(n), entry(n)) for n in range(FIRST, FIRST + PER_RANGE)]
    refs[REAL] = store.write_range(f"s3://{name}/lake", records)
    return name, store.write_metarange(f"s3://{name}/lake", refs)


@pytest.fixture
def cold(wire: Counting, written: tuple[str, MetarangeId], tmp_path: Path) -> Keyspace:
    """As a function sees it that has just started: nothing cached, and no S3 client made."""
    clock, name = SystemClock(), written[0]
    blocks = S3Blocks(WithoutClients(local(wire.proxy.url)), clock, [name])
    files = TieredFiles(retrying_blocks(blocks, clock, RetryPolicy()), tmp_path, 1 << 30)
    wire.proxy.operations.clear()
    wire.bytes = 0
    wire.proxy.plan(*[wire.count] * 3)
    return Keyspace(SstRangeStore(files), f"s3://{name}/lake", BreakParameters())


def test_a_cold_stat(cold: Keyspace, wire: Counting, written: tuple[str, MetarangeId]) -> None:
    assert reader.get(cold, written[1], key(FIRST + 777)) == entry(FIRST + 777)
    assert wire.proxy.operations == ["GET"] * 3
    assert wire.bytes <= 256 * 1024


def test_a_cold_page(cold: Keyspace, wire: Counting, written: tuple[str, MetarangeId]) -> None:
    cursor = reader.cursor(cold, written[1], ahead=1_001, jumps=False)
    page = list_page(cursor, b"", b"", key(FIRST + 776), 1_000)
    assert [key for key, _ in page.lines] == [key(FIRST + n) for n in range(777, 1_777)]
    assert wire.proxy.operations == ["GET"] * 3
    assert wire.bytes <= 512 * 1024
