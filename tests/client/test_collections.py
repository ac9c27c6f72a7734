"""Collections of garbage from Python, through a served store."""

import json

import pytest

from graveler.block import address
from graveler.client import Session, collections, connect
from graveler.client.collections import Collection, Files
from graveler.core.errors import Conflict, Internal, NotFound
from tests.api.serving import ADMINISTRATOR, Served
from tests.client.scripted import Said, scripted
from tests.waiting import until

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def ended(session: Session, repo: str, id: str) -> Collection:
    until(lambda: collections.get(session, repo, id).done, "the collection has ended")
    return collections.get(session, repo, id)


def test_a_collection_is_ordered_and_told(session: Session, repo: str) -> None:
    found = ended(session, repo, collections.order(session, repo))
    assert found.dry_run and not found.error and (found.commits, found.commits_kept) == (1, 1)
    assert found.candidates.startswith(f"local://{repo}/x/_graveler/gc/dry-")
    found = ended(session, repo, collections.order(session, repo, dry_run=False))
    assert not found.dry_run and found.condemned == found.deleted == Files()
    for call in (collections.get, collections.undo):
        with pytest.raises(NotFound):
            call(session, repo, "none")


def test_one_that_fails_says_why(live: Served, session: Session, repo: str) -> None:
    live.embedded.ports.blocks.delete(address.marker(f"local://{repo}/x"))
    found = ended(session, repo, collections.order(session, repo))
    assert "namespace is not its own" in found.error


@pytest.mark.parametrize("body", [b"[]", b'{"id": "x"}', b'{"id":"x","done":true,"dry_run":true}'])
def test_answers_of_another_service_are_noticed(body: bytes) -> None:
    with scripted([Said(200, body)]) as server, pytest.raises(Internal, match="not Graveler"):
        collections.get(connect(server.url, KEY, SECRET), "lake", "x")


def test_a_cluster_condemns_page_by_page() -> None:
    said = [
        Said(200, json.dumps({"metaranges": [], "undone": undone, "following": following}).encode())
        for undone, following in ((2, "x-1"), (3, "x-2"), (3, ""))
    ]
    with scripted(said) as server:
        session = connect(server.url, KEY, SECRET)
        assert collections.condemn(session, "lake", "R", Files(7, 9), turn="T") == 2
        bodies = [json.loads(each.body) for each in server.asked]
        paths = {each.path for each in server.asked}
    same = {"files": 7, "size_bytes": 9, "turn": "T"}
    assert bodies == [same, {**same, "after": "x-1"}, {**same, "after": "x-2"}]
    assert paths == {"/api/v1/repositories/lake/gc/runs/R/condemned"}


def test_a_cluster_names_the_metaranges_of_its_list(session: Session, repo: str) -> None:
    answer = json.dumps({"metaranges": [], "undone": 0, "following": ""}).encode()
    listed = [f"{number:064x}" for number in range(2_001)]
    with scripted([Said(200, answer)] * 4) as server:
        away = connect(server.url, KEY, SECRET)
        assert collections.condemn(away, "lake", "R", Files(7, 9), listed, turn="T") == 0
        bodies = [json.loads(each.body) for each in server.asked]
    assert [each.get("metaranges") for each in bodies] == [
        None,
        listed[:1_000],
        listed[1_000:2_000],
        listed[2_000:],
    ]
    assert {each["turn"] for each in bodies} == {"T"}
    collections.begin(session, repo, "T")
    assert collections.condemn(session, repo, "R1", Files(), listed, turn="T") == 0


def test_a_cluster_says_that_it_sweeps(session: Session, repo: str) -> None:
    collections.begin(session, repo, "T")
    assert collections.condemn(session, repo, "R1", Files(), turn="T") == 0
    collections.undo(session, repo, "R1")
    with pytest.raises(Conflict, match="undone"):
        collections.sweep(session, repo, "R1", 0, turn="T")
    assert collections.condemn(session, repo, "R2", Files(), turn="T") == 1
    collections.beat(session, repo, "T")
    collections.sweep(session, repo, "R2", 1, turn="T")
    with pytest.raises(Conflict):
        collections.undo(session, repo, "R2")


def test_a_cluster_has_its_turn_and_nobody_else(session: Session, repo: str) -> None:
    collections.begin(session, repo, "T1")
    for refused in (
        lambda: collections.begin(session, repo, "T2"),
        lambda: collections.beat(session, repo, "T2"),
        lambda: collections.condemn(session, repo, "R", Files(), turn="T2"),
        lambda: collections.order(session, repo, dry_run=False),
    ):
        with pytest.raises(Conflict, match="turn="):
            refused()
    collections.end(session, repo, "T2")
    assert ended(session, repo, collections.order(session, repo)).dry_run
    collections.end(session, repo, "T1")
    collections.end(session, repo, "T1")
    assert not ended(session, repo, collections.order(session, repo, dry_run=False)).error
    collections.begin(session, repo, "T2")


def test_rules_are_replaced_and_read(session: Session, repo: str) -> None:
    nothing: collections.RetentionRules = {"branches": [], "default_retention_days": 0}
    assert collections.get_rules(session, repo) == nothing
    rules: collections.RetentionRules = {
        "branches": [{"branch_id": "main", "retention_days": 90}],
        "default_retention_days": 30,
    }
    collections.replace_rules(session, repo, rules)
    assert collections.get_rules(session, repo) == rules
    with pytest.raises(NotFound):
        collections.get_rules(session, "nowhere")
    with pytest.raises(NotFound):
        collections.replace_rules(session, "nowhere", rules)


def test_another_answer_is_no_rule() -> None:
    with scripted([Said(200, b"[]")]) as script, pytest.raises(Internal):
        collections.get_rules(connect(script.url, "key", "secret"), "lake")
