"""How long commands take to start, beside the start of Python itself.

    help            `graveler --help`, until the process has ended
    first request   `graveler branch list`, until its first request has arrived at a server
    completion      of a ref, as bash asks for it: until the process has ended (two requests)

The server is a thread of this process that answers at once.  The user has a profile, as `graveler
login` makes it.  The commands and `python -c pass` run in turn, and each time is a median.  Run:
python -m benchmarks.starts
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks import commands
from benchmarks.commands import PROGRAM, ended
from graveler.lake import profiles
from graveler.lake.profiles import Profile, Profiles

HELP_GOAL_MS, REQUEST_GOAL_MS, COMPLETION_GOAL_MS = 80.0, 150.0, 150.0
Line = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """How often each command runs."""

    runs: int = 21


FULL, QUICK = Scale(), Scale(runs=7)


@dataclass
class Arrivals:
    """A server, and when its requests arrived."""

    url: str = ""
    times: list[float] = field(default_factory=list)


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as home, answering() as server:
        variables = environment(Path(home), server.url)
        program = [sys.executable, "-c", PROGRAM]
        words = {"COMP_WORDS": "graveler branch show lake/m", "COMP_CWORD": "3"}
        asked = {**variables, **words, "_GRAVELER_COMPLETE": "bash_complete"}
        times: dict[str, list[float]] = {"python": [], "help": [], "request": [], "completion": []}
        for run in range(scale.runs + 1):
            seconds = {
                "python": ended([sys.executable, "-c", "pass"], variables),
                "help": ended([*program, "--help"], variables),
                "request": _asked(server, [*program, "branch", "list", "lake"], variables),
                "completion": ended(program, asked, shows="lake/main"),
            }
            for name, taken in seconds.items() if run else ():  # the first run writes bytecode
                times[name].append(taken * 1000)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return [
        _line("`python -c pass`", medians["python"]),
        _line("`graveler --help`", medians["help"], HELP_GOAL_MS),
        _line("`graveler branch list`, to its first request", medians["request"], REQUEST_GOAL_MS),
        _line("completion of a ref in bash", medians["completion"], COMPLETION_GOAL_MS),
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


def environment(home: Path, url: str) -> dict[str, str]:
    """The variables of a user who has signed in to a server."""
    variables = commands.variables(home)
    profile = Profile("bench", url, "KEY", "secret of the benchmark, of nothing else")
    profiles.write(Profiles("bench", {"bench": profile}), variables)
    return variables


def _asked(server: Arrivals, command: list[str], variables: dict[str, str]) -> float:
    """The seconds until the first request of the command arrives."""
    server.times.clear()
    begun = time.perf_counter()
    ended(command, variables, shows="main")
    return server.times[0] - begun


def _line(name: str, milliseconds: float, goal: float = 0.0) -> Line:
    line: Line = {"name": name, "value": round(milliseconds, 1), "unit": "ms"}
    if goal:
        line |= {"goal": goal, "held": milliseconds <= goal}
    return line


def main() -> int:
    """Measure, and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description="measures how fast commands start")
    parser.add_argument("--runs", type=int, default=FULL.runs)
    for line in measure(Scale(parser.parse_args().runs)):
        print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
