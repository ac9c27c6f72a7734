"""The list in docs/explanation/security.md names what Graveler does, and tests that exist."""

import re
from typing import NamedTuple

import pytest

from tests.docs.examples import ROOT

TEXT = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
STATES = {"open", "with the web page"}
ADVISORIES = (
    *("GHSA-m836-gxwq-j2pm", "GHSA-28q9-9c3g-v3f9", "GHSA-9phh-r37v-34wh", "GHSA-4rgc-5g6r-2rjf"),
    *("GHSA-26hr-q2wp-rvc5", "GHSA-fvv5-h29g-f6w5", "GHSA-hh33-46q4-hwm2", "GHSA-j7jw-28jm-whr6"),
    *("GHSA-h238-5mwf-8xw8", "GHSA-f2ph-gc9m-q55f", "GHSA-699m-4v95-rmpm", "2026-05", "#10465"),
    *("#1996", "names of resources"),
)
_NAMED = re.compile(r"`((?:tests|graveler)/[\w/]+\.py)::(test_\w+)`")


class Line(NamedTuple):
    """One line of a table of the list."""

    demand: str
    answer: str
    proof: str


def lines() -> list[Line]:
    rows = re.findall(r"^\| (.+) \|$", TEXT.partition("\n## The list\n")[2], re.MULTILINE)
    cells = [re.split(r" \| ", row) for row in rows]
    assert all(len(each) == 3 for each in cells)
    found = [Line(*each) for each in cells]
    return [line for line in found if line.answer != "what Graveler does"]


def test_each_advisory_has_a_line() -> None:
    firsts = [line.demand for line in lines()][: len(ADVISORIES)]
    for advisory, demand in zip(ADVISORIES, firsts, strict=True):
        assert demand.startswith(advisory)


@pytest.mark.parametrize("line", lines(), ids=lambda line: line.demand[:50])
def test_a_line_names_tests_that_exist_or_says_what_is_missing(line: Line) -> None:
    named = _NAMED.findall(line.proof)
    states = [word for word in re.split("; ", _NAMED.sub("", line.proof)) if word.strip(", ")]
    assert named or states
    assert set(states) <= STATES, states
    for file, test in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:    )?(?:async )?def {test}\(", source, re.M), f"{file}::{test}"
