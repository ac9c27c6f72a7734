"""`graveler.open`: a store in this process.  Its verbs are those of a server, without sockets.

    Lake ─► Session ─► InProcess.send ─► the application, on the loop of one thread ─► the store

The process that has a store open is the only one; whoever opened it may do everything in it.
"""

import asyncio
import getpass
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, NoReturn, cast
from urllib.parse import unquote, urlsplit

from graveler.api.app import Graveler
from graveler.api.local import served
from graveler.app import AppOptions, open_service
from graveler.assembly.embedded import open_embedded
from graveler.auth.access import Caller
from graveler.auth.authenticator import Authenticator
from graveler.auth.entities import User
from graveler.auth.permissions import ACTIONS
from graveler.auth.policies import Rights
from graveler.block.adapter import FileChunks
from graveler.core.errors import Conflict, GravelerError, OutcomeUnknown, Unavailable
from graveler.lake.connections import READ, Connections, Pieces, Request, Response
from graveler.lake.lake import Lake
from graveler.lake.session import Session

_HOST: Final = "embedded"
_URL: Final = f"http://{_HOST}/api/v1"
_PIECES_AHEAD: Final = 4
_EARLY: Final = "the answer ended early; the log says why"
_START_SECONDS: Final = 120.0
_ONLY_HERE: Final = "serve it (graveler serve), and connect from both"
_FORKED: Final = f"the process that this one was forked from has the store open: {_ONLY_HERE}"


class EmbeddedLake(Lake):
    """A lake in this process.  Close it, or use it in a `with` block."""

    def __init__(self, folder: Path, import_roots: frozenset[Path]) -> None:
        with ExitStack() as stack:
            super().__init__(_opened(folder, import_roots, stack))
            self._stack = stack.pop_all()
        self.folder, self._import_roots, self._process = folder, import_roots, os.getpid()
        self._users = 0

    def _used(self, import_roots: frozenset[Path]) -> "EmbeddedLake":
        if not import_roots <= self._import_roots:
            raise Conflict(
                f"this process has the store open without these import_roots: {self.folder}",
                remedy="close it first",
            )
        self._users += 1
        return self

    @property
    def url(self) -> str:
        """The folder of the store."""
        return str(self.folder)

    def close(self) -> None:
        """End what runs, and close the store, so that another process can open it.  A store that
        this process opened twice closes with the second call.  A forked process closes nothing: the
        store is that of its parent."""
        with _lock:
            if self._process != os.getpid():
                return
            self._users -= 1
            if self._users == 0:
                _lakes.pop(self.folder.resolve(), None)
                self._stack.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"only this process has the store open: {_ONLY_HERE}")


# The stores that this process has open, by their folders.
_lakes: dict[Path, EmbeddedLake] = {}
_lock: Final = threading.Lock()


def opened(
    folder: str | os.PathLike[str], import_roots: Sequence[str | os.PathLike[str]]
) -> EmbeddedLake:
    """See `graveler.open`."""
    place = Path(folder).absolute()
    roots = frozenset(Path(each).absolute() for each in import_roots)
    with _lock:
        key = place.resolve()
        lake = _lakes.get(key)
        if lake is None or lake._process != os.getpid():
            lake = _lakes[key] = EmbeddedLake(place, roots)
        return lake._used(roots)


def _opened(place: Path, import_roots: Iterable[Path], stack: ExitStack) -> Session:
    """Open a store, which `stack` closes: the session that speaks to it."""
    logging.getLogger("graveler").addHandler(logging.NullHandler())  # a library prints nothing
    store = open_embedded(place, import_roots=tuple(import_roots))
    stack.callback(store.close)
    service = stack.enter_context(open_service(store, place, AppOptions()))
    owned = replace(service, auth=cast(Authenticator, _Owner(service.auth)))
    loop = _Loop(served(owned))
    stack.callback(loop.stop)
    return Session(_URL, _HOST, _HOST, connections=_InProcess(loop))


