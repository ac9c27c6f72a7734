"""The commands of a set-up: their order, and what `make clean` and git leave out."""

import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


GOALS = ("setup", "first", "static", "rest", "check", "clean")


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, list[str]]:
    """What `make` would run for each goal in a fresh checkout."""
    _check_out(tmp_path)
    return {goal: _dry(tmp_path, goal) for goal in GOALS}


def _check_out(folder: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("requirements", "scripts", "layers"):
        shutil.copytree(ROOT / name, folder / name)


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
    assert set(made) == set(_environments(commands["rest"]))


def test_the_tests_on_spark_begin_after_three_environments(commands: dict[str, list[str]]) -> None:
    made = _environments(commands["first"])
    assert made[0] == ".venv-pip"
    assert set(made[1:]) == {".venv", ".venv-tools", ".venv-spark4"}


def test_an_environment_of_another_place_is_made_anew_alone(tmp_path: Path) -> None:
    """The other one of Spark is in use when the rest is made."""
    _check_out(tmp_path)
    names = (".venv-pip", ".venv", ".venv-tools", ".venv-clients", ".venv-docs", ".venv-spark4")
    for name in (*names, ".venv-spark3"):
        stamp = tmp_path / name / ".ready"
        stamp.parent.mkdir()
        stamp.write_text(f"{tmp_path if name in names else '/elsewhere'}\n", encoding="utf-8")
    assert _environments(_dry(tmp_path, "rest")) == [".venv-spark3"]


def test_a_check_makes_one_environment(commands: dict[str, list[str]]) -> None:
    assert _environments(commands["check"]) == [".venv-pip", ".venv"]


def test_static_checks_need_the_first_environment_alone(commands: dict[str, list[str]]) -> None:
    """Style, types, and the collection of the tests."""
    assert _environments(commands["static"]) == [".venv-pip", ".venv"]
    [checked] = [line for line in commands["static"] if "checks.sh" in line]
    assert checked.endswith(" lint static")
    assert checked in commands["rest"]


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
