"""Everything works on S3 and DynamoDB: executors go there with the role of the job."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from graveler.api.local import open_service
from graveler.assembly.aws import StorageSigns, aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.auth import accounts
from graveler.block.address import new_data_address
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import AlreadyExists
from graveler.core.settings import Deployment
from graveler.http.service import ServiceSettings
from graveler.lake import bulk
from graveler.spark import (
    Lake,
    collect,
    commit,
    connect,
    diff,
    entries,
    import_,
    ranges,
)
from graveler.spark.gc.collect import sweep
from graveler.spark.gc.scopes import LISTED, CollectedRepository, Scope
from graveler.spark.places import Place, opened
from graveler.spark.reads import read
from tests.api.serving import ADMINISTRATOR, USER, listening
from tests.aws.buckets import create_bucket
from tests.aws.engines import ministack
from tests.aws.tables import new_table
from tests.fault_proxy import fault_proxy
from tests.spark.gc.test_collect import ALL, days_on
from tests.spark.lakes import frame, sequential, write
from tests.spark.verbs.test_commit import stage
from tests.spark.verbs.test_land import ascii_rows

NAME = "lake"  # of the table, and of the bucket


@pytest.fixture(scope="module")
def engine(surroundings: int) -> Iterator[str]:
    """The URL of an AWS that this process and all workers know by their environment, with a table
    and a bucket."""
    with ministack(port=surroundings) as url:
        session = AwsSession(AwsSettings(endpoint_url=url))
        create_bucket(session, NAME)
        new_table(session, NAME)
        os.environ["AWS_ENDPOINT_URL"] = url
        yield url
        del os.environ["AWS_ENDPOINT_URL"]
        opened.cache_clear()


@pytest.fixture
def lake(spark: SparkSession, engine: str, tmp_path: Path) -> Iterator[Lake]:
    """The service as the functions open it, on a port of this process."""
    made = Deployment(NAME, "", (NAME,), cache_folder=str(tmp_path), endpoint_url=engine)
    session, ids = AwsSession(AwsSettings(endpoint_url=engine)), SystemIds()
    ports, secret = ports_of(aws_drivers(session, made, ids), bytes(32)), bytes(32)
    with suppress(AlreadyExists):  # by an earlier test, in the same table
        accounts.create(
            accounts.keeper(ports.kv, ports.clock, ids, secret), USER, "", ADMINISTRATOR
        )
    settings = ServiceSettings(blockstore_type="s3", presigns=True)
    with listening(open_service(ports, StorageSigns(), secret, settings)) as (client, _):
        keys = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
        yield connect(spark, client.url, keys)


def test_all_of_it_through_the_service_on_aws(
    lake: Lake, place: Place, engine: str, tmp_path: Path
) -> None:
    body = {"name": "sales", "storage_namespace": f"s3://{NAME}/sales"}
    lake.session.call("POST", "/repositories", body)
    breaks = bulk.read_breaks(lake.session, "sales")
    bulk.swap_breaks(lake.session, "sales", breaks, place.breaks)
    rows = [(row[0], f"s3a://source/{row[3]}", *row[2:]) for row in ascii_rows(81, 150)]
    landed = import_(lake, frame(lake.spark, rows), "sales/main")
    stored = [(row[0], row[1].replace("s3a:", "s3:"), *row[2:]) for row in rows]
    refs = sequential(place, stored, tmp_path / "one")[1]
    found = ranges(lake, f"sales/{landed.commit}").collect()
    assert [row["id"] for row in found] == [ref.id for ref in refs] and len(refs) > 1
    addresses = entries(lake, f"sales/{landed.commit}", ["path", "address"]).collect()
    assert sorted(map(tuple, addresses)) == sorted(row[:2] for row in stored)
    saved = write(lake, lake.spark.range(50), "sales/main/t")
    assert sorted(row["id"] for row in read(lake, "sales/main/t").collect()) == list(range(50))
    changed = diff(lake, "sales/main~1", "sales/main", columns=["size"])
    assert changed.count() == saved.files + 1  # and the schema
    for number in range(5):
        stage(lake, "sales", f"n/{number}", number)
    assert commit(lake, "sales/main", table=NAME).rows == 5
    assert entries(lake, "sales/main/n/", ["path"]).count() == 5
    there = Place(f"s3:{NAME}", f"s3://{NAME}/sales", endpoint_url=engine)
    blocks, ids = opened(there).blocks, SystemIds()
    orphan = f"{there.namespace}/{new_data_address(SystemClock().now_ns(), ids, b'orphan')}"
    blocks.put(orphan, [b"x"])
    before = names(there)
    condemned = collect(days_on(lake, 1.1), ["sales"], ALL, dry_run=False).condemned.files
    # The orphan, and the range and metarange that the write linked: the head has ranges of its own.
    # A slow service that is asked again may have linked more.
    assert condemned >= 3 and names(there) == before
    swept = collect(days_on(lake, 2.2), ["sales"], ALL, dry_run=False)
    states = {row["state"] for row in swept.report.collect()}
    gone = before - names(there)
    assert swept.deleted.files == len(gone) == condemned and orphan in gone and "deleted" in states
    assert read(lake, "sales/main/t").count() == 50 and read(lake, "sales/main~1/t").count() == 50


@pytest.mark.one_version
def test_a_sweep_asks_for_stretches_and_not_for_files(
    bare: SparkSession, engine: str, tmp_path: Path
) -> None:
    clock, ids = SystemClock(), SystemIds()
    direct = opened(Place(f"s3:{NAME}", "", endpoint_url=engine)).blocks
    namespace = f"s3://{NAME}/swept"
    addresses = [new_data_address(clock.now_ns(), ids, b"one") for _ in range(300)]
    for name in addresses[:20]:
        direct.put(f"{namespace}/{name}", [b"an older version"])
    rows = [
        (0, name, direct.put(f"{namespace}/{name}", [b"x"]).version, 1, True, 0)
        for name in addresses
    ]
    direct.put(f"{namespace}/{addresses[9]}", [b"written again"])
    with fault_proxy(engine) as proxy:
        place = Place(f"s3:{NAME}", namespace, endpoint_url=proxy.url)
        scope = Scope(place, (CollectedRepository(0, "swept", namespace, 0),), "run", 0)
        swept = sweep(scope, bare.createDataFrame(rows, LISTED), len(rows))
        asked = Counter(proxy.operations)
    batches = len(swept)  # each leaves a note of what it has deleted
    assert sum(found.files for found in swept) == 300 and 1 <= batches <= 4
    # Of each: one list, one deletion, and one more for older versions, which only the first have.
    assert set(asked) == {"GET", "POST", "PUT"} and asked["PUT"] == batches
    assert asked["GET"] == batches and batches + 1 <= asked["POST"] <= 2 * batches
    left = [line.address for line in direct.list(f"{namespace}/data/", "", 1_000).lines]
    assert left == [f"{namespace}/{addresses[9]}"]
    assert direct.read(left[0], 0, 100) == b"written again"


@pytest.mark.one_version
def test_a_sweep_heads_no_file_of_tables(lake: Lake, engine: str) -> None:
    direct = opened(Place(f"s3:{NAME}", "", endpoint_url=engine)).blocks
    namespace = f"s3://{NAME}/tables"
    files = [f"_lakefs/{number:064x}" for number in range(20)]
    rows = [
        (0, name, direct.put(f"{namespace}/{name}", [b"no metarange"]).version, 12, True, 0)
        for name in files
    ]
    with fault_proxy(engine) as proxy:
        place = Place(f"s3:{NAME}", namespace, endpoint_url=proxy.url)
        scope = Scope(place, (CollectedRepository(0, "tables", namespace, 0),), "run", 0)
        swept = sweep(scope, lake.spark.createDataFrame(rows, LISTED), len(rows))
        asked = Counter(proxy.operations)
    assert sum(found.files for found in swept) == 20
    assert set(asked) == {"GET", "POST", "PUT"}
    assert direct.list(f"{namespace}/_lakefs/", "", 1_000).lines == ()


def names(place: Place) -> set[str]:
    """What is stored, but for what runs keep."""
    lines = opened(place).blocks.list(f"{place.namespace}/", "", 1_000).lines
    return {line.address for line in lines if "/_graveler/" not in line.address}
