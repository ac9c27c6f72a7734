"""Plug-ins: programs `graveler-NAME` on PATH, run as processes of their own."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import PROGRAM
from tests.cli.service import environment

SCRIPT = """#!/bin/sh
printf '%s\\n' "$@"
env | grep -E '^(GRAVELER|LAKECTL|LAKEFS)_'
exit 42
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of PATH with the plug-ins `hello` and `branch`."""
    for name in ("graveler-hello", "graveler-branch"):
        (tmp_path / name).write_text(SCRIPT)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    variables = environment(None) | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"} | more
    return subprocess.run(
        [*PROGRAM, *arguments], env=variables, capture_output=True, text=True, check=False
    )


def test_arguments_and_the_exit_code_pass_unchanged(folder: Path) -> None:
    words = ("--json", "--help", "a b", "", "--", "-x")
    result = run(folder, "hello", *words)
    assert (result.returncode, result.stderr) == (42, "")
    assert result.stdout.splitlines() == list(words)


def test_a_plug_in_gets_nothing_to_sign_in_with(folder: Path) -> None:
    result = run(
        *(folder, "hello", "x"),
        LAKECTL_CREDENTIALS_ACCESS_KEY_ID="key",
        LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY="a-secret",
        LAKECTL_SERVER_ENDPOINT_URL="http://127.0.0.1:1",
        GRAVELER_SECRET_ACCESS_KEY="another",
        GRAVELER_AUTH="key:secret",
        GRAVELER_PROFILE="staging",
    )
    assert result.stdout == "x\nGRAVELER_PROFILE=staging\n"


def test_a_plug_in_replaces_no_command(folder: Path) -> None:
    assert run(folder, "branch", "--help").stdout.startswith("Usage: graveler branch")


def test_what_is_no_plug_in(folder: Path) -> None:
    (folder / "graveler-plain").write_text(SCRIPT)
    for name in ("helo", "plain", "../hello"):
        result = run(folder, name)
        assert result.returncode == 2 and "no such command" in result.stderr.lower()
    assert run(folder, "--json", "hello").returncode == 2
