"""Conditions of writes, and lost answers."""

import pytest

import graveler
from graveler import Branch
from graveler.core.errors import OutcomeUnknown, PreconditionFailed
from tests.client.scripted import Said, scripted


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
    with scripted([Said(202, b'{"id": "7f3c9a"}'), *[Said(status)] * 5]) as server:
        lake = graveler.connect(server.url, "KEY", "secret")
        with pytest.raises(OutcomeUnknown, match="task=7f3c9a was begun: "):
            lake.repository("lake").branch("main").commit("m")
        assert {asked.method for asked in server.asked[1:]} == {"GET"}
