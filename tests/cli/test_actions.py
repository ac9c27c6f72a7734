"""`graveler actions`: runs of a served repository, their logs, and the check of a file."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.api.actions import ActionRun
from tests.api.serving import Served, served
from tests.cli.commands import Client
from tests.cli.conftest import Lake
from tests.cli.hooked import hooks_to
from tests.hooks.web import Web, answering
from tests.hooks.web import served as web_served

ACTION = """
name: guard
on: {{pre-commit: {{branches: [main]}}}}
hooks:
  - id: first
    type: webhook
    properties: {{url: {url}}}
"""


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_served(lambda connection, request: answering(403, b"no")(connection, request)) as web:
        yield web


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, web: Web) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("hooked") / "store", hooks=hooks_to(web)) as running:
        yield running


def test_a_refused_commit_is_found_by_its_run(lake: Lake, web: Web) -> None:
    user, name = lake.user, lake.name
    assert user.run("actions", "list", name) == (0, "", "no runs\n")
    lake.put("_lakefs_actions/guard.yaml", ACTION.format(url=web.url).encode())
    assert user.run("commit", f"{name}/main", "-m", "x").code == 5
    (run,) = user.read(list[ActionRun], "actions", "list", name)
    assert (run.status, run.branch, run.event_type) == ("failed", "main", "pre-commit")
    listed = user.run("actions", "list", f"{name}/main", "-n", "1").out
    assert listed.startswith(f"{run.run_id}\tfailed\t")
    assert user.run("actions", "list", name, "--branch", "other").out == ""
    shown = user.run("actions", "show", name, run.run_id)
    assert "event:    pre-commit\n" in shown.out and shown.out.endswith("\tguard\tfirst\n")
    record = json.loads(user.run("actions", "show", name, run.run_id, "--json").out)
    (hook,) = record["graveler"]["hooks"]
    assert (record["run_id"], hook["hook_id"], hook["status"]) == (run.run_id, "first", "failed")
    logs = user.run("actions", "log", name, run.run_id)
    assert logs.code == 0 and "== guard / first: failed\n" in logs.out and "403" in logs.out
    by_hook = user.run("actions", "log", name, run.run_id, "--hook", "first", "--json")
    (log,) = json.loads(by_hook.out)
    assert "403" in log["log"] and log["hook_run_id"] == hook["hook_run_id"]
    assert user.run("actions", "log", name, run.run_id, "--hook", "second").code == 2


def test_lakectls_names(lake: Lake, web: Web) -> None:
    user, name = lake.user, lake.name
    lake.put("_lakefs_actions/guard.yaml", ACTION.format(url=web.url).encode())
    assert user.run("commit", f"{name}/main", "-m", "x").code == 5
    (run,) = user.read(list[ActionRun], "actions", "runs", "list", f"lakefs://{name}")
    described = user.run("actions", "runs", "describe", f"lakefs://{name}", run.run_id)
    assert described.code == 0 and described.out.startswith(f"run:      {run.run_id}\n")
    assert "\n  runs " not in user.run("actions", "--help").out


def test_an_unknown_run(lake: Lake) -> None:
    for command in ("show", "log"):
        result = lake.user.run("actions", command, lake.name, "nope")
        assert result.code == 3
        assert result.err.endswith(f"try: graveler actions list {lake.name}\n")
    both = ("actions", "list", f"{lake.name}/main", "--commit", "1a2b3c4d")
    assert lake.user.run(*both).code == 2


def test_a_file_is_checked_without_a_server(user: Client, tmp_path: Path) -> None:
    text = ACTION.format(url="https://hooks.example.com/")
    (tmp_path / "guard.yaml").write_text(text)
    result = user.run("actions", "validate", str(tmp_path / "guard.yaml"))
    assert result == (0, "valid: guard: 1 hook on pre-commit\n", "")
    shown = user.run("actions", "validate", "-", "--json", input=text.encode())
    assert json.loads(shown.out)["graveler"] == {
        **{"name": "guard", "hooks": ["first"]},
        "on": {"pre-commit": ["main"]},
    }
    (tmp_path / "wrong.yaml").write_text(text.replace("pre-commit", "pre-comit"))
    wrong = user.run("actions", "validate", str(tmp_path / "wrong.yaml"))
    assert wrong.code == 1 and "wrong.yaml" in wrong.err and "pre-comit" in wrong.err
    assert user.run("actions", "validate", str(tmp_path / "none.yaml")).code == 1


def test_a_service_without_hooks_says_that_no_action_file_has_an_effect(
    tmp_path: Path, user: Client
) -> None:
    """To whoever lists runs, uploads an action file, or commits one."""
    file = tmp_path / "guard.yaml"
    file.write_text("on: {pre-commit: }\n")
    with served(tmp_path / "plain") as plain:
        user.know(plain.client.url)
        name = plain.fresh_repository()
        for words in (
            ("actions", "list", name),
            ("upload", str(file), f"{name}/main/_lakefs_actions/"),
        ):
            result = user.run(*words)
            assert result.code == 0
            assert "warning: hooks are off on this service" in result.err, words
            assert user.run(*words, "-q").err == ""
        commit = ("commit", f"{name}/main", "-m", "m")
        assert "warning: hooks are off on this service" in user.run(*commit).err
        assert "hooks are off" not in user.run("upload", str(file), f"{name}/main/x").err
        assert user.run(*commit).err == ""
        folder = tmp_path / "linked"
        assert user.run("local", "clone", f"{name}/main/", str(folder)).code == 0
        (folder / "_lakefs_actions/guard.yaml").write_text("on: {pre-merge: }\n")
        committed = user.run("local", "commit", str(folder), "-m", "m")
        assert committed.code == 0 and "warning: hooks are off" in committed.err
