"""The command line: how long its commands take to start, and `local status` of a large folder.

    help            `graveler --help`, until the process has ended
    first request   `graveler branch list`, until its first request has arrived at a server
    completion      of a ref, as bash asks for it: until the process has ended (two requests)
    local status    of a linked folder in which nothing changed; the first one, which reads the
                    listing and the files, is not measured

The commands that start run in turn with `python -c pass`, against a server that answers at once;
their user has a profile, as `graveler login` makes it.  A time begins with its process, and a line
is a median.  Run: python -m benchmarks.commands
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from benchmarks import served, single
from benchmarks.load import Target
from benchmarks.single import Line
from graveler.lake import profiles
from graveler.lake.profiles import Profile, Profiles

HELP_GOAL_MS, REQUEST_GOAL_MS, COMPLETION_GOAL_MS = 80.0, 150.0, 150.0
STATUS_GOAL_SECONDS: Final = 2.0
_PROGRAM: Final = "import sys; from graveler.cli.entry import main; sys.exit(main())"
_SECONDS_MAX: Final = 600
_FOLDER_FILES: Final = 100


@dataclass(frozen=True)
class Scale:
    """How often each command starts; the files of the linked folder, and how often its status is
    asked for."""

    runs: int = 21
    files: int = 100_000
    looks: int = 7


FULL, QUICK = Scale(), Scale(7, 10_000, 3)


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    return [*starts(scale), *status(scale)]


# ---- commands as a user runs them ----------------------------------------------------------------


def variables(home: Path) -> dict[str, str]:
    """The variables of a user with this home, who uses this checkout."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(single.ROOT),
        "TERM": "dumb",
    }


def ended(
    command: list[str], variables: dict[str, str], *, said: str = "", shows: str = ""
) -> float:
    """The seconds until the command has ended.  `said`: its input.  Raises `RuntimeError` if it
    fails, or does not print `shows`."""
    begun = time.perf_counter()
    ran = subprocess.run(
        command,
        env=variables,
        input=said,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    seconds = time.perf_counter() - begun
    if ran.returncode or shows not in ran.stdout:
        raise RuntimeError(f"the command failed: {command} {ran.stdout} {ran.stderr}")
    return seconds


class Command:
    """Calls `graveler` as a user of a server; a call returns its seconds."""

    def __init__(self, target: Target, home: Path) -> None:
        self._variables = {
            **variables(home),
            "LAKECTL_SERVER_ENDPOINT_URL": f"http://{target.host}:{target.port}",
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": target.key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": target.secret,
        }

    def __call__(self, *words: str) -> float:
        return ended([sys.executable, "-c", _PROGRAM, *words], self._variables)


# ---- starts --------------------------------------------------------------------------------------


@dataclass
class Arrivals:
    """A server, and when its requests arrived."""

    url: str = ""
    times: list[float] = field(default_factory=list)


def starts(scale: Scale) -> list[Line]:
    """Milliseconds of commands that do little, and of Python itself."""
    with tempfile.TemporaryDirectory() as home, answering() as server:
        mine = variables(Path(home))
        profile = Profile("bench", server.url, "KEY", "secret of the benchmark, of nothing else")
        profiles.write(Profiles("bench", {"bench": profile}), mine)
        program = [sys.executable, "-c", _PROGRAM]
        words = {"COMP_WORDS": "graveler branch show lake/m", "COMP_CWORD": "3"}
        asked = {**mine, **words, "_GRAVELER_COMPLETE": "bash_complete"}
        times: dict[str, list[float]] = {"python": [], "help": [], "request": [], "completion": []}
        for run in range(scale.runs + 1):
            seconds = {
                "python": ended([sys.executable, "-c", "pass"], mine),
                "help": ended([*program, "--help"], mine),
                "request": _asked(server, [*program, "branch", "list", "lake"], mine),
                "completion": ended(program, asked, shows="lake/main"),
            }
            for name, taken in seconds.items() if run else ():  # the first run writes bytecode
                times[name].append(taken * 1000)
    ms = {name: round(statistics.median(taken), 1) for name, taken in times.items()}
    shown = "`graveler branch list`, to its first request"
    return [
        single.line("`python -c pass`", ms["python"], "ms"),
        single.line("`graveler --help`", ms["help"], "ms", most=HELP_GOAL_MS),
        single.line(shown, ms["request"], "ms", most=REQUEST_GOAL_MS),
        single.line("completion of a ref in bash", ms["completion"], "ms", most=COMPLETION_GOAL_MS),
    ]


@contextmanager
def answering() -> Iterator[Arrivals]:
    """Serve one repository with the branch `main` until the block ends."""
    arrivals = Arrivals()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            arrivals.times.append(time.perf_counter())
            rows = [{"id": "main", "commit_id": "c" * 64}] if "/branches" in self.path else []
            page = {"has_more": False, "next_offset": "", "results": len(rows), "max_per_page": 1}
            body = json.dumps({"pagination": page, "results": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    arrivals.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield arrivals
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _asked(server: Arrivals, command: list[str], variables: dict[str, str]) -> float:
    """The seconds until the first request of the command arrives."""
    server.times.clear()
    begun = time.perf_counter()
    ended(command, variables, shows="main")
    return server.times[0] - begun


# ---- a linked folder -----------------------------------------------------------------------------


def status(scale: Scale) -> list[Line]:
    """Seconds of `local status`."""
    with tempfile.TemporaryDirectory() as name, served.prepared(Path(name)) as (target, _):
        run = Command(target, Path(name))
        place, branch = str(_filled(Path(name) / "data", scale.files)), f"{served.REPO}/main"
        run("upload", "-r", place, f"{branch}/data/")
        run("commit", branch, "-m", "Add the files")
        run("local", "init", f"{branch}/data/", place, "--no-gitignore")
        times = [run("local", "status", place) for _ in range(scale.looks + 1)][1:]
    what = f"`local status`, {scale.files:,} files, nothing changed"
    median = statistics.median(times)
    return [
        single.line(f"{what}: median", median, "s", most=STATUS_GOAL_SECONDS),
        single.line(f"{what}: slowest", max(times), "s"),
    ]


def _filled(folder: Path, count: int) -> Path:
    """Write the files, each with a content of its own."""
    for number in range(count):
        place = folder / f"{number // _FOLDER_FILES:04}"
        if number % _FOLDER_FILES == 0:
            place.mkdir(parents=True)
        (place / f"{number:06}.csv").write_text(f"{number}\n")
    return folder


if __name__ == "__main__":
    single.print_lines("commands", __doc__, measure, QUICK, FULL)
