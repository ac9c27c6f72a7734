"""Commits of more rows than the server may scan, through a real server that has such a bound."""

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graveler.committed.apply import apply
from graveler.committed.ranges import Keyspace
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, BreakParameters, Change
from tests.api.serving import Client, Reply, Served, ended, served

ROWS_MAX = 2


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose commits scan so many rows."""
    store: Path = tmp_path_factory.mktemp("bounded") / "store"
    with served(store, commit_rows_max=ROWS_MAX) as running:
        yield running


def at(repo: str, *more: str) -> str:
    return "/".join((f"/repositories/{repo}/branches/main", *more))


def commit(client: Client, repo: str, message: str = "asked") -> Reply:
    body = {"message": message, "metadata": {"by": "me"}}
    return client.send("POST", at(repo, "commits"), body=body)


def begun(client: Client, repo: str, refused: Reply) -> dict[str, Any]:
    """The job that the answer names."""
    name = refused.message.rpartition("job=")[2]
    found: dict[str, Any] = client.send("GET", at(repo, "bulk", name)).json
    return found


def landed(live: Served, repo: str, job: dict[str, Any]) -> Any:
    """As a cluster does, with nothing but what the API says."""
    client, breaks = live.client, job["breaks"]
    salt = b64decode(breaks["salt"])
    parameters = BreakParameters(breaks["min_size"], breaks["max_size"], breaks["raggedness"], salt)
    space = Keyspace(live.service.ports.ranges, job["storage_namespace"], parameters)
    rows: dict[str, Change] = {}
    for token in reversed(job["staging_tokens"]):
        where = at(repo, "staging", "tokens", token["token"], "0")
        for row in client.send("GET", where).json["results"]:
            value = b64decode(row["value"]) if "value" in row else TOMBSTONE
            rows[row["path"]] = (row["path"].encode(), value)
    base = MetarangeId(job["base_metarange"])
    written = apply(space, base, [rows[path] for path in sorted(rows)]).metarange_id
    said = {"message": job["message"], "metadata": job["metadata"]}
    body = {"metarange": written, "request_id": "r", **said}
    reply = client.send("PUT", at(repo, "bulk", job["id"], "finish"), body=body)
    assert reply.status == 201, reply.body
    return reply.json


def test_a_caller_who_waits_is_told_of_the_job(live: Served, client: Client, repo: str) -> None:
    for number in range(ROWS_MAX):
        client.upload(repo, f"p/{number}", b"1")
    assert commit(client, repo).status == 201
    for number in range(ROWS_MAX + 1):
        client.upload(repo, f"q/{number}", b"1")
    refused = commit(client, repo)
    assert refused.status == 503 and int(refused.headers["retry-after"]) > 1
    assert f'graveler.spark.commit(lake, "{repo}/main"' in refused.message
    assert "outcome unknown" not in refused.message
    job = begun(client, repo, refused)
    assert (job["state"], job["mode"], job["message"]) == ("running", "commit", "asked")
    assert job["metadata"] == {"by": "me"} and job["id"] in refused.message
    assert commit(client, repo).message == refused.message
    assert commit(client, repo, "another").message == refused.message
    made = landed(live, repo, job)
    assert (made["message"], made["metadata"]["by"]) == ("asked", "me")
    again = commit(client, repo)
    assert (again.status, again.json["id"]) == (201, made["id"])
    assert commit(client, repo, "new").message == "commit: no changes"


def test_a_caller_who_does_not_wait_polls(live: Served, client: Client, repo: str) -> None:
    for number in range(ROWS_MAX + 1):
        client.upload(repo, f"q/{number}", b"1")
    started = client.send("POST", at(repo, "commits", "async"), body={"message": "asked"})
    assert started.status == 202
    where = at(repo, "commits", "async", started.json["id"], "status")
    waiting = ended(client, where, "waits_for")
    assert waiting["completed"] is False and "result" not in waiting
    job = client.send("GET", at(repo, "bulk", waiting["waits_for"])).json
    made = landed(live, repo, job)
    found = client.send("GET", where).json
    assert found["completed"] and found["result"]["id"] == made["id"]
    assert "waits_for" not in found
