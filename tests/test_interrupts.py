"""Tests of Ctrl-C run also where SIGINT is ignored."""

import signal
import subprocess
import sys
from pathlib import Path


def test_tests_that_are_started_with_interrupts_ignored_can_be_interrupted() -> None:
    """As a shell script starts its background jobs."""
    code = "import signal, tests.conftest as _; print(signal.getsignal(signal.SIGINT).__name__)"
    script = f'trap "" INT; exec {sys.executable} -c "$1"'
    run = subprocess.run(
        ["/bin/sh", "-c", script, "sh", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == f"{signal.default_int_handler.__name__}\n"
