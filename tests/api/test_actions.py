"""Hooks through the API: a real server on the other side, and the unmodified client of lakeFS."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, BadRequestException, NotFoundException

from graveler.core.clock import SystemClock
from graveler.core.fanout import Sequential
from graveler.core.settings import hook_settings
from graveler.hooks.gate import open_hooks
from tests.api.serving import ADMINISTRATOR, Client, Reply, Served, served
from tests.hooks.web import Web, answering
from tests.hooks.web import served as web_served
from tests.waiting import until

SECRET = "s" * 32
TOKEN = "canary-of-a-token/with=signs&more"
VARIABLES = {
    "GRAVELER_HOOKS_SECRET": SECRET,
    "GRAVELER_HOOKS_VARIABLES": "LAKEFSACTION_TOKEN",
    "LAKEFSACTION_TOKEN": TOKEN,
    "LAKEFSACTION_OTHER": "canary-of-a-variable-that-is-not-allowed",
    "HOME": "canary-of-the-environment",
}


def refuse_temporary(connection: socket.socket, request: bytes) -> None:
    """Refuse what has a path or a message with `temp`; echo the request."""
    body = json.loads(request.partition(b"\r\n\r\n")[2])
    status = 403 if "temp" in json.dumps(body) else 200
    answering(status, request)(connection, request)


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_served(refuse_temporary) as running:
        yield running


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, web: Web) -> Iterator[Served]:
    settings = hook_settings(VARIABLES, (f"127.0.0.1:{web.port}",), loopback=True)
    hooks = open_hooks(settings, SystemClock(), Sequential())
    with served(tmp_path_factory.mktemp("hooked") / "store", hooks=hooks) as running:
        yield running


@pytest.fixture
def client(live: Served) -> Client:
    return live.client


@pytest.fixture
def api(client: Client) -> lakefs_sdk.ActionsApi:
    configuration = lakefs_sdk.Configuration(
        host=f"{client.url}/api/v1",
        username=ADMINISTRATOR.access_key_id,
        password=ADMINISTRATOR.secret_access_key,
    )
    return lakefs_sdk.ActionsApi(lakefs_sdk.ApiClient(configuration))


def action(web: Web, events: str, more: str = "") -> bytes:
    text = f"""
name: guard
on: {{{events}}}
hooks:
  - id: first
    type: webhook
    properties:
      url: {web.url}
      query_params: {{token: "{{{{ ENV.LAKEFSACTION_TOKEN }}}}"}}
      headers: {{X-Token: "{{{{ ENV.LAKEFSACTION_TOKEN }}}}"}}
{more}
"""
    return text.encode()


def _commit(client: Client, repo: str, message: str) -> Any:
    where = f"/repositories/{repo}/branches/main/commits"
    return client.send("POST", where, body={"message": message})


@pytest.fixture
def repo(live: Served, web: Web) -> str:
    """A repository whose commits are guarded."""
    name = live.fresh_repository()
    text = action(web, "pre-commit: , post-commit: , pre-merge: ")
    live.client.upload(name, "_lakefs_actions/guard.yaml", text)
    assert _commit(live.client, name, "guard").status == 201
    return name


def test_a_webhook_vetoes_a_commit(
    client: Client, api: lakefs_sdk.ActionsApi, repo: str, web: Web
) -> None:
    client.upload(repo, "a", b"1")
    before = client.send("GET", f"/repositories/{repo}/branches/main").json
    refused = _commit(client, repo, "temp")
    assert refused.status == 412
    run = api.list_repository_runs(repo, branch="main").results[0]
    assert refused.message == (
        f"pre-commit hook aborted, run id '{run.run_id}': hook 'first' of action 'guard' failed: "
        "request failed (status code: 403)"
    )
    assert (run.status, run.event_type, run.commit_id) == ("failed", "pre-commit", "")
    assert client.send("GET", f"/repositories/{repo}/branches/main").json == before
    difference = client.send("GET", f"/repositories/{repo}/branches/main/diff").json
    assert [each["path"] for each in difference["results"]] == ["a"]
    made = _commit(client, repo, "fine").json["id"]
    until(lambda: len(api.list_repository_runs(repo, commit=made).results) == 2, "both have run")
    post, pre = api.list_repository_runs(repo, commit=made).results
    assert (pre.event_type, post.event_type) == ("pre-commit", "post-commit")
    assert {run.status for run in (pre, post)} == {"completed"}
    assert api.get_run(repo, pre.run_id) == pre


def test_a_webhook_vetoes_a_merge(client: Client, repo: str) -> None:
    branches = f"/repositories/{repo}/branches"
    client.send("POST", branches, body={"name": "dev", "source": "main"})
    client.upload(repo, "b", b"1", "dev")
    client.send("POST", f"{branches}/dev/commits", body={"message": "fine"})
    before = client.send("GET", f"{branches}/main").json
    merge = f"/repositories/{repo}/refs/dev/merge/main"
    refused = client.send("POST", merge, body={"message": "temp"})
    assert refused.status == 412
    assert refused.message.startswith("pre-merge hook aborted, run id '")
    assert client.send("GET", f"{branches}/main").json == before
    assert client.send("POST", merge, body={"message": "fine"}).status == 200


def test_the_hooks_of_a_run_and_their_logs(
    client: Client, api: lakefs_sdk.ActionsApi, repo: str, web: Web
) -> None:
    run = api.list_repository_runs(repo).results[-1]  # the oldest: of the first commit
    (hook,) = api.list_run_hooks(repo, run.run_id).results
    assert (hook.hook_run_id, hook.action, hook.hook_id) == ("0000_0000", "guard", "first")
    assert hook.status == "completed"
    assert hook.start_time <= hook.end_time
    log = bytes(api.get_run_hook_output(repo, run.run_id, hook.hook_run_id)).decode()
    assert f"POST {web.url}" in log
    assert "X-Token: {{ ENV.LAKEFSACTION_TOKEN }}" in log
    assert "status 200" in log
    where = f"/repositories/{repo}/actions/runs/{run.run_id}/hooks/0000_0000/output"
    headers = client.send("GET", where).headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]


def test_no_secret_is_logged_or_answered(
    client: Client,
    api: lakefs_sdk.ActionsApi,
    repo: str,
    web: Web,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The other side echoes everything, so the value of the variable comes back in its answer."""
    client.upload(repo, "c", b"1")
    refused = _commit(client, repo, "temp")
    sent = web.requests[-1].decode()
    assert f"X-Token: {TOKEN}" in sent  # the value did leave
    run = api.list_repository_runs(repo).results[0]
    log = bytes(api.get_run_hook_output(repo, run.run_id, "0000_0000")).decode()
    seen = [log, refused.body.decode(), caplog.text, json.dumps(run.to_dict(), default=str)]
    for canary in (*VARIABLES.values(), "canary-of-a-token"):
        if canary != VARIABLES["GRAVELER_HOOKS_VARIABLES"]:
            assert not [text for text in seen if canary in text], canary
    assert "[hidden]" in log


