"""Collections of garbage from Python, through a served store."""

import time

import pytest

from graveler.client import Session, collecting, connect
from graveler.client.collecting import Collection, Files
from graveler.errors import Internal, NotFound
from tests.api.serving import ADMINISTRATOR, Served
from tests.client.scripted import Said, scripted

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def ended(session: Session, repo: str, id: str) -> Collection:
    for _ in range(500):
        found = collecting.get(session, repo, id)
        if found.done:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not end")


def test_a_collection_is_ordered_and_told(session: Session, repo: str) -> None:
    found = ended(session, repo, collecting.order(session, repo))
    assert found.dry_run and not found.error and (found.commits, found.commits_kept) == (1, 1)
    assert found.candidates.startswith(f"local://{repo}/x/_graveler/gc/dry-")
    found = ended(session, repo, collecting.order(session, repo, dry_run=False))
    assert not found.dry_run and found.condemned == found.deleted == Files()
    for call in (collecting.get, collecting.undo):
        with pytest.raises(NotFound):
            call(session, repo, "none")


def test_one_that_fails_says_why(live: Served, session: Session, repo: str) -> None:
    body = {"name": "guest", "storage_namespace": f"local://{repo}/x", "read_only": True}
    assert live.client.send("POST", "/repositories", body=body).status == 201
    found = ended(session, "guest", collecting.order(session, "guest"))
    assert "namespace is not its own" in found.error


@pytest.mark.parametrize("body", [b"[]", b'{"id": "x"}', b'{"id":"x","done":true,"dry_run":true}'])
def test_answers_of_another_service_are_noticed(body: bytes) -> None:
    with scripted([Said(200, body)]) as server, pytest.raises(Internal, match="no Graveler"):
        collecting.get(connect(server.url, KEY, SECRET), "lake", "x")
