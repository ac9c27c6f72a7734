"""`graveler demo`: the story, its second telling, its interruption, and what it says to try."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from graveler.assembly import open_embedded
from graveler.auth.credentials import NewCredential
from graveler.cli.support import administrator
from graveler.core.records import ABSENT
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.cli.service import WAIT_SECONDS, Service, environment, run, started
from tests.cli.test_transcripts import check

ONCE = ("--listen", "127.0.0.1:0", "--once")
CHAPTERS = (
    "28,298 airports of 234 countries",
    "created repository airports",
    "uploaded 234 CSV files",
    "committed them",
    "committed a bad change",
    "19 changed files",
    "reverted it",
    "merged ingest into main",
    "tagged it",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store in which the story was told, and what was said."""
    store = tmp_path_factory.mktemp("demo") / "store"
    found = run("demo", "--store", str(store), *ONCE)
    assert (found.returncode, found.stderr) == (0, "")
    return store, found.stdout


def test_the_story_is_told_in_order(told: tuple[Path, str]) -> None:
    places = [told[1].find(words) for words in CHAPTERS]
    assert -1 not in places and places == sorted(places), told[1]
    assert len(re.findall(r"^ +\d+\.\d\d s  ", told[1], re.MULTILINE)) == len(CHAPTERS)


def test_what_it_prints_is_a_reviewed_transcript(told: tuple[Path, str]) -> None:
    store, text = told
    text = text.replace(str(store), "store")
    for pattern, name in ((r" +\d+\.\d\d s  ", " <seconds>  "), (r"\S*/python\S*", "python")):
        text = re.sub(pattern, name, text)
    check("demo.txt", lambda line: (0, text))


def test_the_credentials_are_kept_and_not_printed(told: tuple[Path, str]) -> None:
    store, said = told
    saved = administrator.read(store)
    assert saved is not ABSENT
    assert (store / administrator.FILE).stat().st_mode & 0o777 == 0o600
    assert saved.credential.secret_access_key not in said
    assert str(store / administrator.FILE) in said


def test_a_second_run_reuses_credentials_and_repository(told: tuple[Path, str]) -> None:
    store, _ = told
    before = administrator.read(store)
    found = run("demo", "--store", str(store), *ONCE)
    assert (found.returncode, found.stderr) == (0, "")
    assert "exists from an earlier run" in found.stdout
    assert not any(words in found.stdout for words in CHAPTERS)
    after = administrator.read(store)
    assert before is not ABSENT and after is not ABSENT
    assert after.credential == before.credential


def test_what_it_says_to_try_works(told: tuple[Path, str]) -> None:
    store, _ = told
    with started("demo", "--store", str(store), *ONCE[:2], credentials=None) as service:
        lines = _until(service, "Serving until interrupted")
        tries = [line.strip() for line in lines if re.match(r" +(curl|\S*python\S*) ", line)]
        assert len(tries) == 5
        assert "Graveler is running" in httpx.get(service.url).text
        for command in tries:
            if command.startswith("curl") and not shutil.which("curl"):
                continue
            script = f". '{store / administrator.FILE}' && {command}"
            done = subprocess.run(
                ["sh", "-c", script], env=environment(None), capture_output=True, text=True,
                timeout=WAIT_SECONDS, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, ""), command
            assert done.stdout.strip() and '"message"' not in done.stdout[:12], command
        code, out, err = service.end(signal.SIGINT)
        assert (code, out, err) == (0, "graveler: stopped\n", "")


def test_an_interrupted_story_ends_in_order_and_is_told_by_the_next_run(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with started("demo", "--store", str(store), *ONCE, credentials=None) as service:
        _until(service, "created repository")
        code, out, err = service.end(signal.SIGINT)
        assert (code, err) == (0, "")
        assert "tagged it" not in out
    found = run("demo", "--store", str(store), *ONCE)
    assert (found.returncode, found.stderr) == (0, "")
    assert all(words in found.stdout for words in CHAPTERS)


def test_lost_credentials_are_told_with_the_remedy(told: tuple[Path, str], tmp_path: Path) -> None:
    store = tmp_path / "copy"
    shutil.copytree(told[0], store)
    (store / administrator.FILE).unlink()
    found = run("demo", "--store", str(store), *ONCE)
    assert found.returncode == 1
    assert f"graveler credentials reset --store {store} --save" in found.stderr
    assert run("credentials", "reset", "--store", str(store), "--save", "--yes").returncode == 0
    assert run("demo", "--store", str(store), *ONCE).returncode == 0


def test_a_repository_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    store = open_embedded(tmp_path)
    repository.create(store.ports, NewRepository("airports", "local://mine/"))
    store.close()
    found = run("demo", "--store", str(tmp_path), *ONCE)
    assert found.returncode == 1
    assert "already has a repository" in found.stderr and found.stdout == ""


def test_credentials_of_the_environment_are_used(told: tuple[Path, str], tmp_path: Path) -> None:
    store = tmp_path / "copy"
    shutil.copytree(told[0], store)
    keys = {
        "GRAVELER_ACCESS_KEY_ID": "MYKEY",
        "GRAVELER_SECRET_ACCESS_KEY": "my-secret-of-at-least-32-characters",
    }
    assert run("demo", "--store", str(store), *ONCE, **keys).returncode == 0
    saved = administrator.read(store)
    assert saved is not ABSENT
    assert saved.credential == NewCredential("MYKEY", "my-secret-of-at-least-32-characters")


def _until(service: Service, words: str) -> list[str]:
    assert service.process.stdout is not None
    lines = []
    for line in service.process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} was never said: {lines}")
