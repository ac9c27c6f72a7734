"""The table of operations names every operation of lakeFS's SDK, as it is declared and tested."""

import inspect
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import lakefs_sdk
import pytest

from simulator.service.described import described

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "compatibility.md"
REPOSITORY = "/repositories/{repository}"
SUFFIX = "_with_http_info"
STATUSES = {"works", "501", "open"}


class Row(NamedTuple):
    """One line of the table."""

    name: str
    method: str
    path: str
    status: str
    test: str

    @property
    def declared(self) -> bool:
        return (self.method, shape(self.path)) in DECLARED


def shape(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


DECLARED = {(each.method, shape(each.path)) for each in described()}


def rows() -> list[Row]:
    text = TABLE.read_text(encoding="utf-8").partition("\n## Operations\n")[2]
    lines = re.findall(r"^\| `(\w+)` \| (\w+) `(.+?)` \| (\w+) \| (?:`(.+?)`)? ?\|$", text, re.M)
    return [
        Row(name, verb, path.replace("…", REPOSITORY), *rest) for name, verb, path, *rest in lines
    ]


@cache
def operations() -> dict[str, tuple[str, str]]:
    """Method and path of each operation of the SDK, from the calls that it makes."""
    found: dict[str, tuple[str, str]] = {}
    for name, api in inspect.getmembers(lakefs_sdk, inspect.isclass):
        if not name.endswith("Api"):
            continue
        for called, function in inspect.getmembers(api, inspect.isfunction):
            if called.endswith(SUFFIX):
                source = inspect.getsource(function)
                calls = re.findall(r"call_api\(\s*'([^']+)', '([A-Z]+)'", source)
                assert len(calls) == 1, called
                found[called.removesuffix(SUFFIX)] = (calls[0][1], calls[0][0])
    return found


def test_the_table_has_each_operation_of_the_sdk_once() -> None:
    listed = [(row.name, (row.method, row.path)) for row in rows()]
    assert dict(listed) == operations()
    assert not [name for name, count in Counter(name for name, _ in listed).items() if count > 1]
    assert len(listed) == 134


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_says_what_is_so(row: Row) -> None:
    assert row.status in STATUSES
    assert row.declared == (row.status != "open"), "the table and the declarations disagree"
    assert bool(row.test) == row.declared, "an operation that is declared needs a test"
    if row.test:
        file, _, test = row.test.partition("::")
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {test}\(", source, re.M), f"no such test: {row.test}"
