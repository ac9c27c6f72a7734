"""Where the data source makes its plans: in the driver, which has the credentials.

    planning worker ── question: options ──► socket in a private folder ──► driver: asks the API
                    ◄── answer: names and pieces of work ──────────────────┘
Spark sends what asks to executors, so it holds only names.  Without a lake of the driver, a
planning worker asks the API itself, with the credentials that `graveler.connect` finds there.
"""

import atexit
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread
from typing import Any, Final

from pyspark.serializers import CloudPickleSerializer

from graveler.core import errors
from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, Internal, Invalid
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, environment
from graveler.lake.lake import connect as lake_of
from graveler.lake.session import Session, connect
from graveler.spark.lake import Lake
from graveler.spark.places import prepare_worker

Question = Mapping[str, Any]
Answering = Callable[[Lake, Question], Any]
_PREFIX: Final = "graveler-plans-"
_SWEEP_SECONDS: Final = 0.1
_YOUNG_NS: Final = 60 * 1_000_000_000  # a driver that starts may not answer yet
_LENGTH: Final = 8  # bytes before an answer: its length, so that a truncated one is noticed


@dataclass(frozen=True, slots=True)
class Planner:
    """Where plans are made.  It goes to the executors, so it holds no secret.  `socket`: of the
    driver; `url`, `store`: of the lake, as in `Lake`."""

    socket: str
    url: str
    store: str

    def ask(self, question: Question, answering: Answering) -> Any:
        """The driver's answer.  On another machine than the driver's, `answering` is called here,
        with the credentials of the environment.  Errors: those of the answer; `Invalid` if there
        are no credentials; `Internal` if the driver fails (its traceback is on its standard
        error)."""
        with socket.socket(socket.AF_UNIX) as way:
            try:
                way.connect(self.socket)
            except (FileNotFoundError, ConnectionRefusedError):
                return answering(self._elsewhere(), question)
            way.sendall(json.dumps(question).encode())
            way.shutdown(socket.SHUT_WR)
            with way.makefile("rb") as answer:
                length = int.from_bytes(answer.read(_LENGTH), "big")
                body = answer.read()
        if not length or len(body) != length:
            raise Internal("the driver could not plan this read: see its standard error")
        kind, value = CloudPickleSerializer().loads(body)
        _prepare_once()
        if kind:
            raise getattr(errors, kind)(value)
        return value

    def _elsewhere(self) -> Lake:
        variables = environment()
        key, secret = variables.get(KEY_VARIABLE, ""), variables.get(SECRET_VARIABLE, "")
        if not key or not secret:
            raise Invalid(
                "the driver is on another machine, and it never sends credentials: set "
                f"{KEY_VARIABLE} and {SECRET_VARIABLE} for the server of Spark Connect"
            )
        return Lake(None, connect(self.url, key, secret), self.store)


@lru_cache(maxsize=64)
def planner_of(session: Session, store: str, answering: Answering) -> Planner:
    """Answer questions about a lake in this process until it ends.  Only the user of this process
    may open the socket."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    where = str(folder / "socket")
    server = _Server(where, Lake(None, session, store), answering)
    Thread(target=server.serve_forever, name="graveler-plans", daemon=True).start()
    return Planner(where, session.url, store)


def _sweep() -> None:
    """Remove the folders of this user's drivers that were killed: nobody answers there."""
    young = SystemClock().now_ns() - _YOUNG_NS
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as way:
            about = folder.stat()
            if about.st_uid != os.getuid() or about.st_mtime_ns > young:
                continue
            way.settimeout(_SWEEP_SECONDS)  # a driver that was stopped does not accept
            try:
                way.connect(str(folder / "socket"))
            except ConnectionRefusedError:
                shutil.rmtree(folder, ignore_errors=True)


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, where: str, lake: Lake, answering: Answering) -> None:
        super().__init__(where, _Handler)
        self.lake = lake
        self.answering = answering


class _Handler(StreamRequestHandler):
    """One question and its answer.  An error that is not a `GravelerError` closes the
    connection."""

    server: _Server

    def handle(self) -> None:
        asked = self.rfile.read()
        if not asked:  # another driver looked whether this one lives
            return
        question = json.loads(asked)
        try:
            answer = "", self.server.answering(self.server.lake, question)
        except GravelerError as error:
            answer = type(error).__name__, str(error)
        body = CloudPickleSerializer().dumps(answer)
        self.wfile.write(len(body).to_bytes(_LENGTH, "big") + body)


@dataclass(frozen=True, slots=True)
class OwnPlanner:
    """Plans are made where they are asked for, with the lake of `graveler.connect`: its URL and its
    profile, if they are given.  `store`: as in `Lake`."""

    url: str = ""
    profile: str = ""
    store: str = ""

    def ask(self, question: Question, answering: Answering) -> Any:
        """The answer.  Errors: its own; `Invalid`, `Unauthenticated` if no server or no credentials
        are known."""
        session = lake_of(self.url, profile=self.profile).session
        answer = answering(Lake(None, session, self.store), question)
        _prepare_once()
        return answer


@lru_cache(maxsize=1)
def _prepare_once() -> None:
    """Of a stream, one worker plans all batches: let it read archives once, and keep what it has
    imported out of the collection that Spark does after each."""
    prepare_worker()
