"""The console script as its users run it: as a process of its own.

A service listens on a free port and says which when it is ready; that line is what is waited for.
A test of clients alone needs no process: `at_hand` serves the same in this one.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from graveler.auth.credentials import NewCredential
from graveler.cli.support import administrator
from graveler.gateway.route import s3_route
from tests.api.serving import Served, served
from tests.support.forked import COMMAND, Popen
from tests.waiting import PATIENCE_SECONDS

KEY, SECRET = "TESTKEY", "a-secret-of-tests-and-of-nothing-else"
WAIT_SECONDS = PATIENCE_SECONDS
_READY = re.compile(r"(https?://\S+)")


def environment(credentials: tuple[str, str] | None = (KEY, SECRET)) -> dict[str, str]:
    """That of the tests without what the commands or clients would look at."""
    mine = ("GRAVELER_", "LAKECTL_", "LAKEFS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    if credentials is not None:
        kept["GRAVELER_ACCESS_KEY_ID"], kept["GRAVELER_SECRET_ACCESS_KEY"] = credentials
    return kept


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    with Popen(
        [*COMMAND, *arguments],
        env=environment(None) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=WAIT_SECONDS)
        finally:
            process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@dataclass
class Service:
    """A process that serves.  `log`: the file that is its stderr; a pipe that nobody reads would
    stop it once it is full."""

    process: subprocess.Popen[str]
    url: str
    log: IO[bytes]

    def said(self) -> str:
        """What it has written to its stderr so far."""
        return _text(self.log)

    def client(self, credentials: tuple[str, str] = (KEY, SECRET)) -> httpx.Client:
        return connected(self.url, credentials)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal and wait: exit code, what else it printed, and its stderr."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        """Wait, without a signal, for the end of a process that has got one: a second signal may
        come after the process has given its handlers back, and would kill it."""
        out, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, out, self.said()


@contextmanager
def started(
    *arguments: str,
    credentials: tuple[str, str] | None = (KEY, SECRET),
    prelude: str = "",
    variables: Mapping[str, str] = {},
) -> Iterator[Service]:
    """`graveler ARGUMENTS`, ready; killed at the end if it still runs.  The process first runs the
    statements of `prelude`."""
    with (
        tempfile.TemporaryFile() as log,
        Popen(
            [*COMMAND[:2], prelude + COMMAND[2], *arguments],
            env=environment(credentials) | dict(variables),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            yield Service(process, _url(process, log), log)
        finally:
            process.kill()


@contextmanager
def serving(
    store: Path,
    *more: str,
    credentials: tuple[str, str] | None = (KEY, SECRET),
    prelude: str = "",
    variables: Mapping[str, str] = {},
) -> Iterator[Service]:
    """`graveler serve` on a free port."""
    arguments = ("serve", "--store", str(store), "--listen", "127.0.0.1:0", *more)
    with started(
        *arguments, credentials=credentials, prelude=prelude, variables=variables
    ) as service:
        yield service


@contextmanager
def at_hand(
    store: Path,
    credentials: tuple[str, str] = (KEY, SECRET),
    *,
    import_roots: Sequence[Path] = (),
) -> Iterator[Served]:
    """The store and the routes of `graveler serve`, with these credentials, in this process.  There
    are no sweepers, and the limits of logins are others than those of the command."""
    with served(
        store,
        administrator=False,
        import_roots=import_roots,
        further=lambda service: s3_route(service, (), signature_v2=False),
    ) as live:
        administrator.ensure(live.embedded, NewCredential(*credentials))
        yield live


def connected(url: str, credentials: tuple[str, str] = (KEY, SECRET)) -> httpx.Client:
    """A client of the API at `url`."""
    return httpx.Client(base_url=f"{url}/api/v1", auth=credentials, timeout=WAIT_SECONDS)


def _url(process: subprocess.Popen[str], log: IO[bytes]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        found = _READY.search(line)
        if found:
            return found[1]
    raise AssertionError(f"the service did not start: {_text(log)}")


def _text(file: IO[bytes]) -> str:
    """What is in a file; the process that writes it goes on where it is."""
    number = file.fileno()
    return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")


def repository(client: httpx.Client, name: str = "lake") -> str:
    """A new repository; the path of its branch `main`."""
    body = {"name": name, "storage_namespace": f"local://{name}/"}
    client.post("/repositories", json=body).raise_for_status()
    return f"/repositories/{name}/branches/main"
