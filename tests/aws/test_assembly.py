"""What a process on AWS loads, and what it does not; what the deployments choose."""

import subprocess
import sys
from pathlib import Path

from graveler.assembly import open_embedded
from graveler.assembly.aws import aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from graveler.core.settings import Deployment
from tests.aws.conftest import local
from tests.aws.engines import ROOT


def loaded_by(statement: str) -> set[str]:
    script = f"{statement}\nimport sys; print(chr(10).join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_the_store_on_aws_loads_no_embedded_database_and_no_models() -> None:
    loaded = loaded_by("import graveler.assembly.aws")
    assert {"graveler.kv.dynamodb", "graveler.block.s3"} <= loaded
    own = {"graveler.kv.rocksdb", "graveler.kv.memory", "graveler.block.local"}
    assert not loaded & {*own, "graveler.assembly.embedded", "pynamodb.models", "boto3"}


def test_the_embedded_store_loads_nothing_of_aws() -> None:
    loaded = loaded_by("from graveler.assembly import open_embedded")
    assert "graveler.kv.rocksdb" in loaded
    assert not loaded & {"botocore", "pynamodb", "graveler.core.aws"}


def test_importing_the_package_loads_no_driver() -> None:
    loaded = loaded_by("import graveler.assembly")
    assert not [name for name in loaded if name.startswith(("graveler.kv", "graveler.block"))]


def test_staging_grows_where_a_partition_is_less_than_the_store(tmp_path: Path) -> None:
    made = Deployment("table", "secret", ("bucket",), cache_folder=str(tmp_path / "cache"))
    drivers = aws_drivers(AwsSession(local("http://127.0.0.1:9")), made, SystemIds())
    assert ports_of(drivers, bytes(32)).settings.staging_shards_max == 64
    embedded = open_embedded(tmp_path / "store")
    assert embedded.ports.settings.staging_shards_max == 1
    embedded.close()