@pytest.mark.parametrize("name", ["HOME", "LAKEFSACTION_OTHER", "GRAVELER_HOOKS_SECRET"])
def test_action_files_reach_no_other_variable(
    client: Client, api: lakefs_sdk.ActionsApi, live: Served, web: Web, name: str
) -> None:
    repo = live.fresh_repository()
    text = action(web, "pre-commit: ").replace(b"LAKEFSACTION_TOKEN", name.encode())
    client.upload(repo, "_lakefs_actions/guard.yaml", text)
    known = len(web.requests)
    refused = _commit(client, repo, "fine")
    assert refused.status == 412
    assert refused.message.endswith(f"variable is not allowed for actions: name={name}")
    assert len(web.requests) == known
    assert VARIABLES[name] not in refused.body.decode()


def test_an_invalid_action_file_is_named(client: Client, live: Served) -> None:
    repo = live.fresh_repository()
    client.upload(repo, "_lakefs_actions/bad.yaml", b"name: [")
    refused = _commit(client, repo, "bad")
    assert refused.status == 412
    assert "action file invalid: file=bad.yaml: it is not YAML" in refused.message


@pytest.mark.parametrize("text", [rb'name: "\U00110000"', rb'name: "\ud800"'])
def test_an_escape_that_is_no_character_is_the_fault_of_the_file(
    client: Client, live: Served, text: bytes
) -> None:
    repo = live.fresh_repository()
    more = b"\non: {pre-commit: }\nhooks: [{id: a, type: lua}]"
    client.upload(repo, "_lakefs_actions/bad.yaml", text + more)
    refused = _commit(client, repo, "bad")
    assert refused.status == 412
    assert "action file invalid: file=bad.yaml: " in refused.message


def test_a_host_that_is_not_allowed_is_not_asked(client: Client, live: Served, web: Web) -> None:
    repo = live.fresh_repository()
    with web_served(answering()) as elsewhere:
        client.upload(repo, "_lakefs_actions/a.yaml", action(elsewhere, "pre-commit: "))
        refused = _commit(client, repo, "fine")
        assert refused.status == 412
        assert "host is not on the allow-list" in refused.message
        assert elsewhere.requests == []


