"""`graveler local status` of a linked folder in which nothing changed.

The folder is filled, uploaded, committed and linked.  The first status reads the listing and the
files; it is not measured.  The time of a command begins with its process.  Run: python -m
benchmarks.folders
"""

import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import commands, served, single
from benchmarks.commands import PROGRAM, ended

GOAL_SECONDS: Final = 2.0
_FOLDER_FILES: Final = 100
Line = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """The number of files, and how often the status is asked for."""

    files: int = 100_000
    runs: int = 7


FULL, QUICK = Scale(), Scale(files=10_000, runs=3)


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "served").mkdir()
        with served.serving(folder / "served") as (target, _):
            served.prepare(target)
            variables = {
                **commands.variables(folder),
                "LAKECTL_SERVER_ENDPOINT_URL": f"http://{target.host}:{target.port}",
                "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": target.key,
                "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": target.secret,
            }

            def run(*words: str) -> float:
                return ended([sys.executable, "-c", PROGRAM, *words], variables)

            place, branch = str(_filled(folder / "data", scale.files)), f"{served.REPO}/main"
            run("upload", "-r", place, f"{branch}/data/")
            run("commit", branch, "-m", "Add the files")
            run("local", "init", f"{branch}/data/", place, "--no-gitignore")
            times = [run("local", "status", place) for _ in range(scale.runs + 1)][1:]
    return [
        _line(scale.files, "median", statistics.median(times), GOAL_SECONDS),
        _line(scale.files, "slowest", max(times)),
    ]


def _filled(folder: Path, count: int) -> Path:
    """Write the files, each with a content of its own."""
    for number in range(count):
        place = folder / f"{number // _FOLDER_FILES:04}"
        if number % _FOLDER_FILES == 0:
            place.mkdir(parents=True)
        (place / f"{number:06}.csv").write_text(f"{number}\n")
    return folder


def _line(files: int, which: str, seconds: float, goal: float = 0.0) -> Line:
    name = f"`local status`, {files:,} files, nothing changed: {which}"
    line: Line = {"name": name, "value": round(seconds, 2), "unit": "s"}
    return line | ({"goal": f"≤ {goal:g}", "held": seconds <= goal} if goal else {})


if __name__ == "__main__":
    single.print_lines("folders", __doc__, measure, QUICK, FULL)
