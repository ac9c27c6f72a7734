"""What is installed: the package, and the one in which Spark finds its format."""

import tomllib

from setuptools import find_packages

from tests.architecture.source import ROOT


def test_the_format_of_spark_is_in_the_wheel() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    names = find_packages(str(ROOT), include=tools["packages"]["find"]["include"])
    assert {name.partition(".")[0] for name in names} == {"graveler", "pyspark_graveler"}
