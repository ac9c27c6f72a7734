"""Each name that the tests import from the project exists.  mypy checks the product's imports; a
wrong import of a test module is only seen when its folder runs, and some run on few machines."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.source import GENERATED, ROOT, Module, is_module, modules, parse

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

FOLDERS = ("tests", "simulator", "benchmarks", "graveler", "scripts")


def absent(module: Module) -> Iterator[str]:
    """What the module imports from the folders of the project and is not there."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOLDERS:
            names = bound(node.module or "")
            for alias in node.names:
                known = alias.name in names or alias.name.startswith("__")
                if not known and not is_module(f"{node.module}.{alias.name}"):
                    yield f"{module.path}:{node.lineno}: {node.module} has no {alias.name}"


@cache
def bound(target: str) -> frozenset[str]:
    """The names that the statements of a module bind, at any depth outside functions and classes;
    none if there is no such module."""
    module = _by_name().get(target)
    if module is None:
        return frozenset()
    found: set[str] = set()
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
                continue
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            if isinstance(node, ast.alias):
                found.add((node.asname or node.name).split(".")[0])
            waiting.append(node)
    return frozenset(found)


@cache
def _by_name() -> dict[str, Module]:
    """The modules of the project, whose trees other tests have parsed already, and generated
    ones."""
    generated = [
        parse(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for ending in GENERATED
        for file in (ROOT / folder).rglob(f"*{ending}")
    ]
    return {".".join(module.dotted): module for module in (*modules(*FOLDERS), *generated)}


def test_each_imported_name_exists() -> None:
    found = [each for module in modules("tests") for each in absent(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from tests.architecture.source import ROOT, nothing", "nothing"),
        ("def f():\n    from tests.architecture import nowhere", "nowhere"),
        ("from tests.nowhere import x", "x"),
    ],
)
def test_a_name_that_is_absent_is_named(source: str, missing: str) -> None:
    (found,) = absent(parse("tests/here.py", source))
    assert found.endswith(f"has no {missing}")


def test_names_and_modules_that_exist_are_found() -> None:
    source = (
        "from tests.architecture import source\nfrom tests.architecture.source import Rule, cache"
    )
    assert not list(absent(parse("tests/here.py", source)))
