"""The rules hold for the product, and each rule notices when it is broken."""

import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from tests.architecture.canaries import CANARIES, CLEAN, RULES
from tests.architecture.imports import OWNERS
from tests.architecture.source import ROOT, Rule, Violation, modules, parse

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

PRODUCT_FOLDERS = ("graveler", "functions")


@cache
def violations(rule: Rule) -> list[Violation]:
    return [each for module in modules(*PRODUCT_FOLDERS) for each in rule(module)]


def names(rules: tuple[Rule, ...]) -> list[str]:
    return [rule.__name__ for rule in rules]


@pytest.mark.parametrize("rule", RULES, ids=names(RULES))
def test_the_product_keeps_the_rule(rule: Rule) -> None:
    found = violations(rule)
    assert not found, "\n".join(["", *map(str, found)])


@pytest.mark.parametrize(
    ("rule", "path", "source"), CANARIES, ids=[f"{c[0].__name__}-{c[1]}" for c in CANARIES]
)
def test_the_rule_notices_its_canary(rule: Rule, path: str, source: str) -> None:
    found = list(rule(parse(path, source)))
    assert found, f"{rule.__name__} lets this pass:\n{source}"
    assert all(each.path == path and each.line >= 1 and each.remedy for each in found)


def test_every_rule_has_a_canary() -> None:
    seen = Counter(rule.__name__ for rule, _, _ in CANARIES)
    assert set(names(RULES)) == set(seen)


@pytest.mark.parametrize(("path", "source"), CLEAN, ids=[path for path, _ in CLEAN])
def test_clean_sources_break_no_rule(path: str, source: str) -> None:
    module = parse(path, '"""Said."""\n' + source)
    assert [str(each) for rule in RULES for each in rule(module)] == []


def test_importing_the_package_loads_no_dependency() -> None:
    script = "import sys, graveler; print(chr(10).join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert "graveler" in loaded
    inner = {name for name in loaded if name.startswith("graveler.")}
    assert inner | (loaded & set(OWNERS)) == set()
