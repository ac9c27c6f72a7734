"""The docstring of a package is its map: it names each module and package that lies in it.

An entry of a map begins a line: one or more names, then two spaces or more, then what they are for.

    apply         applies changes to a base
    seal, splice  writes blocks; takes over blocks of stored tables
    commits/      a package
"""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

PACKAGES = sorted(
    path.parent
    for top in ("graveler", "simulator", "benchmarks")
    for path in (ROOT / top).rglob("__init__.py")
)
_ENTRY = re.compile(r"^ {0,4}([\w/]+(?:, [\w/]+)*) {2,}\S", re.MULTILINE)


def entries(docstring: str) -> list[str]:
    return sorted(name for names in _ENTRY.findall(docstring) for name in names.split(", "))


def contents(package: Path) -> list[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return sorted(modules | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")})


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_package_names_what_lies_in_it(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    named, there = entries(ast.get_docstring(tree) or ""), contents(package)
    assert named == there, "the map of the package names each of its modules, once, and no other"


def test_an_entry_is_told_from_prose() -> None:
    text = """One line.  Then more.

    seal, splice  writes blocks
    commits/      a package
Read `seal.py`, then more.  Importing it loads nothing.
                  a continued line
"""
    assert entries(text) == ["commits/", "seal", "splice"]
    assert len(PACKAGES) > 40
