"""`graveler events`: rules through a served store; what is refused before anything is asked."""

from pathlib import Path

import pytest

from graveler.cli.main import main
from graveler.client.session import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE
from tests.cli.service import KEY, SECRET, serving
from tests.cli.service import repository as repository_of


def test_rules_are_made_shown_and_ended_through_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as service:
        with service.client() as client:
            repository_of(client)
        monkeypatch.setenv(URL_VARIABLE, service.url)
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        monkeypatch.setenv(SECRET_VARIABLE, SECRET)
        assert main(["events", "rules", "list", "lake"]) == 0
        assert capsys.readouterr() == ("", "no rules\n")
        made = ["events", "rules", "add", "lake", "--branch", "main", "--bucket", "landing"]
        more = ["--prefix", "in/", "--path", "raw/{rest}", "--objects", "100", "--marker", "_OK"]
        assert main([*made, *more]) == 0
        line = capsys.readouterr().out
        assert "s3://landing/in/ -> main: raw/{rest}  objects=100 seconds=300 marker=_OK" in line
        assert main([*made, *more]) == 1
        assert "already exists" in capsys.readouterr().err
        assert main(["events", "rules", "list", "lake"]) == 0
        assert capsys.readouterr().out == line
        rule = line.partition(" ")[0]
        assert main(["events", "rules", "remove", "lake", rule]) == 0
        assert main(["events", "rules", "remove", "lake", rule]) == 1
        assert "not found" in capsys.readouterr().err
        monkeypatch.setenv(SECRET_VARIABLE, "wrong")
        assert main(["events", "rules", "list", "lake"]) == 1
        assert "status=401" in capsys.readouterr().err


def test_a_server_and_credentials_are_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (URL_VARIABLE, KEY_VARIABLE, SECRET_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert main(["events", "rules", "list", "lake"]) == 1
    assert "give --server URL" in capsys.readouterr().err
    assert main(["events", "rules", "list", "lake", "--server", "http://127.0.0.1:1"]) == 1
    assert SECRET_VARIABLE in capsys.readouterr().err
    monkeypatch.setenv(KEY_VARIABLE, "key")
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    assert main(["events", "rules", "list", "lake", "--server", "http://127.0.0.1:1"]) == 1
    assert "does not answer" in capsys.readouterr().err
