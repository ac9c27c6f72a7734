"""Sandboxes of a function: its real runtime client, against what a function's service does to it.

    Function     what is deployed: a folder, a handler, limits, variables
    Sandbox      one process of it, one event at a time; started by the first event

The process is that of `python -m awslambdaric`, as in the managed runtime, with the packages of the
layer imported (tests/support/forked.py): it asks a server of this module for events and posts its
answers there.  The server keeps to the limits of the service: a request or
an answer of more than 6 MB is refused, a process that is late is killed, and so may the caller, at
any moment.  A process that has ended is replaced by the next event, so its folder of code and its
`/tmp` are all that a sandbox keeps.  For tests.
"""

import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

from tests.support.forked import FUNCTION, FunctionPopen

PAYLOAD_BYTES_MAX = 6 << 20
START_SECONDS = 300.0
_ARN = "arn:aws:lambda:us-east-1:000000000000:function:"


class FunctionFailed(Exception):
    """The function ran and failed, or could not be loaded: what it said of that."""


class PayloadTooLarge(Exception):
    """The event, or the answer, has more bytes than the service hands on."""


class SandboxLost(Exception):
    """The process was late or killed: nobody knows what it did."""


@dataclass(frozen=True)
class Function:
    """What is deployed."""

    folder: Path
    handler: str = "handler.handle"
    name: str = "function"
    variables: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 29.0
    log: Path = Path(os.devnull)


class _Event(NamedTuple):
    """One event on its way, and the place of its answer."""

    id: str
    body: bytes
    deadline_ms: int
    answer: "Future[bytes]"


class Sandbox:
    """One process of a function.  `invoke` is for one thread at a time, `kill` for any."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._life: _Life | None = None
        self.starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def invoke(self, event: Mapping[str, Any]) -> Any:
        """What the function answers.  `FunctionFailed`, `PayloadTooLarge`, `SandboxLost`."""
        body = json.dumps(event).encode()
        if len(body) > PAYLOAD_BYTES_MAX:
            raise PayloadTooLarge(f"event: bytes={len(body)}")
        return json.loads(self._alive().run(body))

    def start(self) -> None:
        """Start the process, if there is none, and wait until it asks for an event."""
        self._alive().wait_until_ready()

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        with self._lock:
            if self._life is not None:
                self._life.kill()

    def _alive(self) -> "_Life":
        with self._lock:
            if self._life is None or self._life.over:
                self._life = _Life(self._function)
                self.starts += 1
            return self._life


class _Life:
    """One life of a sandbox: a process, and the server that it alone talks to."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._events: SimpleQueue[_Event | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._running: _Event | None = None
        self._said = "killed"
        self.over = False
        self._server = _Server(self)
        serving = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        with function.log.open("ab") as log:
            self._child = FunctionPopen(
                [*FUNCTION, str(function.folder), function.handler],
                cwd=function.folder,
                env=_environment(function, self._server.server_port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        threading.Thread(target=self._watch, daemon=True).start()

    def run(self, body: bytes) -> bytes:
        """Hand one event over; its answer."""
        self.wait_until_ready()
        seconds = self._function.seconds
        deadline = int((time.time() + seconds) * 1000)
        event = _Event(str(uuid.uuid4()), body, deadline, Future())
        with self._lock:
            if self.over:
                raise SandboxLost(self._said)
            self._running = event
        self._events.put(event)
        try:
            return event.answer.result(seconds)
        except PayloadTooLarge:
            self.kill()  # its runtime client gives up over the refusal, sooner or later
            raise
        except NotInTime:
            self._said = f"timed out: {seconds=}"
            self.kill()
            raise SandboxLost(self._said) from None

    def wait_until_ready(self) -> None:
        """Wait for the first question of the runtime client: what init does is behind it."""
        if not self._ready.wait(START_SECONDS):
            self.kill()
            raise FunctionFailed(f"init: not ready after {START_SECONDS} seconds")
        if self.over and self._running is None:
            raise FunctionFailed(self._said) if "init" in self._said else SandboxLost(self._said)

    def kill(self) -> None:
        """End the process and see it ended."""
        self._child.kill()
        self._child.wait()
        self._end()

    # ---- what the server calls -------------------------------------------------------------------

    def next_event(self) -> _Event | None:
        """The next event, when there is one; None if there will be none."""
        self._ready.set()
        return self._events.get()

    def answered(self, event_id: str, body: bytes, failed: bool) -> int:
        """Take an answer; the status to say so with."""
        with self._lock:
            event = self._running
            if event is None or event.id != event_id:
                return 400
            self._running = None
        if failed:
            event.answer.set_exception(FunctionFailed(body.decode()))
        elif len(body) > PAYLOAD_BYTES_MAX:
            event.answer.set_exception(PayloadTooLarge(f"answer: bytes={len(body)}"))
            return 413
        else:
            event.answer.set_result(body)
        return 202

    def failed_to_start(self, body: bytes) -> None:
        """The handler could not be loaded."""
        self._said = "init: " + body.decode()

    # ---- its end ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._child.wait()
        self._end()

    def _end(self) -> None:
        with self._lock:
            if self.over:
                return
            self.over = True
            event, self._running = self._running, None
        if event is not None and not event.answer.done():
            event.answer.set_exception(SandboxLost(self._said))
        self._events.put(None)
        self._ready.set()
        self._server.shutdown()
        self._server.server_close()


def _environment(function: Function, port: int) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "LAMBDA_TASK_ROOT": str(function.folder),
        "TZ": ":UTC",
        "_HANDLER": function.handler,
        **function.variables,
    }


class _Server(ThreadingHTTPServer):
    """What the runtime client of one process talks to."""

    daemon_threads = True

    def __init__(self, life: _Life) -> None:
        self.life = life
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    """…/invocation/next, …/invocation/<id>/response, …/invocation/<id>/error, …/init/error"""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: "_Server"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # it was killed
            self.close_connection = True

    def do_GET(self) -> None:
        event = self.server.life.next_event()
        if event is None:
            self.close_connection = True
            return
        about = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": event.id,
            "Lambda-Runtime-Deadline-Ms": str(event.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": _ARN + "function",
            "Lambda-Runtime-Trace-Id": "Root=1-00000000-000000000000000000000000;Sampled=0",
        }
        self._send(200, about, event.body)

    def do_POST(self) -> None:
        body = self._body()
        *_, which, kind = self.path.split("/")
        status = 202
        if which == "init":
            self.server.life.failed_to_start(body)
        else:
            status = self.server.life.answered(which, body, kind == "error")
        self._send(status, {"Content-Type": "application/json"}, b'{"status":"OK"}')

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self._read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self._read_line(), 16):
            pieces.append(self._read(size))
            self._read_line()
        self._read_line()
        return b"".join(pieces)

    def _read(self, size: int) -> bytes:
        """All of it: who is killed in the middle of an answer has not answered."""
        body = self.rfile.read(size)
        if len(body) < size:
            raise ConnectionError(f"answer broke off: {len(body)} of {size} bytes")
        return body

    def _read_line(self) -> bytes:
        line = self.rfile.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("answer broke off")
        return line

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
