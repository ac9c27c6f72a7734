"""The rule of retention and collections of garbage, through the API."""

from typing import Any

import lakefs_sdk
import pytest
from lakefs_sdk import GarbageCollectionRule, GarbageCollectionRules
from lakefs_sdk.exceptions import NotFoundException

from graveler.block import address
from tests.api.serving import Client, Served, ended


def test_the_rule_of_retention_is_set_shown_and_ended(sdk: lakefs_sdk.ApiClient, repo: str) -> None:
    api = lakefs_sdk.RepositoriesApi(sdk)
    with pytest.raises(NotFoundException):
        api.get_gc_rules(repo)
    branches = [GarbageCollectionRule(branch_id="main", retention_days=30)]
    rules = GarbageCollectionRules(default_retention_days=7, branches=branches)
    api.set_gc_rules(repo, rules)
    assert api.get_gc_rules(repo) == rules
    api.delete_gc_rules(repo)
    api.delete_gc_rules(repo)
    with pytest.raises(NotFoundException):
        api.get_gc_rules(repo)


@pytest.mark.parametrize(
    "said",
    [
        {"branches": []},
        {"default_retention_days": -1, "branches": []},
        {"default_retention_days": 1, "branches": [{"branch_id": "a b", "retention_days": 1}]},
        {"default_retention_days": 1, "branches": [{"branch_id": "main", "retention_days": 1}] * 2},
        {"default_retention_days": 1, "branches": [{"branch_id": "main"}]},
    ],
)
def test_rules_that_cannot_be_are_refused(client: Client, repo: str, said: Any) -> None:
    where = f"/repositories/{repo}/settings/gc_rules"
    refused = client.send("PUT", where, body=said)
    assert refused.status == 400, refused.message
    assert client.send("GET", where).status == 404


@pytest.mark.parametrize("said", [None, {}, {"dry_run": True}, {"dry_run": False}])
def test_a_collection_is_ordered_and_told(client: Client, repo: str, said: Any) -> None:
    assert client.upload(repo, "a", b"a").status == 201
    where = f"/repositories/{repo}/gc/runs"
    ordered = client.send("POST", where, body=said)
    assert ordered.status == 202, ordered.body
    found = ended(client, f"{where}/{ordered.json['id']}")
    dry_run = said != {"dry_run": False}
    assert found["id"] == ordered.json["id"] and found["dry_run"] is dry_run
    assert "error" not in found and found["update_time"].endswith("Z")
    nothing = {"count": 0, "size_bytes": 0}  # what is younger than a day is not looked at
    assert found["condemned"] == found["deleted"] == nothing
    assert (found["run"], found["commits"], found["commits_kept"]) == ("", 1, 1)
    folder = f"local://{repo}/x/_graveler/gc/dry-"
    assert found["candidates"].startswith(folder) if dry_run else not found["candidates"]


def test_a_collection_that_fails_says_why(live: Served, client: Client, repo: str) -> None:
    live.embedded.ports.blocks.delete(address.marker(f"local://{repo}/x"))
    where = f"/repositories/{repo}/gc/runs"
    ordered = client.send("POST", where, body={}).json["id"]
    assert "namespace is not its own" in ended(client, f"{where}/{ordered}")["error"]["message"]


