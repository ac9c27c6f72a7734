"""Programs and packages of the environment of the clients: $GRAVELER_CLIENTS (its `bin`), else
`.venv-clients/bin` beside the checkout.  What is missing is an error, never a skipped test.
"""

import os
import pickle
import subprocess
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
CALLED = Path(__file__).with_name("called.py")


class ClientError(Exception):
    """What a client raised.  `kind`: its type and the types that this is derived from."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def program(name: str) -> str:
    """The path of a program of the clients."""
    folder = Path(os.environ.get("GRAVELER_CLIENTS") or ROOT / ".venv-clients" / "bin")
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"tests of S3 clients need {path}: run `make setup`")
    return str(path)


def surroundings(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a client: these and those of this process, but for what names another
    AWS, packages of another environment, or a proxy."""
    strange = ("AWS_", "RCLONE_", "PYTHON", "HTTP_", "HTTPS_", "ALL_")
    kept = {name: text for name, text in os.environ.items() if not name.upper().startswith(strange)}
    return {**kept, "NO_PROXY": "127.0.0.1", **variables}


def run(name: str, *arguments: str, variables: Mapping[str, str], given: bytes = b"") -> bytes:
    """Run a program of the clients to its end: what it prints.  Raises `ClientError` with its exit
    status and its errors if it fails."""
    done = subprocess.run(
        [program(name), *arguments],
        input=given,
        env=surroundings(variables),
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    if done.returncode:
        raise ClientError(str(done.returncode), done.stderr.decode(errors="replace"))
    return done.stdout


@dataclass(frozen=True)
class Elsewhere:
    """A running process, which calls what it is told."""

    process: subprocess.Popen[bytes]

    def __call__(self, target: str, *arguments: Any, **named: Any) -> Any:
        """Call `module:name`, or `@kept.name`: what it returns.  Raises `ClientError`."""
        return self._ask((target, arguments, named, ""))

    def keep(self, name: str, target: str, *arguments: Any, **named: Any) -> None:
        """Call likewise, and keep there what it returns, as `@name`."""
        self._ask((target, arguments, named, name))

    def _ask(self, request: tuple[Any, ...]) -> Any:
        assert self.process.stdin and self.process.stdout
        pickle.dump(request, self.process.stdin)
        self.process.stdin.flush()
        watch = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        watch.start()
        try:
            value, error = pickle.load(self.process.stdout)
        finally:
            watch.cancel()
        if error:
            raise ClientError(*error)
        return value


@contextmanager
def elsewhere(variables: Mapping[str, str]) -> Iterator[Elsewhere]:
    """A process in the environment of the clients until the block ends.  It has pandas, PyArrow
    and Polars of this environment."""
    command = [program("python"), str(CALLED), sysconfig.get_path("purelib")]
    pipe, variables = subprocess.PIPE, surroundings(variables)
    with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe) as process:
        yield Elsewhere(process)
