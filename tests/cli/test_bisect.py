"""`bisect`: it finds the first bad commit of any history, and says what it cannot know."""

import json
import random
import sys
from typing import Any

import pytest

from graveler.cli.commands.bisect import Search, answer, proposal
from graveler.core.errors import Invalid
from tests.cli.conftest import Lake


def history(lake: Lake, number: int, first_bad: int) -> list[str]:
    """Commits of which those from a number on have the object `fault`."""
    ids = []
    for each in range(number):
        lake.put(f"{each}", b"")
        if each == first_bad:
            lake.put("fault", b"")
        ids.append(lake.commit(f"commit {each}"))
    return ids


def said(lake: Lake, *words: str) -> Any:
    result = lake.user.run("--json", "bisect", *words)
    assert (result.code, result.err) == (0, ""), result
    return json.loads(result.out)["graveler"]


@pytest.mark.parametrize("first_bad", [1, 4, 7])
def test_answers_lead_to_the_first_bad_commit(lake: Lake, first_bad: int) -> None:
    ids = history(lake, 8, first_bad)
    state = said(lake, "start", f"{lake.name}/main", ids[0])
    assert state["candidates"] == 7  # the good commit is none of them
    tests = 0
    while state["next"]:
        state = said(lake, "good" if ids.index(state["next"]) < first_bad else "bad")
        tests += 1
    assert state["first_bad"] == ids[first_bad] and tests <= 3


def test_a_command_answers(lake: Lake) -> None:
    ids = history(lake, 6, 3)
    lake.user.run("bisect", "start", f"{lake.name}/main", ids[0])
    log = lake.user.home / "tested"
    check = (
        "import os, sys; open(sys.argv[2], 'a').write(sys.argv[1] + '\\n');"
        "assert sys.argv[1] == os.environ['GRAVELER_BISECT_ADDRESS'];"
        f"sys.exit(sys.argv[1].rpartition('/')[2] in {ids[3:]!r})"
    )
    result = lake.user.run("bisect", "run", sys.executable, "-c", check, "{}", str(log))
    assert result.code == 0, result
    expected = f"the first bad commit is {lake.name}/{ids[3]} commit 3\n"
    assert result.out == expected
    assert "bad: " in result.err and "good: " in result.err
    tested = log.read_text().splitlines()
    assert all(line.startswith(f"lakefs://{lake.name}/") for line in tested) and len(tested) <= 3
    rows = json.loads(lake.user.run("bisect", "log", "--json").out)
    assert [row["verdict"] for row in rows[:2]] == ["bad", "good"] and rows[0]["id"] == ids[5]
    assert lake.user.run("bisect", "view").out.startswith(ids[3])


def test_skips_and_codes_that_stop(lake: Lake) -> None:
    ids = history(lake, 4, 3)
    lake.user.run("bisect", "start", f"{lake.name}/main", ids[0])
    for code in (126, 127, 128, 255):
        result = lake.user.run("bisect", "run", "sh", "-c", f"exit {code}")
        assert result.code == 1 and f"ended with {code}" in result.err
    result = lake.user.run("bisect", "run", "sh", "-c", "kill -9 $$")
    assert result.code == 1 and "ended with -9" in result.err
    result = lake.user.run("bisect", "run", str(lake.user.home / "nothing"))
    assert result.code == 1 and "cannot start" in result.err
    assert lake.user.run("bisect", "view").out.count("\n") == 3  # nothing was decided
    result = lake.user.run("bisect", "run", "sh", "-c", "exit 125")
    assert result.code == 0 and "only skipped commits are left" in result.out
    assert all(id in result.out for id in ids[1:])


