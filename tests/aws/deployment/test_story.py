"""The tutorial with the command line alone, against the deployed stack."""

from pathlib import Path

import pytest

from tests.aws.deployment.conftest import Stack
from tests.cli import story
from tests.cli.commands import Client

pytestmark = pytest.mark.xdist_group("stack")


@pytest.mark.usefixtures("sales")
def test_the_tutorial_is_told(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    user = Client(tmp_path / "home", monkeypatch)
    story.signed_in(user, stack.url, stack.access_key_id, stack.secret_access_key)
    story.tell(user, f"{stack.namespace}/story", tmp_path, monkeypatch)
