"""The schemas of what commands print with `--json`.

That each output fits its schema is checked by every test that runs a command (json_check.py);
test_json_story.py runs every command."""

import os
import subprocess
import sys
from pathlib import Path

from scripts.cli_schemas import PRINTED, UNPRINTED
from tests.cli import json_check

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
