"""Everything works on S3 and DynamoDB: executors go there with the role of the job."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from graveler.api.app import open_service
from graveler.api.service import ServiceSettings
from graveler.assembly.aws import StorageSigns
from graveler.assembly.aws_drivers import aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.auth import accounts
from graveler.aws import AwsSession, AwsSettings
from graveler.block.address import new_data_address
from graveler.clock import SystemClock, SystemIds
from graveler.committed.verify import metarange_damages
from graveler.kv.dynamodb_table import create_table
from graveler.settings import Deployment
from graveler.spark import (
    Lake,
    collect,
    commit,
    connect,
    diff,
    entries,
    import_,
    ranges,
    read,
    write,
)
from graveler.spark.importing import ImportOptions, import_rows
from graveler.spark.places import Place, opened
from tests.api.serving import ADMINISTRATOR, USER, listening
from tests.aws.buckets import create_bucket
from tests.aws.engines import ministack
from tests.spark.lakes import Row, frame, sequential, some_rows
from tests.spark.test_collecting import ALL, days_on
from tests.spark.test_committing import stage
from tests.spark.test_landing import ascii_rows

NAME = "lake"  # of the table, and of the bucket


@pytest.fixture(scope="module")
def engine(surroundings: int) -> Iterator[str]:
    """The URL of an AWS that this process and all workers know by their environment, with a table
    and a bucket."""
    with ministack(port=surroundings) as url:
        session = AwsSession(AwsSettings(endpoint_url=url))
        create_bucket(session, NAME)
        create_table(session, NAME)
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
    accounts.create(accounts.keeper(ports.kv, ports.clock, ids, secret), USER, "", ADMINISTRATOR)
    settings = ServiceSettings(blockstore_type="s3", presigns=True)
    with listening(open_service(ports, StorageSigns(), secret, settings)) as (client, _):
        keys = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
        yield connect(spark, client.url, keys)


def of_s3(rows: list[Row]) -> list[Row]:
    return [(row[0], f"s3a://source/{row[3]}", *row[2:]) for row in rows]


def test_ranges_go_to_s3(spark: SparkSession, place: Place, engine: str, tmp_path: Path) -> None:
    rows = of_s3(some_rows(80, 200))
    there = replace(place, storage=f"s3:{NAME}", namespace=f"s3://{NAME}/alone")
    there = replace(there, endpoint_url=engine)
    made = import_rows(frame(spark, rows), there, ImportOptions(tasks=2))
    options = ImportOptions(tasks=2, base=made.metarange)
    again = import_rows(frame(spark, rows[:60]), there, options)
    canonical = [(row[0], row[1].replace("s3a:", "s3:"), *row[2:]) for row in rows]
    assert made.metarange == sequential(place, canonical, tmp_path / "one")[0] == again.metarange
    assert list(metarange_damages(opened(there).space, made.metarange)) == []


def test_all_of_it_through_the_service_on_aws(lake: Lake, engine: str) -> None:
    body = {"name": "sales", "storage_namespace": f"s3://{NAME}/sales"}
    lake.session.ask("POST", "/repositories", body)
    rows = of_s3(ascii_rows(81, 40))
    landed = import_(lake, frame(lake.spark, rows), "sales/main/in")
    found = entries(lake, f"sales/{landed.commit}/in/", ["path", "address"]).collect()
    assert sorted(map(tuple, found)) == sorted(
        (f"in/{row[0]}", row[1].replace("s3a:", "s3:")) for row in rows
    )
    saved = write(lake, lake.spark.range(50), "sales/main/t")
    assert sorted(row["id"] for row in read(lake, "sales/main/t").collect()) == list(range(50))
    assert diff(lake, "sales/main~1", "sales/main", columns=["size"]).count() == saved.files
    for number in range(5):
        stage(lake, "sales", f"n/{number}", number)
    assert commit(lake, "sales/main", table=NAME).rows == 5
    assert entries(lake, "sales/main/n/", ["path"]).count() == 5
    (whole,) = ranges(lake, "sales/main").collect()
    assert whole["count"] == 45 + saved.files

    place = Place(f"s3:{NAME}", f"s3://{NAME}/sales", endpoint_url=engine)
    blocks, ids = opened(place).blocks, SystemIds()
    orphan = f"{place.namespace}/{new_data_address(SystemClock(), ids, b'orphan')}"
    blocks.put(orphan, [b"x"])
    before = names(place)
    condemned = collect(days_on(lake, 1.1), ["sales"], ALL, dry_run=False).condemned.files
    assert condemned == 1 and names(place) == before
    swept = collect(days_on(lake, 2.2), ["sales"], ALL, dry_run=False)
    gone = before - names(place)
    assert swept.deleted.files == 1 and gone == {orphan}
    assert read(lake, "sales/main/t").count() == 50 and read(lake, "sales/main~1/t").count() == 50


def names(place: Place) -> set[str]:
    """What is stored, but for what runs keep."""
    lines = opened(place).blocks.list(f"{place.namespace}/", "", 1_000).lines
    return {line.address for line in lines if "/_graveler/" not in line.address}