def test_mistakes_are_named(lake: Lake) -> None:
    user, name = lake.user, lake.name
    ids = history(lake, 3, 2)
    assert user.run("bisect", "good").code == 3
    assert user.run("bisect", "start", f"{name}/main~1", "main").code == 1
    other = lake.live.fresh_repository()
    assert user.run("bisect", "start", f"{name}/main", f"{other}/main").code == 2
    assert user.run("bisect", "start", f"{name}/main", ids[0]).code == 0
    result = user.run("bisect", "good", "main")
    assert result.code == 1 and "is bad already" in result.err
    result = user.run("bisect", "bad", ids[0])
    assert result.code == 1 and "is no candidate" in result.err
    assert user.run("bisect", "skip", "main~1").code == 0
    assert user.run("bisect", "bad").code == 0  # nothing is proposed: it says what is known
    assert user.run("bisect", "view", "--json").out.count('"id"') == 2
    assert user.run("bisect", "reset").code == 0 and user.run("bisect", "log").code == 3


def test_merges_are_searched_through_both_parents(lake: Lake) -> None:
    user, name = lake.user, lake.name
    good = history(lake, 1, 9)[0]
    user.run("branch", "create", f"{name}/dev")
    lake.put("x", b"", "dev")
    bad = lake.commit("x", "dev")
    for number in range(3):
        lake.put(f"more-{number}")
        lake.commit("more")
    user.run("merge", f"{name}/dev", "main")
    state = said(lake, "start", f"{name}/main", good)
    assert state["candidates"] == 5
    while state["next"]:
        has = user.run("stat", f"{name}/{state['next']}/x").code == 0
        state = said(lake, "bad" if has else "good")
    assert state["first_bad"] == bad


# ---- the search itself ---------------------------------------------------------------------------


def candidates(chance: random.Random, number: int) -> list[dict[str, Any]]:
    """A history that leads to its last commit, parents first."""
    rows = []
    for each in range(number):
        older = [f"c{place}" for place in range(max(0, each - 4), each)]
        parents = chance.sample(older, min(len(older), chance.choice((1, 1, 2))))
        rows.append({"id": f"c{each}", "parents": parents, "message": "", "date": 0})
    known, wanted_rows = {f"c{number - 1}"}, []
    for row in reversed(rows):
        if row["id"] in known:
            known.update(row["parents"])
            wanted_rows.append(row)
    return wanted_rows[::-1]


def descendants(rows: list[dict[str, Any]], id: str) -> set[str]:
    reached = {id}
    for row in rows:
        if reached & set(row["parents"]):
            reached.add(row["id"])
    return reached


@pytest.mark.parametrize("seed", range(20))
def test_every_search_ends_at_the_commit_that_brought_the_fault(seed: int) -> None:
    chance = random.Random(seed)
    rows = candidates(chance, 40)
    culprit = str(chance.choice(rows)["id"])
    bad = descendants(rows, culprit)
    search, tests = Search("server", "lake", rows), 0
    while id := proposal(search):
        answer(search, id, "bad" if id in bad else "good")
        tests += 1
    assert [row["id"] for row in search.candidates] == [culprit]
    assert tests <= 12


def test_a_line_is_halved() -> None:
    rows = [
        {"id": f"c{each}", "parents": [f"c{each - 1}"], "message": "", "date": 0}
        for each in range(64)
    ]
    for culprit in (0, 1, 31, 32, 62, 63):
        search, tests = Search("server", "lake", list(rows)), 0
        while id := proposal(search):
            answer(search, id, "bad" if int(id[1:]) >= culprit else "good")
            tests += 1
        assert search.candidates[0]["id"] == f"c{culprit}" and tests == 6


def test_skipped_commits_stay_suspects() -> None:
    rows = [
        {"id": f"c{each}", "parents": [f"c{each - 1}"], "message": "", "date": 0}
        for each in range(8)
    ]
    search = Search("server", "lake", rows)
    while id := proposal(search):
        number = int(id[1:])
        answer(search, id, "skip" if number in (3, 4) else "bad" if number > 4 else "good")
    assert [row["id"] for row in search.candidates] == ["c3", "c4", "c5"]
    with pytest.raises(Invalid):
        answer(search, "c5", "good")
