"""Branches from Python, through a served store."""

import pytest

from graveler.client import Session, refs
from graveler.client.commits import Message, commit
from graveler.client.objects import upload
from graveler.errors import PreconditionFailed


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
