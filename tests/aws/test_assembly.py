"""What a process on AWS loads, and what it does not."""

import subprocess
import sys

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
    assert not loaded & {"botocore", "pynamodb", "graveler.aws"}


def test_importing_the_package_loads_no_driver() -> None:
    loaded = loaded_by("import graveler.assembly")
    assert not [name for name in loaded if name.startswith(("graveler.kv", "graveler.block"))]
