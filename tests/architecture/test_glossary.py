"""The glossary names modules and classes that exist, and no module or class bears a banned word."""

import ast
import re

from tests.architecture.source import ROOT, modules, parse

GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
PATH = re.compile(r"`((?:graveler|simulator|functions|tests)/[\w/.]+)`")
HOME = re.compile(r"`(\w+)` in `((?:graveler|simulator)/[\w/]+\.py)`")
# Words for which the field has another one: heartbeat, confirmed, reported, read, service.
BANNED = frozenset(("beaten", "beating", "courtesy", "look", "said", "teller", "told", "vouched"))


def rows() -> list[str]:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ")][1:]


def defined(path: str) -> set[str]:
    tree = parse(path, (ROOT / path).read_text(encoding="utf-8")).tree
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def listed() -> set[str]:
    """The words of the section on banned words."""
    section = GLOSSARY.read_text(encoding="utf-8").partition("\n## Banned words\n")[2]
    return set(re.findall(r"`([a-z]+)`", section))


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)]


def test_every_term_has_a_home_that_exists() -> None:
    homes = [(row, path) for row in rows() for path in PATH.findall(row)]
    assert len(homes) > 60
    assert [f"{path}: {row[:40]}" for row, path in homes if not (ROOT / path).exists()] == []


def test_every_name_beside_a_module_is_defined_there() -> None:
    named = [match for row in rows() for match in HOME.findall(row)]
    assert len(named) > 10
    assert [f"{path}: {name}" for name, path in named if name not in defined(path)] == []


def test_no_term_and_meaning_stand_twice() -> None:
    terms = [row.split("|")[1].strip() for row in rows()]
    assert sorted(terms) == sorted(set(terms))


def test_the_glossary_lists_the_banned_words() -> None:
    assert listed() == BANNED


def test_no_module_and_no_class_bears_a_banned_word() -> None:
    bad = []
    for module in modules("graveler", "functions"):
        classes = [each.name for each in ast.walk(module.tree) if isinstance(each, ast.ClassDef)]
        for name in (module.dotted[-1], *classes):
            bad += [f"{module.path}: {name}" for word in words(name) if word in BANNED]
    assert bad == []
