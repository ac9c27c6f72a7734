"""The walk-through of a team runs against `graveler serve`."""

from pathlib import Path

import pytest
from lakefs.exceptions import NotAuthorizedException

from tests.cli.service import serving
from tests.docs import team

KEYS = ("MYKEY", "a-secret-of-at-least-32-characters")


def test_a_team_of_five(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = team.free_port()
    allowed = ("--hooks-allow", f"127.0.0.1:{port}", "--hooks-allow-loopback")
    secret = {"GRAVELER_HOOKS_SECRET": team.SIGNING_KEY}
    with serving(tmp_path / "store", *allowed, credentials=KEYS, variables=secret) as service:
        place = team.Place(service.url, *KEYS, "local://sales/", port)
        names = team.follow(place, pause=False)
        assert team.printed(capsys.readouterr().out) == team.EXPECTED
        assert team.rights(place, names["dora"]) == [True]
        assert team.rights(place, names["cleo"]) == [False]
        with pytest.raises(NotAuthorizedException):
            names["main_of_ben"].object("2026/01.csv").stat()
        assert service.end()[0] == 0


def test_the_commands_of_the_document_allow_what_its_blocks_use() -> None:
    text = (team.examples.ROOT / team.DOCUMENT).read_text(encoding="utf-8")
    assert text.count(f"export GRAVELER_HOOKS_SECRET={team.SIGNING_KEY}\n") == 2
    assert 'LOCAL=1 ARGS="HooksAllow=127.0.0.1:8001"\n' in text
    assert "--hooks-allow 127.0.0.1:8001 --hooks-allow-loopback\n" in text
