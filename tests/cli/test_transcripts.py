"""What people and pipes see of the client commands, as reviewed transcripts.

`GRAVELER_TRANSCRIPTS=write` writes them anew; then read the difference.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from graveler.auth.credentials import NewCredential
from graveler.cli.commands import COMMANDS
from graveler.cli.support import administrator
from graveler.cli.support.administrator import SavedCredential
from tests.api.serving import Served, served
from tests.cli.commands import Client, play, terminal
from tests.cli.hooked import STATEMENT, action, hooks_to
from tests.cli.service import KEY, SECRET, at_hand
from tests.cli.test_root import ALL
from tests.hooks import web

GOLDEN = Path(__file__).parent / "golden"
PRICES = (
    "repo create lake local://lake",
    "upload prices.csv lake/main/",
    "commit lake/main -m 'Add prices'",
)
Run = Callable[[str], tuple[int, str]]


def prepare(user: Client, *lines: str) -> None:
    for line in lines:
        result = user.line(line)
        assert result.code == 0, result


def on_terminal(user: Client, names: Mapping[str, str] = MappingProxyType({})) -> Run:
    """How a terminal shows a line.  `names`: what stands for places that change with each run."""

    def run(line: str) -> tuple[int, str]:
        code, text = user.on_terminal(line)
        for place, name in {**names, "\x1b": "^"}.items():
            text = text.replace(place, name)
        return code, text

    return run


def check(name: str, run: Run) -> None:
    path = GOLDEN / name
    now = play(path, run)
    if os.environ.get("GRAVELER_TRANSCRIPTS") == "write":
        path.write_text(now, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == now


def interrupted(
    user: Client, line: str, folder: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """How a terminal shows a service that gets Ctrl-C when it is ready, or a line that ends."""
    shown = terminal(user, *shlex.split(line), folder=folder, **variables)
    code = shown.interrupt() if shown.reaches(r"ready at .*\n") else shown.end()
    text = shown.text.replace("\x1b", "^").replace("^C", "")
    return code, re.sub(r"process \d+", "process <number>", text)


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
    with at_hand(tmp_path / "store") as live:
        served_lake(user, live.client.url)

        def run(line: str) -> tuple[int, str]:
            result = user.line(line)
            return result.code, result.out + result.err

        check("pipe.txt", run)


def test_a_terminal(user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    (tmp_path / "big.bin").write_bytes(bytes(1_600_000))
    monkeypatch.chdir(tmp_path)
    with at_hand(tmp_path / "store") as live:
        served_lake(user, live.client.url)
        prepare(
            user,
            "repo create lake local://lake",
            "branch create lake/dev",
            "upload -r data lake/dev/data/",
            "commit lake/dev -m 'Add prices' --meta source=crm",
            "upload big.bin lake/main/",
            "commit lake/main -m 'Add a big object'",
            "merge lake/dev main -m 'Release 1'",
            "rm lake/dev/data/prices.csv",
            "upload big.bin lake/dev/data/notes",
        )

        check("terminal.txt", on_terminal(user))


def test_history_on_a_terminal(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with at_hand(tmp_path / "store") as live:
        served_lake(user, live.client.url)
        assert user.line("repo create lake local://lake").code == 0
        for text in ("id\n1\n", "id,price\n1,5\n2,6\n", "id,price,tax\n1,5,1\n"):
            (tmp_path / "prices.csv").write_text(text)
            prepare(user, "upload prices.csv lake/main/", "commit lake/main -m 'Change prices'")

        check("history.txt", on_terminal(user))


@contextmanager
def served_prices(user: Client, folder: Path, *more: str) -> Iterator[Served]:
    """A served store in `folder` with a repository that has prices."""
    (folder / "prices.csv").write_text("id\n1\n")
    with at_hand(folder / "store") as live:
        served_lake(user, live.client.url)
        prepare(user, *PRICES, *more)
        yield live


def test_a_store_that_is_not_served(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served_prices(user, tmp_path):
        pass

    check("store.txt", on_terminal(user, {str(tmp_path): "<folder>"}))


def test_a_restored_repository(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace of `lake` is copied to that of `copy`, as the tools of a storage do it."""
    monkeypatch.chdir(tmp_path)
    with served_prices(user, tmp_path, "refs dump lake lake.json") as live:
        blocks = live.embedded.ports.blocks
        for listed in blocks.list("local://lake/", "", 1_000).lines:
            if not listed.address.endswith("/dummy"):
                blocks.copy(listed.address, listed.address.replace("//lake/", "//copy/"))

        check("restore.txt", on_terminal(user))


