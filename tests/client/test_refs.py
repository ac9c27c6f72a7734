"""Branches and commits from Python: conditions, and lost answers."""

import pytest

from graveler.client import Session, connect, refs
from graveler.client.commits import Message, commit
from graveler.client.objects import upload
from graveler.core.errors import OutcomeUnknown, PreconditionFailed
from tests.client.scripted import Said, scripted


def test_a_branch_is_moved_only_from_the_head_that_is_expected(session: Session, repo: str) -> None:
    first = refs.get_branch(session, repo, "main")["commit_id"]
    ids = []
    for name in ("a", "b"):
        upload(session, repo, "main", name, [b"content"])
        ids.append(commit(session, repo, "main", Message(name))["id"])
    with pytest.raises(PreconditionFailed):
        refs.hard_reset_branch(session, repo, "main", first, expected=ids[0])
    assert refs.get_branch(session, repo, "main")["commit_id"] == ids[1]
    for _ in range(2):  # the second one finds the result of the first
        refs.hard_reset_branch(session, repo, "main", first, expected=ids[1])
        assert refs.get_branch(session, repo, "main")["commit_id"] == first


@pytest.mark.parametrize("status", [0, 401, 403, 404])
def test_a_commit_that_was_begun_has_an_unknown_outcome(status: int) -> None:
    """No later request for its result gets an answer, or the caller may not send it."""
    with scripted([Said(202, b'{"id": "7f3c9a"}'), *[Said(status)] * 5]) as server:
        session = connect(server.url, "KEY", "secret")
        with pytest.raises(OutcomeUnknown, match="task=7f3c9a was begun: "):
            commit(session, "lake", "main", Message("m"))
        assert {asked.method for asked in server.asked[1:]} == {"GET"}
