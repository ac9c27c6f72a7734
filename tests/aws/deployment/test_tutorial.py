"""The second part of the tutorial runs against the deployed stack."""

from pathlib import Path

import pytest

from tests.aws.deployment.conftest import Stack
from tests.cli import story
from tests.cli.commands import Client
from tests.docs import examples

PAGE = "docs/tutorial/2-aws.md"
DIFF = "diff tutorial/main~1 tutorial/main"


def test_the_tutorial_runs(
    stack: Stack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = {
        "http://…": stack.url,
        "GRVL…": stack.access_key_id,
        '"…"': repr(stack.secret_access_key),
        "s3://graveler-data-…": stack.namespace,
    }
    examples.run(PAGE, printed)
    assert "The first hello" in capsys.readouterr().out
    user = Client(tmp_path, monkeypatch, {"NO_COLOR": "1"})
    story.signed_in(user, stack.url, stack.access_key_id, stack.secret_access_key)
    _, told = user.on_terminal(DIFF)
    assert told == examples.shown(PAGE, f".venv/bin/graveler --profile aws {DIFF}")
