"""`make test` with stubs for the programs that it calls: what runs beside what, and how it ends."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("pip", "tools", "clients", "docs", "spark4", "spark3")
MYPY, TESTS = ".venv/bin/mypy", ".venv/bin/python"
SPARK3, SPARK4 = ".venv-spark3/bin/python", ".venv-spark4/bin/python"
PROGRAMS = {
    TESTS: "exit 0",
    MYPY: "exit 0",
    ".venv/bin/ruff": "exit 0",
    ".venv-docs/bin/sphinx-build": "exit 0",
    SPARK3: "echo 3 passed",
    SPARK4: "echo 4 passed",
}
STAY_SPARK3 = "touch spark3-began; exec sleep 600"
STAY_SPARK4 = "touch spark4-began; exec sleep 600"


def awaiting(*names: str) -> str:
    """A script that runs until programs have begun, and fails after a minute without them."""
    began = " ".join(f"-e {name}-began -a" for name in names)
    return (
        f"tries=0; until [ {began} -e . ]; do"
        " [ $tries -lt 600 ] || exit 7; tries=$((tries + 1)); sleep 0.1; done"
    )


def whole_run(folder: Path, programs: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`make test` in a checkout whose set-up is done, with these programs in place of its own."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("requirements", "scripts", "layers"):
        shutil.copytree(ROOT / name, folder / name)
    for name in (*(f".venv-{name}" for name in ENVIRONMENTS), ".venv", "build/layers"):
        (folder / name).mkdir(parents=True)
        (folder / name / ".ready").write_text(f"{folder}\n", encoding="utf-8")
    for name, script in {**PROGRAMS, **programs}.items():
        program = folder / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
    (folder / "scripts" / "page.sh").write_text("exit 0\n", encoding="utf-8")
    # TMPDIR: no test of this run needs a folder in memory.
    given = {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder)}
    return subprocess.run(
        ["make", "test"], cwd=folder, env=given, capture_output=True, text=True, timeout=300
    )


def test_it_ends_with_what_was_checked(tmp_path: Path) -> None:
    done = whole_run(tmp_path, {})
    assert done.returncode == 0, done.stderr
    assert "== passed: lint static\n" in done.stdout
    assert done.stdout.endswith(
        "== tests on PySpark 4\n4 passed\n== tests on PySpark 3\n3 passed\n== passed: all\n"
    )


def test_the_tests_on_spark_run_beside_the_static_checks(tmp_path: Path) -> None:
    done = whole_run(tmp_path, {SPARK4: "touch spark4-began", MYPY: awaiting("spark4")})
    assert done.returncode == 0, done.stderr


def test_a_failure_of_the_static_checks_stops_the_tests_on_spark(tmp_path: Path) -> None:
    failing = f"{awaiting('spark4')}; echo one mistake; exit 1"
    done = whole_run(tmp_path, {SPARK4: STAY_SPARK4, MYPY: failing})
    assert done.returncode != 0
    assert "one mistake" in done.stdout
    assert done.stdout.endswith("== tests on PySpark 4, stopped\n")
    assert "tests (pytest" not in done.stdout


def test_a_failure_of_the_tests_stops_both_tests_on_spark(tmp_path: Path) -> None:
    """The shell may lose a signal to a program that it is about to begin, so both have begun."""
    failing = f"case $* in *collect-only*) ;; *) {awaiting('spark3', 'spark4')}; exit 1 ;; esac"
    staying = {SPARK4: STAY_SPARK4, SPARK3: STAY_SPARK3}
    done = whole_run(tmp_path, {**staying, TESTS: failing})
    assert done.returncode != 0
    assert done.stdout.endswith("== tests on PySpark 4, stopped\n== tests on PySpark 3, stopped\n")
    assert "processes) failed" in done.stderr


def test_a_failure_on_spark_fails_the_run(tmp_path: Path) -> None:
    for version, program in (("4", SPARK4), ("3", SPARK3)):
        folder = tmp_path / version
        folder.mkdir()
        done = whole_run(folder, {program: "echo 1 failed; exit 1"})
        assert done.returncode != 0
        assert f"== tests on PySpark {version}\n1 failed\n" in done.stdout
        assert f"tests on PySpark {version} failed" in done.stderr
