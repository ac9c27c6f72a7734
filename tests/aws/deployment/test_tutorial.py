"""The second part of the tutorial runs against the deployed stack."""

import pytest

from tests.aws.deployment.conftest import Stack
from tests.docs import examples


def test_the_tutorial_runs(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    printed = {
        "http://…": stack.url,
        "GRVL…": stack.access_key_id,
        '"…"': repr(stack.secret_access_key),
        "s3://graveler-data-…": stack.namespace,
    }
    examples.run("docs/tutorial/2-aws.md", printed)
    assert "The first hello" in capsys.readouterr().out
