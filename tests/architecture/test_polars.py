"""No process of pytest reads or writes S3 with Polars: the module docstring of
tests/gateway/clients/test_polars.py says why.  Tests call it in another process instead.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, imports, modules, parse, within

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

CALLS = "_calls.py"  # ends the names of modules that the processes of clients import
S3 = re.compile(r"\bs3a?://|\.storage_options\(")
FORMATS = "avro|csv|delta|iceberg|ipc|json|lance|lines|ndjson|parquet"
TRANSFER = re.compile(rf"(read|scan|write|sink)_({FORMATS})(_\w+)?")


def transfers(module: Module) -> Iterator[int]:
    """The lines that name what reads or writes tables, in a module that imports Polars and names
    S3.  It does not matter whose they are: one module does not mix them with those of others."""
    if not _may_transfer(module):
        return
    for node in ast.walk(module.tree):
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and node.module == "polars":
            names = [each.name for each in node.names]
        if any(map(TRANSFER.fullmatch, names)):
            yield node.lineno  # type: ignore[attr-defined]


def _may_transfer(module: Module) -> bool:
    """The text comes first: most modules need no parsing."""
    if "polars" not in module.text or not S3.search(module.text) or module.path.endswith(CALLS):
        return False
    return any(within(each.target, "polars") for each in imports(module))


def test_no_test_uses_s3_with_polars_in_its_own_process() -> None:
    found = [f"{each.path}:{line}" for each in modules("tests") for line in transfers(each)]
    assert not found, f"{found}: call it through `away` of tests/gateway/clients/conftest.py"


@pytest.mark.parametrize(
    "body",
    [
        'import polars\npolars.read_csv("s3://lake/main/a", storage_options={})',
        'import polars as pl\npl.DataFrame().write_parquet("s3://lake/main/a")',
        "import polars\ngiven = there.storage_options()\nfor read in (polars.scan_ipc,): read(uri)",
        'from polars import DataFrame\nDataFrame().lazy().sink_ndjson("s3a://lake/main/a")',
        'from polars import read_parquet\nread_parquet("s3://lake/main/a")',
        'def test_x():\n    import polars\n    polars.read_parquet_schema("s3://lake/main/a")',
    ],
)
def test_a_use_of_s3_is_found(body: str) -> None:
    assert list(transfers(parse("tests/test_x.py", body)))
    assert not list(transfers(parse("tests/x_calls.py", body)))


@pytest.mark.parametrize(
    "body",
    [
        'import polars\naway("polars:read_csv", "s3://lake/main/a")',
        "import polars\npolars.read_csv(file)",
        'import pandas\npandas.read_csv("s3://lake/polars/a", storage_options={})',
        'import polars\nfile.write_bytes(b"s3://lake/main/a")',
    ],
)
def test_what_stays_away_from_s3_is_not(body: str) -> None:
    assert not list(transfers(parse("tests/test_x.py", body)))
