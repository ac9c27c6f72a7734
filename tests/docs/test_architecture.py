"""The ways in docs/explanation/architecture.md follow the imports of the code."""

import ast
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
WAYS = ("commit", "read", "import", "collection")
ROOMS = (
    "The whole",
    "api",
    "jobs",
    "engine",
    "refs",
    "committed",
    "block",
    "kv",
    "spark",
    "gateway",
    "auth",
    "cli",
)


class Line(NamedTuple):
    """One line of a way, continuations joined: modules and the arrows between them."""

    way: str
    modules: list[str]
    arrows: list[str]


def lines_of(room: str) -> list[Line]:
    section = TEXT.split(f"\n### {room}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    block = next(block for block in section.split("```")[1::2] if block.startswith("\ncommit "))
    joined = re.sub(r"\n\s+([→⇢])", r" \1", block)
    lines: list[Line] = []
    for text in joined.strip("\n").splitlines():
        label, chain = text[:12].strip(), text[12:]
        way = label or lines[-1].way
        lines.append(Line(way, re.split(r" [→⇢] ", chain.strip()), re.findall("[→⇢]", chain)))
    return lines


def source(module: str) -> Path:
    return ROOT / "graveler" / f"{module}.py"


def imported(module: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("graveler.").replace(".", "/") for name in found}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_four_ways_with_one_step_back_each(room: str) -> None:
    lines = lines_of(room)
    assert tuple(dict.fromkeys(line.way for line in lines)) == WAYS
    for way in WAYS:
        first, *back = [line for line in lines if line.way == way]
        assert len(back) <= 1
        if back:
            assert back[0].modules[0] in first.modules
    if room != "The whole":
        assert any(module.startswith(f"{room}/") for line in lines for module in line.modules)


@pytest.mark.parametrize("room", ROOMS)
def test_every_arrow_is_an_import(room: str) -> None:
    for line in lines_of(room):
        assert all(source(module).exists() for module in line.modules), line
        for (caller, called), arrow in zip(pairwise(line.modules), line.arrows, strict=True):
            assert (called in imported(caller)) == (arrow == "→"), f"{caller} {arrow} {called}"
