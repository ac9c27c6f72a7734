"""Commits from Python, when answers are lost."""

import pytest

from graveler.client.commits import Message, commit
from graveler.client.session import connect
from graveler.errors import OutcomeUnknown
from tests.client.scripted import Said, scripted


def test_a_commit_that_was_begun_has_an_unknown_outcome() -> None:
    """No later request for its result gets an answer."""
    with scripted([Said(202, b'{"id": "7f3c9a"}'), *[Said(0)] * 5]) as server:
        session = connect(server.url, "KEY", "secret")
        with pytest.raises(OutcomeUnknown, match="task=7f3c9a was begun: "):
            commit(session, "lake", "main", Message("m"))
        assert {asked.method for asked in server.asked[1:]} == {"GET"}
