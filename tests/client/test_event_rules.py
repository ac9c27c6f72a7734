"""Event rules from Python, through a served store."""

import pytest

from graveler.client import Session, connect, event_rules
from graveler.client.event_rules import NewRule
from graveler.core.errors import Conflict, Internal, Invalid, NotFound, Unauthenticated
from tests.api.serving import ADMINISTRATOR, Served
from tests.client.scripted import Said, scripted

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def test_a_rule_is_made_shown_and_ended(session: Session, repo: str) -> None:
    assert event_rules.list_all(session, repo) == ()
    new = NewRule("main", "landing", "in/", ".csv", "raw/{rest}", 100, 60, "_SUCCESS")
    made = event_rules.create(session, repo, new)
    assert {name: getattr(made, name) for name in new.__slots__} == {
        name: getattr(new, name) for name in new.__slots__
    }
    assert event_rules.get(session, repo, made.id) == made
    assert event_rules.list_all(session, repo) == (made,)
    with pytest.raises(Conflict, match=made.id):
        event_rules.create(session, repo, new)
    event_rules.delete(session, repo, made.id)
    for call in (event_rules.get, event_rules.delete):
        with pytest.raises(NotFound):
            call(session, repo, made.id)
    assert event_rules.list_all(session, repo) == ()


def test_what_is_not_said_is_what_the_server_takes_for_it(live: Served, repo: str) -> None:
    session = connect(live.client.url, KEY, SECRET)
    made = event_rules.create(session, repo, NewRule("main", "landing"))
    event_rules.delete(session, repo, made.id)
    body = {"branch": "main", "bucket": "landing"}
    by_server = live.client.send("POST", f"/repositories/{repo}/events/rules", body=body).json
    taken = event_rules.get(session, repo, by_server["id"])
    assert {name: getattr(taken, name) for name in NewRule.__slots__} == {
        name: getattr(made, name) for name in NewRule.__slots__
    }


def test_what_cannot_be_done_is_refused_with_its_reason(session: Session, repo: str) -> None:
    with pytest.raises(NotFound, match="repository not found"):
        event_rules.list_all(session, "no-such-lake")
    with pytest.raises(NotFound):
        event_rules.create(session, repo, NewRule("nowhere", "landing"))
    with pytest.raises(Invalid, match="bucket must have"):
        event_rules.create(session, repo, NewRule("main", "No Bucket"))
    with pytest.raises(Invalid, match="name invalid"):
        event_rules.delete(session, repo, "")


def test_another_secret_is_refused(live: Served, repo: str) -> None:
    with pytest.raises(Unauthenticated, match="status=401"):
        event_rules.list_all(connect(live.client.url, KEY, "wrong"), repo)


@pytest.mark.parametrize("body", [b"[]", b'{"results": 1}', b'{"results": [{"id": "x"}]}'])
def test_answers_of_another_service_are_noticed(body: bytes) -> None:
    with scripted([Said(200, body)]) as server, pytest.raises(Internal, match="not Graveler"):
        event_rules.list_all(connect(server.url, KEY, SECRET), "lake")
