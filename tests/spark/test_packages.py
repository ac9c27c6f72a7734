"""`graveler.spark` needs what the package and its extra `spark` name, and what clusters have."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata

from graveler.spark import __path__ as FOLDERS
from tests.architecture.source import ROOT

CLUSTERS = ("pyspark", "pandas")  # EMR and Glue bring both
PROGRAM = """
import importlib, json, pkgutil, sys
for module in pkgutil.iter_modules(sys.argv[1:], "graveler.spark."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":  # which Spark 3.5 does not have
            raise
import graveler.block.s3  # which a job opens by name
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def needed(names: list[str]) -> set[str]:
    """Distributions that these need, and so on."""
    found: set[str] = set()
    waiting = list(map(normal, names))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            asked = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        plain = (each for each in asked if "extra ==" not in each)
        waiting += [normal(re.split(r"[\s<>=!~;(\[]", each)[0]) for each in plain]
    return found


def test_all_that_is_imported_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["spark"], *CLUSTERS]
    allowed = needed([re.split("[<>=]", each)[0] for each in asked])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *FOLDERS], capture_output=True, text=True, check=True
    )
    owners = metadata.packages_distributions()
    used = [
        set(map(normal, owners[module]))  # several have modules below `google`
        for module in re.findall(r'"([^"]+)"', ran.stdout)
        if module in owners
    ]
    assert {"pynamodb", "pyarrow", "botocore"} <= set().union(*used)
    strange = [names for names in used if not names & {*allowed, "graveler", "setuptools"}]
    assert not strange, f"not named in pyproject.toml: {strange}"
