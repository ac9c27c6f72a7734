"""Tests of one group run in one process, those of a module too, and slow tests begin first."""

import subprocess
import sys
from pathlib import Path

from tests import conftest, groups

# The modules, and the group that each names.
MODULES = {"first": "shared", "between": "", "second": "shared", "last": ""}
CODE = """
import os
import pytest

{mark}
@pytest.mark.parametrize("number", range(8))
def test_where(number):
    with open("where", "a") as file:
        file.write("{group} " + os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


ORDER = """
import pytest

def noted(name):
    with open("where", "a") as file:
        file.write(name + "\\n")

def test_first():
    noted("first")

def test_second():
    noted("second")

@pytest.mark.slow
def test_slow():
    noted("slow")
"""

LARGER = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_plain(number):
    with open("where", "a") as file:
        file.write("of the larger one\\n")
"""


def run_in(tmp_path: Path, processes: int) -> list[str]:
    """Run the tests in the folder in parallel; the lines that they have written."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(processes), "--dist", "loadgroup"]
    root = Path(__file__).parents[1]
    ran = subprocess.run(
        [*command, "-p", "tests.groups", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return (tmp_path / "where").read_text().splitlines()


def test_tests_of_one_group_run_in_one_process(tmp_path: Path) -> None:
    for module, group in MODULES.items():
        mark = f'pytestmark = pytest.mark.xdist_group("{group}")' if group else ""
        code = CODE.format(mark=mark, group=group or module)
        (tmp_path / f"test_{module}.py").write_text(code)
    lines = run_in(tmp_path, 2)
    assert len(lines) == 32
    places = dict(line.split() for line in lines)
    assert set(places) == {"shared", "between", "last"} and len(set(lines)) == 3, lines
    assert len(set(places.values())) == 2, lines


def test_slow_tests_begin_first(tmp_path: Path) -> None:
    (tmp_path / "test_order.py").write_text(ORDER)
    (tmp_path / "test_a_larger_one.py").write_text(LARGER)
    assert run_in(tmp_path, 1) == ["slow", "first", "second", *["of the larger one"] * 5]


def test_the_order_is_that_of_the_project() -> None:
    hooks = ("pytest_xdist_make_scheduler", "pytest_collection_modifyitems")
    for name in hooks:
        assert getattr(conftest, name) is getattr(groups, name)
