"""The real service as its own process: started, watched from outside, killed.  For tests only.

It listens on a free port and prints the address when it is ready; the caller waits for that line.
It gets no signals from the terminal, and ends with the process that started it, in any way.
"""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from graveler.api.operation import API_PREFIX

KEY, SECRET = "SOAKKEY", "a-secret-of-the-soak-and-of-tests-only"
_COMMAND = [
    sys.executable,
    "-c",
    "import sys; from simulator.soak.leash import end_with_stdin; end_with_stdin(); "
    "from graveler.cli.main import main; sys.exit(main())",
]
_READY = re.compile(r"http://([\d.]+):(\d+)")
_RESIDENT = re.compile(r"^(VmRSS|RssFile):\s+(\d+) kB$", re.MULTILINE)
_END_SECONDS = 300
_OURS = ("GRAVELER_", "LAKECTL_", "LAKEFS_")
WAIT_SECONDS = 300
GONE = (OSError, http.client.HTTPException)


def basic(key: str, secret: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{key}:{secret}".encode()).decode()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection with the credentials of one user.  If the service has ended, a call raises one
    of `GONE`."""

    def __init__(self, host: str, port: int, authorization: str) -> None:
        self._authorization = authorization
        self._connection = http.client.HTTPConnection(host, port, timeout=WAIT_SECONDS)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def send(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> HttpAnswer:
        """Send a request.  `path` is relative to the API; `body`: bytes are sent unchanged,
        anything else as JSON."""
        headers = {"Authorization": self._authorization}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        target = API_PREFIX + path + ("?" + urlencode(query) if query else "")
        try:
            self._connection.request(method, target, body, headers)
            answer = self._connection.getresponse()
            return HttpAnswer(answer.status, answer.read())
        except GONE:
            self._connection.close()
            raise


class Memory(NamedTuple):
    """The resident memory of a process, in bytes; `of_files`: the part that the system can read
    from files again, as that of code and of mapped tables."""

    resident: int
    of_files: int


@dataclass(frozen=True, slots=True)
class LiveService:
    """A process that serves a store."""

    process: subprocess.Popen[str]
    host: str
    port: int

    @property
    def authorization(self) -> str:
        return basic(KEY, SECRET)

    def client(self) -> Client:
        """A connection with the administrator's credentials."""
        return Client(self.host, self.port, self.authorization)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(_END_SECONDS)

    def memory(self) -> Memory:
        """Its memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        kib = {name: int(value) for name, value in _RESIDENT.findall(status)}
        return Memory(1024 * kib.get("VmRSS", 0), 1024 * kib.get("RssFile", 0))

    def open_files(self) -> int:
        """The number of its file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextmanager
def serving(store: Path, log: Path, prelude: str = "", port: int = 0) -> Iterator[LiveService]:
    """Run `graveler serve` on a port; 0: a free one.  Its stderr is appended to `log`.  It is
    killed at the end if it still runs.  The process first executes the statements of `prelude`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_OURS)
    } | {"GRAVELER_ACCESS_KEY_ID": KEY, "GRAVELER_SECRET_ACCESS_KEY": SECRET}
    arguments = ["serve", "--store", str(store), "--listen", f"127.0.0.1:{port}"]
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [*_COMMAND[:2], prelude + _COMMAND[2], *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield LiveService(process, *_address(process, log))
        finally:
            process.kill()


def _address(process: subprocess.Popen[str], log: Path) -> tuple[str, int]:
    assert process.stdout is not None
    for line in process.stdout:
        found = _READY.search(line)
        if found:
            return found[1], int(found[2])
    raise RuntimeError(f"the service did not start: {log.read_text()[-2_000:]}")


def verify(store: Path) -> str:
    """What `graveler verify` finds wrong with a store that no process serves; "" if nothing."""
    return command("verify", "--store", str(store), "--objects")


def command(*arguments: str, prelude: str = "") -> str:
    """Run a command of the product after the statements of `prelude`.

    Returns its output if it failed, else "".  The command ends with this process.
    """
    with subprocess.Popen(
        [*_COMMAND[:2], prelude + _COMMAND[2], *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        return "" if process.wait() == 0 else said[-2_000:] or f"exit code {process.returncode}"
