"""No operation changes a branch that is closed, by a rule or because its repository is read-only.

The requests are those of fault_cases.py, which has one for every declared operation.  Each is sent
three times: to a world whose branches are open, to one where a rule protects all of them, and to
one whose repository is read-only.  So no operation that writes can be left out.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from graveler.core.ids import RepositoryId
from graveler.core.records import ABSENT
from graveler.refs import repositories
from tests.api.fault_cases import CASES, Case
from tests.api.fault_lake import LAKE
from tests.api.fault_picture import picture
from tests.api.fault_world import World, sound
from tests.asgi import Ask, Heard

# What changes a protected branch, as the page says; a new branch is none that was protected.
PASSES = {
    *("mergeIntoBranch", "mergeIntoBranchAsync", "mergePullRequest"),
    *("revertBranch", "cherryPick", "createBranch"),
}
# A repository is read-only from its creation, so a job in it was begun with `force`.
BEGUN_BY_FORCE = {"finishBulkJob"}


def _writing(world: World) -> list[Case]:
    """The cases of requests to the lake that are no reads."""
    asks = [(case, case.ask(world)) for case in CASES if not case.empty]
    return [
        case
        for case, ask in asks
        if ask.method not in ("GET", "HEAD") and ask.target.startswith(LAKE + "/")
    ]


def _leave_open(_world: World) -> None:
    pass


def _protect(world: World) -> None:
    rules = Ask.json("PUT", LAKE + "/settings/branch_protection", [{"pattern": "*"}])
    assert world.serve(sound()).door.send(rules).status == 204


def _make_read_only(world: World) -> None:
    """No request does it: a repository is read-only from its creation."""
    seen = repositories.find(world.kv, RepositoryId("lake"))
    assert seen is not ABSENT
    closed = replace(seen.repository, read_only=True)
    assert repositories.swap(world.kv, seen, closed, b"0123456789abcdef") is not ABSENT


class Sent(NamedTuple):
    """The answer to a request, and whether any branch of the lake is another one now."""

    heard: Heard
    changed: bool

    @property
    def statuses(self) -> set[int]:
        """Of each item of a batch, and else of the answer."""
        errors = self.heard.json.get("errors", []) if self.heard.body[:1] == b"{" else []
        return {error["status_code"] for error in errors} or {self.heard.status}


def _branches(shown: dict[str, Any]) -> Any:
    """What a picture shows of each branch."""
    return shown["lake"][2]["branches"]


def _sent(case: Case, closed: World, before: dict[str, Any]) -> Sent:
    world = closed.copy()
    begun = world.state
    heard = world.serve(sound()).send(case.ask(world))
    touched = world.touched(begun)
    shown = picture(world.serve(sound()).door, (), before, touched) if touched else before
    return Sent(heard, "lake" not in shown or _branches(shown) != _branches(before))


def _all_sent(template: World, close: Callable[[World], None]) -> dict[Case, Sent]:
    closed = template.copy()
    close(closed)
    before = picture(closed.serve(sound()).door)
    return {case: _sent(case, closed, before) for case in _writing(template)}


@pytest.fixture(scope="module")
def changing(template: World) -> set[Case]:
    """What changes a branch that is open."""
    return {case for case, sent in _all_sent(template, _leave_open).items() if sent.changed}


def test_the_requests_do_what_they_do_to_open_branches(changing: set[Case]) -> None:
    operations = {case.operation for case in changing}
    assert operations > PASSES | {"commit", "importStart", "deleteObjects", "finishBulkJob"}
    assert {"completePresignMultipartUpload", "hardResetBranch", "stageObject"} < operations


def test_a_rule_stops_whatever_it_does_not_let_pass(template: World, changing: set[Case]) -> None:
    answers = _all_sent(template, _protect)
    assert {case.operation for case, sent in answers.items() if sent.changed} == PASSES
    for case in changing:
        if case.operation not in PASSES:
            assert answers[case].statuses == {403}, case


def test_a_read_only_repository_stays_as_it_is(template: World, changing: set[Case]) -> None:
    answers = _all_sent(template, _make_read_only)
    assert {case.operation for case, sent in answers.items() if sent.changed} == BEGUN_BY_FORCE
    for case in changing:
        if case.operation not in BEGUN_BY_FORCE:
            assert answers[case].statuses == {403}, case