class _Owner:
    """The authenticator of a process that has the store: every request is its owner's."""

    def __init__(self, auth: Authenticator) -> None:
        self._auth = auth
        name = "owner"
        with suppress(OSError, KeyError):
            name = getpass.getuser()
        user = User(name, name, auth.keeper.clock.now_ns())
        self._caller = Caller(user, Rights(everywhere=frozenset(ACTIONS)), str)

    def identify(self, *_: object, **__: object) -> Caller:
        """The owner."""
        return self._caller

    standing_for = identify

    def __getattr__(self, name: str) -> Any:
        return getattr(self._auth, name)


# ---- the application -----------------------------------------------------------------------------


class _Loop:
    """An application on an event loop of its own thread, from its start to its stop."""

    def __init__(self, application: Graveler) -> None:
        self.application = application
        self.loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._ends = False  # no request begins any more
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="graveler-embedded", daemon=True)
        self._thread.start()
        self._started.result(_START_SECONDS)

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            else:
                raise
        finally:
            self.loop.close()

    async def _live(self) -> None:
        async with self.application.router.lifespan_context(self.application):
            self._started.set_result(None)
            await self._stopping.wait()
            with self._lock:
                self._ends = True
            await asyncio.sleep(0)  # what has begun gets its task
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self, request: Request) -> "_Exchange":
        """Begin a request.  Raises `Unavailable`."""
        if self._process != os.getpid():
            raise Unavailable(_FORKED)
        exchange = _Exchange(self.loop, request)
        with self._lock:
            if self._ends:
                raise Unavailable("the store is closed")
            self.loop.call_soon_threadsafe(self._spawn, exchange)
        return exchange

    def _spawn(self, exchange: "_Exchange") -> None:
        task = self.loop.create_task(exchange.run(self.application))
        exchange.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(exchange.end)  # also if it is cancelled before it runs

    def stop(self) -> None:
        """End the application.  Idempotent."""
        if not self.loop.is_closed():
            with suppress(RuntimeError):  # it ends at this moment
                self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()


