"""The tutorial with the command line alone, against an embedded store."""

from pathlib import Path

import pytest

from tests.cli import story
from tests.cli.commands import Client
from tests.cli.service import KEY, SECRET, at_hand


def test_the_tutorial_is_told(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_hand(tmp_path / "store") as live:
        story.signed_in(user, live.client.url, KEY, SECRET)
        story.tell(user, "local://story", tmp_path, monkeypatch)
