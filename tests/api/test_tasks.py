"""Commits and merges whose caller does not wait."""

from typing import Any

import pytest

from tests.api.serving import Client, ended


def _commit(client: Client, repo: str, message: str, branch: str = "main") -> Any:
    where = f"/repositories/{repo}/branches/{branch}/commits/async"
    started = client.send("POST", where, body={"message": message, "metadata": {"k": "v"}})
    assert started.status == 202, started
    return ended(client, f"{where}/{started.json['id']}/status", "completed")


def _merge(client: Client, repo: str, source: str) -> Any:
    where = f"/repositories/{repo}/refs/{source}/merge/main/async"
    started = client.send("POST", where, body={})
    assert started.status == 202, started
    return ended(client, f"{where}/{started.json['id']}/status", "completed")


def _upload(client: Client, repo: str, branch: str, path: str, content: bytes) -> None:
    where = f"/repositories/{repo}/branches/{branch}/objects"
    assert client.send("POST", where, {"path": path}, body=content).status == 201


def test_a_commit_is_made_and_told(client: Client, repo: str) -> None:
    _upload(client, repo, "main", "a", b"a")
    ended = _commit(client, repo, "first")
    assert ended["result"]["message"] == "first" and ended["result"]["metadata"]["k"] == "v"
    head = client.send("GET", f"/repositories/{repo}/branches/main").json["commit_id"]
    assert ended["result"]["id"] == head
    assert "error" not in ended and ended["update_time"].endswith("Z")
    again = _commit(client, repo, "first")
    assert again["task_id"] != ended["task_id"]
    assert again["status_code"] == 400 and again["error"]["message"] == "commit: no changes"


def test_a_merge_is_made_or_its_conflict_told(client: Client, repo: str) -> None:
    _upload(client, repo, "main", "a", b"a")
    _commit(client, repo, "first")
    for branch in ("one", "two"):
        made = {"name": branch, "source": "main"}
        assert client.send("POST", f"/repositories/{repo}/branches", body=made).status == 201
        _upload(client, repo, branch, "a", branch.encode())
        _commit(client, repo, branch, branch)
    merged = _merge(client, repo, "one")
    head = client.send("GET", f"/repositories/{repo}/commits/main").json
    assert merged["result"]["reference"] == head["id"]
    assert head["message"] == "Merge 'one' into 'main'"
    refused = _merge(client, repo, "two")
    assert refused["status_code"] == 409 and "result" not in refused


def test_a_job_is_found_on_its_own_branch_only(client: Client, repo: str) -> None:
    """So the right to one branch says nothing of the jobs of another."""
    where = f"/repositories/{repo}/branches"
    assert client.send("POST", where, body={"name": "dev", "source": "main"}).status == 201
    _upload(client, repo, "dev", "a", b"a")
    commit = _commit(client, repo, "first", "dev")["task_id"]
    merge = _merge(client, repo, "dev")["task_id"]
    merges = f"/repositories/{repo}/refs/dev/merge"
    for mine, other in (
        (f"{where}/dev/commits/async/{commit}", f"{where}/main/commits/async/{commit}"),
        (f"{merges}/main/async/{merge}", f"{merges}/dev/async/{merge}"),
    ):
        assert client.send("GET", f"{mine}/status").status == 200
        reply = client.send("GET", f"{other}/status")
        assert (reply.status, reply.json) == (404, {"message": "not found"})


def test_a_merge_that_fails_is_told_in_the_words_of_its_branch(client: Client, repo: str) -> None:
    made = {"name": "dev", "source": "main"}
    assert client.send("POST", f"/repositories/{repo}/branches", body=made).status == 201
    refused = _merge(client, repo, "dev")
    assert refused["status_code"] == 400
    assert refused["error"]["message"] == "update branch main: no changes"


@pytest.mark.parametrize(
    ("where", "body", "status"),
    [
        ("branches/none/commits/async", {"message": "m"}, 404),
        ("branches/main/commits/async", {}, 400),
        ("refs/none/merge/main/async", {}, 404),
        ("refs/main/merge/none/async", {}, 404),
        ("refs/main/merge/main/async", {"strategy": "mine"}, 400),
        ("refs/main/merge/main/async", {"allow_empty": True}, 400),
        ("refs/main$/merge/main/async", {}, 400),
        ("refs/main$/merge/main", {}, 400),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    client: Client, repo: str, where: str, body: Any, status: int
) -> None:
    assert client.send("POST", f"/repositories/{repo}/{where}", body=body).status == status


def test_unknown_tasks_and_those_of_another_kind(client: Client, repo: str) -> None:
    _upload(client, repo, "main", "a", b"a")
    task = _commit(client, repo, "first")["task_id"]
    at = f"/repositories/{repo}"
    for where in (
        f"{at}/branches/main/commits/async/none/status",
        f"{at}/refs/main/merge/main/async/{task}/status",
    ):
        assert client.send("GET", where).status == 404
    found = client.send("GET", f"{at}/branches/main/import", {"id": task})
    assert found.status == 404
