"""No code reads the text of the project's own errors: a reworded text changes no behaviour."""

import ast
from functools import cache

import pytest

from tests.architecture.error_texts import findings
from tests.architecture.source import modules

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

# RocksDB reports a full disk and damaged files by text alone; msgspec, what is wrong with a body;
# Spark, what a worker raised.
FOREIGN = {
    "graveler/api/violations.py",
    "graveler/committed/sstable.py",
    "graveler/spark/cluster/workers.py",
}


@cache
def deciding() -> dict[str, list[int]]:
    """The modules of the product that decide by a text, with the lines."""
    lines = {module.path: list(findings(module.tree)) for module in modules("graveler")}
    return {path: found for path, found in lines.items() if found}


def test_no_module_decides_by_the_text_of_an_error() -> None:
    assert {path: lines for path, lines in deciding().items() if path not in FOREIGN} == {}


def test_what_is_allowed_is_needed() -> None:
    assert set(deciding()) >= FOREIGN


@pytest.mark.parametrize(
    "body",
    [
        'if "not found" in str(error): raise',
        'if str(error).startswith("ref"): raise',
        'if str(error).lower().startswith("ref"): raise',
        'said = str(error)\n        if said == "no changes": raise',
        'if error.args[0] == "no changes": raise',
        'if "gone" in f"{error}": raise',
        'ref = str(error).partition("ref=")[2]',
        "if pattern.match(str(error)): raise",
        'if "dirty" in job.error: raise',
    ],
)
def test_each_way_to_read_a_text_is_noticed(body: str) -> None:
    code = f"def f():\n    try:\n        g()\n    except KeyError as error:\n        {body}\n"
    assert list(findings(ast.parse(code)))


def test_a_text_that_is_passed_on_is_let_through() -> None:
    code = """def f(failure: GravelerError):
    first = str(failure).partition("\\n")[0]
    log(f"{failure}", first)
    if failure.code == Code.GONE or isinstance(failure, Gone):
        raise Corrupt(f"{failure}: table=1") from failure
"""
    assert not list(findings(ast.parse(code)))
