"""No test patches a limit or a private constant of the product: what differs is passed in."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, imports, modules, parse

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

CONSTANT = re.compile(r"_[A-Z][A-Z0-9_]*")
LIMITS = "graveler.limits"
ASSIGNS = re.compile(r"\.\w+\s*=[^=]")
ASSIGNS_CONSTANT = re.compile(rf"\.{CONSTANT.pattern}\s*=[^=]")


def patches(module: Module) -> Iterator[int]:
    """The lines that replace a limit, or a private constant of a module of the product."""
    if not _may_replace(module.text):
        return
    names = {each.target.rpartition(".")[2]: each.target for each in imports(module)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            names |= {
                each.asname: f"{node.module}.{each.name}" for each in node.names if each.asname
            }
        elif isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
    for node in ast.walk(module.tree):
        for where, name in _replaced(node):
            first, dot, rest = where.partition(".")
            owner = f"{names.get(first, first)}{dot}{rest}"
            is_product = owner.split(".")[0] == "graveler"
            if owner == LIMITS or (is_product and CONSTANT.fullmatch(name)):
                yield node.lineno  # type: ignore[attr-defined]


def _may_replace(text: str) -> bool:
    """Whether it is worth the time to parse this text."""
    if "setattr" in text or ASSIGNS_CONSTANT.search(text):
        return True
    return "limits" in text and ASSIGNS.search(text) is not None


def _replaced(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Owner and name of what a call of `setattr`, or an assignment, replaces."""
    if isinstance(node, ast.Call) and _name(node.func) == "setattr":
        texts = [each.value if isinstance(each, ast.Constant) else "" for each in node.args]
        if texts and texts[0]:
            owner, _, name = str(texts[0]).rpartition(".")
            yield owner, name
        elif len(texts) > 1:
            yield ast.unparse(node.args[0]), str(texts[1])
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                yield ast.unparse(target.value), target.attr


def _name(function: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@pytest.mark.slow
def test_no_test_patches_a_limit_or_a_constant() -> None:
    found = [f"{module.path}:{line}" for module in modules("tests") for line in patches(module)]
    assert not found, "pass it in: a setting of the engine, a parameter, or a store of short pages"


@pytest.mark.parametrize(
    "body",
    [
        'from graveler import limits\nmonkeypatch.setattr(limits, "walk_count_max", 2)',
        'from graveler import limits as bounds\npatch.setattr(bounds, "walk_count_max", 2)',
        "from graveler import limits\nlimits.walk_count_max = 2",
        'import graveler.limits\nmonkeypatch.setattr(graveler.limits, "walk_count_max", 2)',
        'monkeypatch.setattr("graveler.limits.walk_count_max", 2)',
        'from graveler.kv import database\nmonkeypatch.setattr(database, "_SECONDS", 2)',
        'from graveler.kv import database\nsetattr(database, "_SECONDS", 2)',
        'monkeypatch.setattr("graveler.kv.database._SECONDS", 2)',
    ],
)
def test_a_patched_limit_is_found(body: str) -> None:
    assert list(patches(parse("tests/test_x.py", body)))


@pytest.mark.parametrize(
    "body",
    [
        'from graveler.kv import database\nmonkeypatch.setattr(database, "Rdict", broken)',
        'import os\nmonkeypatch.setattr(os, "fsync", broken)',
        'from simulator import stage\nmonkeypatch.setattr(stage, "LIFE_SECONDS", 1)',
        "self.limits = 2",
    ],
)
def test_a_fake_of_behaviour_is_not(body: str) -> None:
    assert not list(patches(parse("tests/test_x.py", body)))
