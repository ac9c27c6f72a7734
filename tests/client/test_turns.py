"""Collections of garbage from Python, through a served store."""

import json

import pytest

from graveler.block import address
from graveler.core.errors import Conflict, Internal, NotFound
from graveler.lake import turns
from graveler.lake.job import Collection
from graveler.lake.lake import Lake
from graveler.lake.repository import Repository
from graveler.lake.session import Session, connect
from graveler.lake.turns import Files
from tests.api.serving import ADMINISTRATOR, Served
from tests.client.scripted import Said, scripted

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


@pytest.fixture
def known(session: Session, repo: str) -> Repository:
    return Lake(session).repository(repo)


def test_a_collection_is_ordered_and_told(known: Repository) -> None:
    found = known.collect().wait()
    assert found.dry_run and not found.error and (found.commits, found.commits_kept) == (1, 1)
    assert found.candidates.startswith(f"local://{known}/x/_graveler/gc/dry-")
    found = known.collect(dry_run=False).wait()
    assert not found.dry_run and found.condemned == found.deleted == Files()
    for call in (Collection(known, "none").progress, lambda: known.undo_collection("none")):
        with pytest.raises(NotFound):
            call()


def test_one_that_fails_says_why(live: Served, known: Repository) -> None:
    live.embedded.ports.blocks.delete(address.marker(f"local://{known}/x"))
    found = known.collect().wait()
    assert "namespace is not its own" in found.error


@pytest.mark.parametrize("body", [b"[]", b'{"id": "x"}', b'{"id":"x","done":true,"dry_run":true}'])
def test_answers_of_another_service_are_noticed(body: bytes) -> None:
    with scripted([Said(200, body)]) as server, pytest.raises(Internal, match="not Graveler"):
        Collection(Lake(connect(server.url, KEY, SECRET)).repository("lake"), "x").progress()


def test_a_cluster_condemns_page_by_page() -> None:
    said = [
        Said(200, json.dumps({"metaranges": [], "undone": undone, "following": following}).encode())
        for undone, following in ((2, "x-1"), (3, "x-2"), (3, ""))
    ]
    with scripted(said) as server:
        session = connect(server.url, KEY, SECRET)
        assert turns.condemn(session, "lake", "R", Files(7, 9), turn="T") == 2
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
        assert turns.condemn(away, "lake", "R", Files(7, 9), listed, turn="T") == 0
        bodies = [json.loads(each.body) for each in server.asked]
    assert [each.get("metaranges") for each in bodies] == [
        None,
        listed[:1_000],
        listed[1_000:2_000],
        listed[2_000:],
    ]
    assert {each["turn"] for each in bodies} == {"T"}
    turns.begin(session, repo, "T")
    assert turns.condemn(session, repo, "R1", Files(), listed, turn="T") == 0


def test_a_cluster_says_that_it_sweeps(session: Session, repo: str, known: Repository) -> None:
    turns.begin(session, repo, "T")
    assert turns.condemn(session, repo, "R1", Files(), turn="T") == 0
    known.undo_collection("R1")
    with pytest.raises(Conflict, match="undone"):
        turns.sweep(session, repo, "R1", 0, turn="T")
    assert turns.condemn(session, repo, "R2", Files(), turn="T") == 1
    turns.beat(session, repo, "T")
    turns.sweep(session, repo, "R2", 1, turn="T")
    with pytest.raises(Conflict):
        known.undo_collection("R2")


def test_a_cluster_has_its_turn_and_nobody_else(
    session: Session, repo: str, known: Repository
) -> None:
    turns.begin(session, repo, "T1")
    for refused in (
        lambda: turns.begin(session, repo, "T2"),
        lambda: turns.beat(session, repo, "T2"),
        lambda: turns.condemn(session, repo, "R", Files(), turn="T2"),
        lambda: known.collect(dry_run=False),
    ):
        with pytest.raises(Conflict, match="turn="):
            refused()
    turns.end(session, repo, "T2")
    assert known.collect().wait().dry_run
    turns.end(session, repo, "T1")
    turns.end(session, repo, "T1")
    assert not known.collect(dry_run=False).wait().error
    turns.begin(session, repo, "T2")


def test_rules_are_replaced_and_read(session: Session, known: Repository) -> None:
    nothing = {"branches": [], "default_retention_days": 0}
    assert known.retention() == nothing
    rules = {
        "branches": [{"branch_id": "main", "retention_days": 90}],
        "default_retention_days": 30,
    }
    known.set_retention(30, {"main": 90})
    assert known.retention() == rules
    known.delete_retention()
    assert known.retention() == nothing
    nowhere = Lake(session).repository("nowhere")
    with pytest.raises(NotFound):
        nowhere.retention()
    with pytest.raises(NotFound):
        nowhere.set_retention(30)


def test_another_answer_is_no_rule() -> None:
    with scripted([Said(200, b"[]")]) as script, pytest.raises(Internal):
        Lake(connect(script.url, "key", "secret")).repository("lake").retention()
