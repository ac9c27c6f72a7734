"""The schemas of what commands print with `--json`.

That each output fits its schema is checked by every test that runs a command (json_check.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cli_schemas import PRINTED, UNPRINTED, document
from tests.cli import json_check
from tests.cli.conftest import Lake

ROOT = Path(__file__).parents[2]


def test_the_committed_schemas_are_those_of_the_types() -> None:
    run = subprocess.run(
        [sys.executable, "scripts/cli_schemas.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_every_command_has_a_schema_or_a_reason() -> None:
    assert json_check.visible() == PRINTED.keys() | UNPRINTED.keys()
    assert not PRINTED.keys() & UNPRINTED.keys()


def test_the_schemas_refer_to_types_that_they_have() -> None:
    whole = document()
    text = json.dumps(whole)
    named = {each.partition('"')[0] for each in text.split("#/$defs/")[1:]}
    assert named == whole["$defs"].keys() & named
    assert whole["commands"]["branch list"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/Ref"},
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("branch show lake/main --json", '{"id": "main"}'),
        ("branch show lake/main --json", '{"id": "main", "commit_id": 7}'),
        ("--json branch show lake/main", '{"id": "main", "commit_id": "a", "further": 1}'),
        ("branch list lake --jsonl", '{"id": "main", "commit_id": null}\n'),
        ("fs ls lake/main --json", '[{"path": "a"}]'),
        ("auth users list --json", '[{"id": "ann"}]'),
    ],
)
def test_an_output_that_differs_is_noticed(line: str, text: str) -> None:
    with pytest.raises(AssertionError, match="cli_schemas"):
        json_check.check(line.split(), 0, text)


def test_an_error_that_differs_is_noticed() -> None:
    with pytest.raises(AssertionError, match="cli_schemas"):
        json_check.check_failure('{"error": {"code": "usage"}}\n')


def test_the_outputs_of_commands_are_checked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(json_check.known(), ("branch", "show"), (list[str],))
    with pytest.raises(AssertionError, match="cli_schemas"):
        lake.user.run("branch", "show", f"{lake.name}/main", "--json")


# Commands whose JSON no other test reads; each line needs the ones before it.
LINES = (
    "repo list",
    "repo create {lake}-copy local://{lake}-copy",
    "repo meta show {lake}",
    "branch create {lake}/dev",
    "tag create {lake}/v1 main",
    "tag list {lake}",
    "tag show {lake}/v1",
    "cp lakefs://{lake}/main/a lakefs://{lake}/dev/b",
    "mv lakefs://{lake}/dev/b lakefs://{lake}/dev/c",
    "status {lake}/dev",
    "commit {lake}/dev -m Move",
    "merge {lake}/dev main",
    "revert {lake}/main main --parent 1 --yes",
    "presign {lake}/main/a",
    "config list",
    "config show",
    "completion bash",
    "policy create {lake} {policy}",
    "policy list",
    "policy show {lake}",
    "policy update {lake} {policy}",
    "events rules add {lake} --branch main --bucket landing",
)


def test_outputs_that_no_other_test_reads(lake: Lake, tmp_path: Path) -> None:
    lake.put("a")
    lake.commit()
    statement = {"effect": "allow", "action": ["fs:ReadObject"], "resource": "*"}
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps([statement]))
    for template in LINES:
        line = template.format(lake=lake.name, policy=policy)
        result = lake.user.line(f"{line} --json")
        assert (result.code, bool(result.out)) == (0, True), (line, result)
