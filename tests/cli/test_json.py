"""The schemas of what commands print with `--json`.

That each output fits its schema is checked by every test that runs a command (json_check.py);
test_json_story.py runs every command."""

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
