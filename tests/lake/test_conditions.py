"""Conditions of writes, and lost answers."""

from dataclasses import replace

import pytest

import graveler
from graveler import Branch, Lake
from graveler.core.errors import OutcomeUnknown, PreconditionFailed
from graveler.lake.job import Import
from tests.client.scripted import Said, scripted
from tests.support.clockwork import TickingClock


def test_a_branch_is_moved_only_from_the_head_that_is_expected(main: Branch) -> None:
    first = main.pin()
    landed = []
    for name in ("a", "b"):
        main.write_text(name, "content")
        landed.append(main.commit(name))
    with pytest.raises(PreconditionFailed):
        main.reset(to=first, expected=landed[0].id)
    assert main.head == landed[1].id
    for _ in range(2):  # the second one finds the result of the first
        main.reset(to=first, expected=landed[1].id)
        assert main.head == first.id


@pytest.mark.parametrize("status", [0, 401, 403, 404])
def test_a_commit_that_was_begun_has_an_unknown_outcome(status: int) -> None:
    """No later request for its result gets an answer, or the caller may not send it."""
    with scripted([Said(202, b'{"id": "7f3c9a"}'), *[Said(status)] * 100]) as server:
        with pytest.raises(OutcomeUnknown, match="task=7f3c9a was begun: "):
            lake_at(server.url).repository("lake").branch("main").commit("m")
        assert {asked.method for asked in server.asked[1:]} == {"GET"}


def test_what_waits_survives_an_outage_of_the_server() -> None:
    """The answers to some looks are lost; the next one is there."""
    lost, runs = Said(0), Said(200, b'{"completed": false, "id": "1", "done": false}')
    done = b'{"completed": true, "result": {"id": "c0", "parents": [], "message": "m"}}'
    with scripted([Said(202, b'{"id": "1"}'), *[lost] * 9, runs, *[lost] * 9, Said(200, done)]) as (
        server
    ):
        commit = lake_at(server.url).repository("lake").branch("main").commit("m")
    assert commit.id == "c0"
    imported = Said(200, b'{"completed": true, "commit": {"id": "c1"}}')
    with scripted([lost, runs, Said(503), *[lost] * 9, imported]) as server:
        main = lake_at(server.url).repository("lake").branch("main")
        assert Import(main, "1").wait().name == "c1"
    with scripted([runs, *[lost] * 100]) as server:
        main = lake_at(server.url).repository("lake").branch("main")
        with pytest.raises(ConnectionError):
            Import(main, "1").wait()


def lake_at(url: str) -> Lake:
    """A lake whose pauses take no time."""
    session = graveler.connect(url, "KEY", "secret").session
    return Lake(replace(session, clock=TickingClock()))
