"""Processes on this machine that stand for AWS: started on free ports, ended with their tests, also
if these are killed.

    ministack   every service in one process; the engine of most tests
    moto        behind one lock, since its own writes race; a second opinion on a quick subset
    dynalite    DynamoDB by other hands; only where GRAVELER_DYNALITE names the program

Programs come from the tools environment: $GRAVELER_TOOLS (its `bin`), else `.venv-tools/bin` beside
the checkout.  What is missing is an error, never a skipped test.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
LEASH = ROOT / "simulator" / "soak" / "leash.py"
START_SECONDS = PATIENCE_SECONDS


def tool(name: str) -> str:
    """The path of a program of the tools environment."""
    folder = Path(os.environ.get("GRAVELER_TOOLS") or ROOT / ".venv-tools" / "bin")
    program = folder / name
    if not program.exists():
        raise FileNotFoundError(f"tests on AWS need {program}: `make setup`, or set GRAVELER_TOOLS")
    return str(program)


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def ministack(variables: Mapping[str, str] | None = None, port: int = 0) -> Iterator[str]:
    """The URL of a fresh ministack, on any free port unless one is named; `variables` are added to
    its environment."""
    port = port or free_port()
    settings = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "ERROR",
        **(variables or {}),
    }
    with _running([tool("ministack")], port, settings) as url:
        yield url


@contextmanager
def locked_moto() -> Iterator[str]:
    """The URL of a moto that answers one request after the other."""
    port = free_port()
    program = [tool("python"), str(ROOT / "tests" / "aws" / "locked_moto.py"), str(port)]
    with _running(program, port, {}) as url:
        yield url


@contextmanager
def dynalite() -> Iterator[str]:
    """The URL of the dynalite that GRAVELER_DYNALITE names."""
    port = free_port()
    program = [os.environ["GRAVELER_DYNALITE"], "--port", str(port), "--createTableMs", "0"]
    with _running(program, port, {}) as url:
        yield url


@contextmanager
def _running(program: Sequence[str], port: int, variables: Mapping[str, str]) -> Iterator[str]:
    quiet = subprocess.DEVNULL
    environment = {**os.environ, **variables}
    # A run of tests that is killed leaves no engine behind.
    leashed = [sys.executable, "-I", "-S", str(LEASH), *program]
    pipe = subprocess.PIPE
    process = subprocess.Popen(leashed, env=environment, stdin=pipe, stdout=quiet, stderr=quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url)
        yield url
    finally:
        assert process.stdin is not None
        process.stdin.close()  # the leash kills the engine
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"engine ended at once: {process.args!r} code={process.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError as answered:
            answered.close()
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"engine does not answer: {process.args!r} {url=}")
