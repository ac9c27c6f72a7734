"""No module of the product imports itself by way of others, also not inside a function."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.source import Module, imports, modules, parse

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")


def circle(parsed: list[Module]) -> list[str]:
    """Modules that import each other in a circle; empty if there is none."""
    names = {".".join(module.dotted) for module in parsed}
    seen = {".".join(module.dotted): set(_seen(module, names)) for module in parsed}
    try:
        TopologicalSorter(seen).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _seen(module: Module, names: set[str]) -> list[str]:
    """The modules that a module imports; a name in one counts as that module."""
    own = ".".join(module.dotted)
    lines = {line for block in _of_types(module) for line in block}
    targets = (found.target for found in imports(module) if found.line not in lines)
    known = (each if each in names else each.rpartition(".")[0] for each in targets)
    return [each for each in known if each in names and each != own]


def _of_types(module: Module) -> list[range]:
    """The lines of blocks that only checkers of types read."""
    return [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]


def test_no_modules_import_each_other() -> None:
    # The package itself imports what it offers at its first use.
    assert circle([each for each in modules("graveler") if len(each.dotted) > 1]) == []


def test_a_circle_is_found_though_one_of_its_imports_is_late() -> None:
    first = parse("graveler/cli/one.py", "from graveler.cli import two\n")
    second = parse("graveler/cli/two.py", "def f():\n    from graveler.cli.one import g\n")
    assert set(circle([first, second])) == {"graveler.cli.one", "graveler.cli.two"}
    assert circle([first, parse("graveler/cli/two.py", "import os\n")]) == []