class _Headers(Mapping[str, str]):
    """The headers of an answer, by names in any case."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._known = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs
        }

    def __getitem__(self, name: str) -> str:
        return self._known[name.lower()]

    def __iter__(self) -> Any:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class _Begun(NamedTuple):
    """The head of an answer and the beginning of its body.  `more`: there is more of it.  `file`:
    which has the body."""

    status: int
    headers: _Headers
    piece: bytes = b""
    more: bool = False
    file: FileChunks | None = None


class _Exchange:
    """One request and its answer; the loop of the application fills it, a caller's thread reads.

    It takes answers directly too (`dispatch.DirectSender`): a file is read where its bytes are
    needed."""

    sends_files = True

    def __init__(self, loop: asyncio.AbstractEventLoop, request: Request) -> None:
        self._loop, self._request = loop, request
        self.task: asyncio.Task[None] | None = None
        self.began: Future[_Begun] = Future()
        self._pieces: SimpleQueue[bytes] = SimpleQueue()  # an empty one is the end
        self._room = asyncio.Semaphore(_PIECES_AHEAD)
        self._is_whole = False
        self._head: tuple[int, _Headers] | None = None
        self._body = iter(() if isinstance(request.body, bytes) else request.body)
        self._held: bytes | None = None
        self._is_sent = False
        self._failure: Exception | None = None
        self.body_failure: Exception | None = None  # goes before every answer

    async def run(self, application: Graveler) -> None:
        """Run the application.  An error of it is that of the caller."""
        try:
            await application(_scope(self._request), self._receive, self._send)
        except Exception as error:
            self._failure = self._failure or error

    def end(self, _: object) -> None:
        """Nothing more comes."""
        if not self.began.done():
            self.began.set_exception(self._failure or self.lost("the store was closed"))
        self._pieces.put(b"")

    def next_piece(self) -> bytes:
        """The next bytes of the body; empty at its end.  Raises the error of an answer that was
        lost if the application has not said that it is whole."""
        piece = self._pieces.get()
        if not piece and not self._is_whole:
            raise self.lost(_EARLY)
        with suppress(RuntimeError):  # the store is closed: no more comes
            self._loop.call_soon_threadsafe(self._room.release)
        return piece

    def cancel(self) -> None:
        """Nobody reads the rest."""
        with suppress(RuntimeError):  # the store is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def lost(self, reason: str) -> GravelerError:
        """The error of an answer that does not come to its end."""
        kind = Unavailable if self._request.method in READ else OutcomeUnknown
        return kind(reason)

    async def _receive(self) -> dict[str, Any]:
        """The next piece of the body, once the one after it is known: who makes the pieces learns
        that the last one was taken before the answer can come."""
        if self._is_sent:
            await asyncio.Event().wait()  # nobody goes away here: `cancel` ends the task
        if isinstance(self._request.body, bytes):
            self._is_sent = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        try:
            following = await self._loop.run_in_executor(None, next, self._body, None)
            if self._held is None and following is not None:
                self._held, following = (
                    following,
                    await self._loop.run_in_executor(None, next, self._body, None),
                )
        except Exception as error:  # of the caller: the request ends before its end
            self._failure = self.body_failure = error
            return {"type": "http.disconnect"}
        piece, self._held = self._held, following
        self._is_sent = following is None
        return {"type": "http.request", "body": piece or b"", "more_body": not self._is_sent}

    async def _send(self, sent: Any) -> None:
        if sent["type"] == "http.response.start":
            self._head = sent["status"], _Headers(list(sent.get("headers", ())))
            return
        if sent["type"] != "http.response.body":
            return
        piece, more = bytes(sent.get("body", b"")), bool(sent.get("more_body", False))
        if not self.began.done() and self._head is not None:
            self.began.set_result(_Begun(*self._head, piece, more))
            return
        self._is_whole = not more
        if piece or not more:
            await self._room.acquire()
            self._pieces.put(piece)
            if piece and not more:
                self._pieces.put(b"")

    async def send_whole(self, start: Mapping[str, Any], body: bytes) -> None:
        """See `DirectSender`."""
        self.began.set_result(_Begun(start["status"], _Headers(list(start["headers"])), body))

    async def send_file(self, _: object, chunks: FileChunks) -> None:
        """See `DirectSender`: the caller reads, until it ends the exchange."""
        assert self._head is not None
        self.began.set_result(_Begun(*self._head, more=True, file=chunks))
        await asyncio.Event().wait()


class _Answer(Pieces):
    """An answer, as `Response` of a connection."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        try:
            self.status, headers, self._rest, self._more, self._file = exchange.began.result()
            if exchange.body_failure is not None:
                raise exchange.body_failure
        except BaseException:
            exchange.cancel()  # after an interrupt
            raise
        self.headers: Mapping[str, str] = headers
        self._left = int(headers.get("content-length", 0)) if self._file is not None else 0

    def read(self, amount: int = 1 << 18) -> bytes:
        if self._file is not None:
            buffer = bytearray(min(amount, self._left))
            return bytes(memoryview(buffer)[: self.read_into(memoryview(buffer))])
        while not self._rest and self._more:
            self._rest = self._exchange.next_piece()
            self._more = bool(self._rest)
        piece, self._rest = self._rest[:amount], self._rest[amount:]
        return piece

    def read_into(self, buffer: memoryview) -> int:
        if self._file is not None:
            return self._read_file(buffer)
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def duplicate(self) -> int | None:
        return None if self._file is None else self._file.duplicate()

    def _read_file(self, buffer: memoryview) -> int:
        assert self._file is not None
        count = self._file.read_into(buffer)
        self._left -= count
        if not count and buffer and self._left:
            raise self._exchange.lost(_EARLY)
        if not self._left:
            self.close()
        return count

    def close(self) -> None:
        if self._more:
            self._exchange.cancel()
            self._more = False


class _InProcess(Connections):
    """Sends requests to the application in this process."""

    in_process = True

    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self._application = loop

    def send(self, request: Request) -> Response:
        return cast(Response, _Answer(self._application.begin(request)))


def _scope(request: Request) -> dict[str, Any]:
    parts = urlsplit(request.url)
    headers = [(b"host", _HOST.encode())]
    headers += [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
    ]
    body = request.body
    length = len(body) if isinstance(body, bytes) else request.length
    if length > 0 or (length == 0 and request.method in ("POST", "PUT", "PATCH")):
        headers.append((b"content-length", str(length).encode()))
    elif length < 0:
        headers.append((b"transfer-encoding", b"chunked"))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode("ascii"),
        "query_string": parts.query.encode("ascii"),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 0),
        "server": (_HOST, 80),
        "extensions": {},
    }