def test_administration_on_a_terminal(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served_prices(user, tmp_path) as live:
        key = NewCredential(KEY, SECRET)
        administrator.write(tmp_path / "store", SavedCredential(live.client.url, key))
        prepare(
            user,
            "branch create lake/dev",
            "upload prices.csv lake/main/second/",
            "commit lake/main -m 'Add a second file'",
            "upload prices.csv lake/dev/more/",
            "commit lake/dev -m 'Add more prices'",
        )

        names = {str(user.home): "<home>", str(tmp_path): "<folder>"}
        check("administer.txt", on_terminal(user, names))


def test_what_has_an_id(user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pull requests, jobs, imports, runs of hooks, policies, keys, rules and the audit trail.

    In the transcript, words in capitals are ids: `_LISTED` says of what."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.csv").write_text("id\n1\n")
    (tmp_path / "readers.json").write_text(STATEMENT)
    source = tmp_path / "source"
    source.mkdir()
    (source / "march.csv").write_text("id\n3\n")
    with web.served(web.answering(403, b"no")) as hook:
        (tmp_path / "guard.yaml").write_text(action("guarded", hook))
        with served(tmp_path / "store", hooks=hooks_to(hook), import_roots=[source]) as live:
            user.know(live.client.url)
            prepare(
                user,
                "repo create lake local://lake",
                "branch create lake/guarded",
                "upload guard.yaml lake/guarded/_lakefs_actions/",
                "branch create lake/dev",
                "branch create lake/old",
                "upload prices.csv lake/dev/",
                "commit lake/dev -m 'Add prices'",
                "user create ann",
                "user key create ann",
            )
            refused = user.line("commit lake/guarded -m 'Add a guard'")
            assert refused.code == 5, refused

            def run(line: str) -> tuple[int, str]:
                for word, listed in _LISTED.items():
                    if word in line.split():
                        newest = json.loads(user.line(f"{listed} --json").out)[0]
                        id = next(newest[name] for name in _IDS if name in newest)
                        line = line.replace(word, id)
                code, text = user.on_terminal(line.replace("SOURCE", f"local://{source}"))
                text = text.replace(f":{hook.port}", ":<port>")
                return code, text.replace("\x1b", "^").replace(str(tmp_path), "<folder>")

            check("ids.txt", run)


_LISTED = {
    "PULL": "pr list lake --status all -n 1",
    "JOB": "jobs list lake -n 1",
    "RUN": "actions list lake -n 1",
    "KEY": "user key list ann",
    "RULE": "events rules list lake",
}
_IDS = ("run_id", "access_key_id", "id")


def test_a_linked_folder(user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that do not begin with `$ graveler` are those of a shell."""
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with at_hand(tmp_path / "store") as live:
        served_lake(user, live.client.url)
        prepare(
            user,
            "repo create lake local://lake",
            "upload -r data lake/main/data/",
            "commit lake/main -m 'Add prices'",
        )

        def run(line: str) -> tuple[int, str]:
            if line.startswith("$ "):
                return subprocess.run(line[2:], shell=True, cwd=tmp_path, check=True).returncode, ""
            code, text = user.on_terminal(line)
            return code, text.replace("\x1b", "^").replace(str(tmp_path), "<folder>")

        check("local.txt", run)


def test_what_prints_for_other_programs_and_names_of_lakectl(
    user: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served_prices(user, tmp_path, "upload prices.csv lake/main/second/"):
        check("others.txt", on_terminal(user))


def test_a_service(user: Client, tmp_path: Path) -> None:
    """A line of a service that listens runs until it is ready, and then gets Ctrl-C."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "prices.csv").write_text("id\n1\n")

    def run(line: str) -> tuple[int, str]:
        code, text = interrupted(user, line, tmp_path)
        return code, text.replace(str(tmp_path), "<folder>")

    check("serve.txt", run)


def _transcribed() -> set[tuple[str, ...]]:
    """The commands that a transcript runs."""
    lines = [line for file in GOLDEN.iterdir() for line in file.read_text().splitlines()]
    begun = [line.split()[2:] for line in lines if line.startswith("$ graveler ")]
    return {tuple(words[:count]) for words in begun for count in range(1, 4)}


def test_every_command_has_a_transcript() -> None:
    known = _transcribed()
    shown = {words for words in ALL if COMMANDS[words[0]].section}
    # A script of Click; a command about a bucket of S3 (tests/aws/test_s3_cors.py).
    assert shown - known == {("completion",), ("storage", "cors")}