def test_unknown_collections_and_wrong_orders(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/gc/runs"
    assert client.send("GET", f"{where}/none").status == 404
    assert client.send("POST", where, body={"dry_run": "no"}).status == 400
    assert client.send("POST", "/repositories/nowhere/gc/runs", body={}).status == 404
    assert client.send("POST", where, headers={"Authorization": ""}).status == 401
    commits = f"/repositories/{repo}/branches/main/commits/async"
    task = client.send("POST", commits, body={"message": "m"}).json["id"]
    assert client.send("GET", f"{where}/{task}").status == 404


def test_a_cluster_condemns_and_sweeps(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/gc/runs"
    turns = f"/repositories/{repo}/gc/turns"
    body = {"metaranges": ["0" * 64], "files": 3, "size_bytes": 5, "turn": "T"}
    begun = client.send("POST", turns, body={"id": "T"})
    assert begun.status == 201 and begun.json["until_time"].endswith("Z"), begun.body
    assert client.send("PUT", f"{turns}/T").json["id"] == "T"
    for run in ("01A", "01B"):
        found = client.send("POST", f"{where}/{run}/condemned", body=body)
        told = {"metaranges": [], "undone": 0, "following": ""}
        assert (found.status, found.json) == (200, told)
    assert client.send("DELETE", f"{where}/01A").status == 204
    assert client.send("POST", f"{where}/01A/condemned", body=body).status == 409
    for run in ("01A", "01B"):
        assert (
            client.send("PUT", f"{where}/{run}/sweeping", body={"undone": 0, "turn": "T"}).status
            == 409
        )
    assert client.send("POST", f"{where}/01C/condemned", body=body).json["undone"] == 1
    for _ in range(2):
        assert (
            client.send("PUT", f"{where}/01C/sweeping", body={"undone": 1, "turn": "T"}).status
            == 204
        )
    assert client.send("DELETE", f"{where}/01C").status == 409


def test_a_cluster_condemns_all_that_retention_lets_go_page_by_page(
    client: Client, repo: str
) -> None:
    where, body = f"/repositories/{repo}/gc/runs/01A/condemned", {"turn": "T"}
    assert client.send("POST", where, body={}).status == 409
    client.send("POST", f"/repositories/{repo}/gc/turns", body={"id": "T"})
    found = client.send("POST", where, body={**body, "files": 3, "amount": 1})
    told = {"metaranges": [], "undone": 0, "following": ""}
    assert (found.status, found.json) == (200, told)
    gone = client.send("POST", where, body={**body, "after": "0" * 64 + "-1-2"})
    assert gone.status == 410 and "begin again" in gone.message


def test_wrong_words_of_a_cluster(client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/gc/runs"
    for path, wrong in (
        ("01A/condemned", {"metaranges": ["x"]}),
        ("01A/condemned", {"metaranges": [], "after": "0" * 64 + "-1-2"}),
        ("01A/condemned", {"after": "x"}),
        ("01A/condemned", {"amount": 4_001}),
        ("0-A/condemned", {}),
        ("01A/condemned", {"metaranges": ["0" * 64] * 1_001}),
        ("01A/condemned", {"metaranges": [], "files": -1}),
        ("0-A/condemned", {"metaranges": []}),
    ):
        assert client.send("POST", f"{where}/{path}", body=wrong).status == 400
    assert client.send("PUT", f"{where}/01A/sweeping", body={}).status == 400
    assert client.send("PUT", f"{where}/01A/sweeping", body={"undone": 0}).status == 409
    turns = f"/repositories/{repo}/gc/turns"
    assert client.send("POST", turns, body={"id": "T"}).status == 201
    body = {"undone": 0, "turn": "T"}
    assert client.send("PUT", f"{where}/01A/sweeping", body=body).status == 404
    for verb, path in (("POST", "condemned"), ("PUT", "sweeping")):
        said = client.send(verb, f"{where}/01A/{path}", headers={"Authorization": ""})
        assert said.status == 401


def test_a_cluster_without_its_turn_is_refused(client: Client, repo: str) -> None:
    where, turns = f"/repositories/{repo}/gc/runs", f"/repositories/{repo}/gc/turns"
    body = {"metaranges": [], "undone": 0}
    for verb, path in (("POST", "01A/condemned"), ("PUT", "01A/sweeping")):
        refused = client.send(verb, f"{where}/{path}", body=body)
        assert refused.status == 409 and "begin one with POST gc/turns" in refused.message
        refused = client.send(verb, f"{where}/{path}", body={**body, "turn": "T"})
        assert refused.status == 409 and "turn=T" in refused.message
    assert client.send("PUT", f"{turns}/T").status == 409
    assert client.send("DELETE", f"{turns}/T").status == 204
    for wrong in ({}, {"id": ""}, {"id": "a-b"}, {"id": 1}, {"id": "x" * 65}):
        assert client.send("POST", turns, body=wrong).status == 400
    assert client.send("POST", turns, body={"id": "T"}).status == 201
    assert client.send("POST", turns, body={"id": "U"}).status == 409
    assert client.send("POST", where, body={"dry_run": False}).status == 409
    assert client.send("POST", where, body={"dry_run": True}).status == 202
    assert client.send("DELETE", f"{turns}/T").status == 204
    assert client.send("POST", turns, body={"id": "T"}).status == 409
    assert client.send("POST", turns, body={"id": "U"}).status == 201
    for verb, path in (("POST", turns), ("PUT", f"{turns}/U"), ("DELETE", f"{turns}/U")):
        assert client.send(verb, path, headers={"Authorization": ""}).status == 401
