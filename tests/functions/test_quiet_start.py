"""Python looks for no garbage while a function starts, and passes over what the start has made."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANDLERS = sorted(ROOT.glob("functions/*/handler.py"))
CODE = """
import gc, sys
sys.path.insert(0, sys.argv[1])
from quiet_start import start
assert not gc.isenabled() and not gc.get_freeze_count()
assert start.end(print) is print
print(gc.isenabled(), gc.get_freeze_count() > 1_000)
"""


def test_the_collector_waits_and_then_passes_over_what_exists() -> None:
    command = [sys.executable, "-c", CODE, str(ROOT / "functions" / "shared")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True"]


@pytest.mark.parametrize("handler", HANDLERS, ids=[each.parent.name for each in HANDLERS])
def test_a_function_begins_with_it_and_ends_it_by_its_handler(handler: Path) -> None:
    body = ast.parse(handler.read_text(encoding="utf-8")).body
    imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
    assert ast.unparse(imports[0]) == "from quiet_start import start"
    (handle,) = [
        each for each in body if isinstance(each, ast.FunctionDef) and each.name == "handle"
    ]
    decorators = list(map(ast.unparse, handle.decorator_list))
    assert decorators[0] == "start.end"
    # Every one but that of the hooks has threads that work on ranges.
    assert ("at_rest(aws)" in decorators) == (handler.parent.name != "hooks")


def test_there_are_five() -> None:
    assert [each.parent.name for each in HANDLERS] == [
        "api",
        "events",
        "hooks",
        "janitor",
        "worker",
    ]
