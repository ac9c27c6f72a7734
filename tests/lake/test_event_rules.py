"""Event rules, through a served store."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest

import graveler
from graveler.core.errors import Conflict, Internal, Invalid, NotFound, Unauthenticated
from graveler.lake.event_rules import EventRules
from tests.api.serving import ADMINISTRATOR, Served, served
from tests.client.scripted import Said, scripted

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def rules_of(url: str, repository: str, secret: str = SECRET) -> EventRules:
    return graveler.connect(url, KEY, secret).repository(repository).events


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


@pytest.fixture
def rules(live: Served) -> EventRules:
    return rules_of(live.client.url, live.fresh_repository())


def test_a_rule_is_made_shown_and_ended(rules: EventRules) -> None:
    assert rules.list() == ()
    new = {
        "prefix": "in/",
        "suffix": ".csv",
        "path": "raw/{rest}",
        "objects": 100,
        "seconds": 60,
        "marker": "_SUCCESS",
    }
    made = rules.create("main", "landing", **new)
    assert new.items() <= asdict(made).items() and made.created is not None
    assert made.answer["creation_date"] == made.created.timestamp()
    assert rules.get(made.id) == made
    assert rules.list() == (made,)
    with pytest.raises(Conflict, match=made.id):
        rules.create("main", "landing", **new)
    rules.delete(made)
    for call in (rules.get, rules.delete):
        with pytest.raises(NotFound):
            call(made.id)
    assert rules.list() == ()


def test_what_is_not_said_is_what_the_server_takes_for_it(live: Served) -> None:
    repository = live.fresh_repository()
    rules = rules_of(live.client.url, repository)
    made = rules.create("main", "landing")
    rules.delete(made)
    body = {"branch": "main", "bucket": "landing"}
    by_server = live.client.send("POST", f"/repositories/{repository}/events/rules", body=body)
    taken = rules.get(by_server.json["id"])
    own = {"id", "created"}
    assert {name: each for name, each in asdict(taken).items() if name not in own} == {
        name: each for name, each in asdict(made).items() if name not in own
    }


def test_what_cannot_be_done_is_refused_with_its_reason(live: Served, rules: EventRules) -> None:
    with pytest.raises(NotFound, match="repository not found"):
        rules_of(live.client.url, "no-such-lake").list()
    with pytest.raises(NotFound):
        rules.create("nowhere", "landing")
    with pytest.raises(Invalid, match="bucket must have"):
        rules.create("main", "No Bucket")
    with pytest.raises(Invalid, match="name invalid"):
        rules.delete("")


def test_another_secret_is_refused(live: Served) -> None:
    with pytest.raises(Unauthenticated) as caught:
        rules_of(live.client.url, live.fresh_repository(), "wrong").list()
    assert caught.value.fields["status"] == "401"


@pytest.mark.parametrize("body", [b"[]", b'{"results": 1}', b'{"results": [{"id": "x"}]}'])
def test_answers_of_another_service_are_noticed(body: bytes) -> None:
    with scripted([Said(200, body)]) as server, pytest.raises(Internal, match="not Graveler"):
        rules_of(server.url, "lake").list()
