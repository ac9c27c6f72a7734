"""The rules hold for the product, and each rule notices when it is broken."""

import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from tests.architecture import budgets
from tests.architecture.canaries import CANARIES, CLEAN, RULES
from tests.architecture.imports import OWNERS
from tests.architecture.source import ROOT, Rule, Violation, modules, parse

# One process parses the tree for all tests of the group.
pytestmark = pytest.mark.xdist_group("syntax trees")

PRODUCT_FOLDERS = ("graveler", "functions")
OTHER_FOLDERS = ("tests", "benchmarks", "simulator")
OTHER_RULES = (budgets.conftest_lines, budgets.module_docstring)
EXCEPTIONS = ROOT / "tests" / "architecture" / "exceptions.txt"


def exceptions() -> dict[tuple[str, str], int]:
    """(rule, path or path:name) → the value that is allowed for now."""
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    assert all(len(entry) == 3 for entry in entries), "each line is `rule path[:name] value`"
    return {(rule, subject): int(value) for rule, subject, value in entries}


@cache
def violations(rule: Rule) -> list[Violation]:
    found = [each for module in modules(*PRODUCT_FOLDERS) for each in rule(module)]
    if rule in OTHER_RULES:
        found += [each for module in modules(*OTHER_FOLDERS) for each in rule(module)]
    return found


def names(rules: tuple[Rule, ...]) -> list[str]:
    return [rule.__name__ for rule in rules]


@pytest.mark.parametrize("rule", RULES, ids=names(RULES))
def test_the_product_keeps_the_rule(rule: Rule) -> None:
    allowed = exceptions()
    found = [
        each for each in violations(rule) if allowed.get((each.rule, each.subject), 0) < each.value
    ]
    assert not found, "\n".join(["", *map(str, found)])


def test_every_exception_is_still_needed_at_its_value() -> None:
    worst: dict[tuple[str, str], int] = {}
    for each in (each for rule in RULES for each in violations(rule)):
        key = (each.rule, each.subject)
        worst[key] = max(worst.get(key, 0), each.value)
    stale = [
        f"{EXCEPTIONS.name}: {rule} {subject} {value}: "
        + (f"lower it to {worst[rule, subject]}" if (rule, subject) in worst else "delete it")
        for (rule, subject), value in exceptions().items()
        if worst.get((rule, subject), 0) < value
    ]
    assert not stale, "\n".join(["", *stale])


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
