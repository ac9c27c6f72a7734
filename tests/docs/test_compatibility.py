"""The page of compatibility names every operation of lakeFS's SDK that is not declared."""

import inspect
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import lakefs_sdk

from simulator.service.described import described

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
REPOSITORY = "/repositories/{repository}"
SUFFIX = "_with_http_info"


class Row(NamedTuple):
    """One line of the table: an operation that is not served."""

    name: str
    method: str
    path: str


def shape(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


DECLARED = {(each.method, shape(each.path)) for each in described()}


def rows() -> list[Row]:
    text = PAGE.read_text(encoding="utf-8").partition("\n## Operations\n")[2]
    lines = re.findall(r"^\| `(\w+)` \| (\w+) `(.+?)` \|$", text, re.M)
    return [Row(name, verb, path.replace("…", REPOSITORY)) for name, verb, path in lines]


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


def test_the_page_names_each_operation_that_is_not_served() -> None:
    assert len(operations()) == 134
    missing = {
        name: (method, path)
        for name, (method, path) in operations().items()
        if (method, shape(path)) not in DECLARED
    }
    assert {row.name: (row.method, row.path) for row in rows()} == missing
    text = PAGE.read_text(encoding="utf-8")
    assert f"Of the 134 operations of the generated SDK, {134 - len(missing)} work" in text
