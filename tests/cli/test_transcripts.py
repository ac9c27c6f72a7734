"""What people and pipes see of the client commands, as reviewed transcripts.

`GRAVELER_TRANSCRIPTS=write` writes them anew; then read the difference.
"""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Client, play, terminal
from tests.cli.conftest import Lake
from tests.cli.service import KEY, SECRET, serving

GOLDEN = Path(__file__).parent / "golden"


def check(name: str, run: Callable[[str], tuple[int, str]]) -> None:
    path = GOLDEN / name
    now = play(path, run)
    if os.environ.get("GRAVELER_TRANSCRIPTS") == "write":
        path.write_text(now, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == now


def files(folder: Path) -> None:
    data = folder / "data"
    (data / "more").mkdir(parents=True)
    (data / "prices.csv").write_text("id,price\n1,10\n")
    (data / "more" / "notes.txt").write_text("hello\n")


def served_lake(user: Client, url: str) -> None:
    login = user.run(
        *("login", url, "--access-key-id", KEY, "--secret-stdin"), input=SECRET.encode()
    )
    assert login.code == 0, login


def test_a_pipe(user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "store") as service:
        served_lake(user, service.url)

        def run(line: str) -> tuple[int, str]:
            result = user.line(line)
            return result.code, result.out + result.err

        check("pipe.txt", run)


def test_a_terminal(user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    (tmp_path / "big.bin").write_bytes(bytes(1_600_000))
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "store") as service:
        served_lake(user, service.url)
        for line in (
            "repo create lake local://lake",
            "branch create lake/dev",
            "upload -r data lake/dev/data/",
            "commit lake/dev -m 'Add prices' --meta source=crm",
            "upload big.bin lake/main/",
            "commit lake/main -m 'Add a big object'",
            "merge lake/dev main -m 'Release 1'",
            "rm lake/dev/data/prices.csv",
            "upload big.bin lake/dev/data/notes",
        ):
            result = user.line(line)
            assert result.code == 0, result

        def run(line: str) -> tuple[int, str]:
            shown = terminal(user, *shlex.split(line), folder=tmp_path)
            code = shown.end()
            return code, shown.text.replace("\x1b", "^")

        check("terminal.txt", run)


def test_history_on_a_terminal(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "store") as service:
        served_lake(user, service.url)
        assert user.line("repo create lake local://lake").code == 0
        for text in ("id\n1\n", "id,price\n1,5\n2,6\n", "id,price,tax\n1,5,1\n"):
            (tmp_path / "prices.csv").write_text(text)
            for line in ("upload prices.csv lake/main/", "commit lake/main -m 'Change prices'"):
                assert user.line(line).code == 0

        def run(line: str) -> tuple[int, str]:
            shown = terminal(user, *shlex.split(line), folder=tmp_path)
            code = shown.end()
            return code, shown.text.replace("\x1b", "^")

        check("history.txt", run)


def test_a_transcript_that_differs_is_noticed(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("$ graveler branch list nowhere\n")
    now = play(path, lambda line: (lake.user.line(line).code, lake.user.line(line).err))
    assert now.splitlines()[1] == "graveler: repository not found: nowhere"
    assert now.splitlines()[-1] == "(ends with 3)"
