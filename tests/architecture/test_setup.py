"""The commands of a set-up: their order, and what `make clean` and git leave out."""

import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, list[str]]:
    """What `make setup`, `make test` and `make check` would run in a fresh checkout."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("requirements", "scripts", "layers"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return {goal: _dry(tmp_path, goal) for goal in ("setup", "test", "check", "clean")}


def _dry(folder: Path, goal: str) -> list[str]:
    words = ["make", "--dry-run", "--jobs=1", goal]
    # What a `make` around the tests has set is not about this one.
    done = subprocess.run(
        words, cwd=folder, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _environments(lines: list[str]) -> list[str]:
    return re.findall(r"scripts/setup\.sh (\S+)", "\n".join(lines))


def test_the_pip_of_all_environments_is_made_first(commands: dict[str, list[str]]) -> None:
    made = _environments(commands["setup"])
    assert made[:2] == [".venv-pip", ".venv"] and len(made) == len(set(made)) == 7
    assert sorted(made) == sorted(_environments(commands["test"]))


def test_a_check_makes_one_environment(commands: dict[str, list[str]]) -> None:
    assert _environments(commands["check"]) == [".venv-pip", ".venv"]


def test_static_checks_need_the_first_environment_alone(commands: dict[str, list[str]]) -> None:
    """Style, types, and the collection of the tests."""
    lines = commands["test"]
    [checked] = [at for at, line in enumerate(lines) if line.endswith(" lint static")]
    assert _environments(lines[:checked]) == [".venv-pip", ".venv"]
    assert lines[-1].endswith(" all")


def test_an_environment_of_spark_counts_when_its_java_is_there(
    commands: dict[str, list[str]],
) -> None:
    """An interrupted set-up begins such an environment again."""
    lines = commands["setup"]
    for name in (".venv-spark3", ".venv-spark4"):
        [made] = [at for at, line in enumerate(lines) if f"setup.sh {name} " in line]
        assert "UNFINISHED=1" in lines[made]
        assert lines.index(f"sh scripts/java.sh {name}") < lines.index(f"pwd >{name}/.ready")


def test_what_a_set_up_makes_is_removed_and_ignored(commands: dict[str, list[str]]) -> None:
    removed = " ".join(commands["clean"]).split()
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    for name in _environments(commands["setup"]):
        assert name in removed
        assert any(fnmatch(f"/{name}", pattern) for pattern in ignored)  # a folder or a link