def test_pages_of_runs(api: lakefs_sdk.ActionsApi, client: Client, repo: str) -> None:
    for number in range(3):
        client.upload(repo, f"n{number}", b"1")
        _commit(client, repo, f"n{number}")
    until(lambda: len(api.list_repository_runs(repo, branch="main").results) == 8, "all have run")
    everything = [run.run_id for run in api.list_repository_runs(repo).results]
    assert sorted(everything) == everything
    for filters in ({}, {"branch": "main"}):
        pages: list[str] = []
        after = ""
        while True:
            page = api.list_repository_runs(repo, amount=3, after=after, **filters)
            pages += [run.run_id for run in page.results]
            after = page.pagination.next_offset
            if not page.pagination.has_more:
                break
        assert pages == everything
    runs = f"/repositories/{repo}/actions/runs"
    for path in (runs, f"{runs}/{everything[0]}/hooks"):
        refused = client.send("GET", path, {"after": "garbage"})
        assert (refused.status, "next_offset" in refused.message) == (400, True)
    assert api.list_repository_runs(repo, branch="other").results == []
    assert api.list_repository_runs(repo, commit="0" * 64).results == []
    assert api.list_repository_runs(repo, commit="main").results == []


def test_what_is_not_there(api: lakefs_sdk.ActionsApi, client: Client, repo: str) -> None:
    run = api.list_repository_runs(repo).results[0].run_id
    for absent in ("none", "0" * 20, "a" * 2_000):
        with pytest.raises(NotFoundException):
            api.get_run(repo, absent)
    with pytest.raises(NotFoundException):
        api.list_run_hooks(repo, "none")
    for hook in ("0000_0001", "..%2F..", "none"):
        with pytest.raises(ApiException) as refused:
            api.get_run_hook_output(repo, run, hook)
        assert refused.value.status == 404
    with pytest.raises(BadRequestException) as both:
        api.list_repository_runs(repo, branch="main", commit="0" * 64)
    assert json.loads(both.value.body)["message"] == (
        "can't use both branchID and MergedCommitID: parameters conflict"
    )
    with pytest.raises(NotFoundException):
        api.list_repository_runs("no-such-repository")
    where = f"/repositories/{repo}/actions/runs/none"
    assert client.send("GET", where).message == "not found: not found"


def test_hooks_are_off_by_default(
    tmp_path: Path, web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path / "store") as plain:
        repo, known = plain.fresh_repository(), len(web.requests)
        path = "_lakefs_actions/guard.yaml"
        reply = plain.client.upload(repo, path, action(web, "pre-commit: "))
        assert reply.headers["x-graveler-hooks"] == "off"
        assert "an action file has no effect" in caplog.text
        assert "x-graveler-hooks" not in plain.client.upload(repo, "data", b"x").headers
        plain.client.upload(repo, "_lakefs_actions/bad.yaml", b"name: [")
        assert _commit(plain.client, repo, "temp").headers["x-graveler-hooks"] == "off"
        assert len(web.requests) == known
        page = plain.client.send("GET", f"/repositories/{repo}/actions/runs")
        assert page.json["results"] == []
        assert page.headers["x-graveler-hooks"] == "off"


def test_who_commits_an_action_file_is_told_that_no_hook_runs(tmp_path: Path) -> None:
    """Whichever way it came to the branch, and only if this commit brings or changes one."""
    with served(tmp_path / "store") as plain:
        client, repo = plain.client, plain.fresh_repository()
        branch = f"/repositories/{repo}/branches/main"

        def is_told(reply: Reply) -> bool:
            assert reply.status in (200, 201), reply
            return reply.headers.get("x-graveler-hooks") == "off"

        def committed() -> bool:
            return is_told(_commit(client, repo, "m"))

        def upload(*paths: str) -> None:
            for path in paths:
                assert client.upload(repo, path, os.urandom(9)).status == 201

        def delete(path: str) -> None:
            assert client.send("DELETE", f"{branch}/objects", {"path": path}).status == 204

        upload("A", "_lakefs_action", "_lakefs_actions", "_lakefs_actions0", "z")
        assert not committed()
        upload("a", "_lakefs_actions/guard")
        assert committed()
        upload("A", "_lakefs_action", "z")
        assert not committed()
        upload("_lakefs_actions/guard")
        assert committed()
        delete("_lakefs_actions/guard")
        assert not committed()
        copy = {"src_path": "a"}
        where = f"{branch}/objects/copy"
        reply = client.send("POST", where, {"dest_path": "_lakefs_actions/b"}, body=copy)
        assert reply.status == 201
        task = client.send("POST", f"{branch}/commits/async", body={"message": "m"}).json["id"]
        replies: list[Reply] = []

        def is_done() -> bool:
            replies.append(client.send("GET", f"{branch}/commits/async/{task}/status"))
            return bool(replies[-1].json["completed"])

        until(is_done, "the commit is made")
        assert is_told(replies[-1])
