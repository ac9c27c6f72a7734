"""The process that serves an application: its port, signals, memory, open files and log.

Before there is a server, a signal raises `KeyboardInterrupt`.  Afterwards it stops the server
gracefully: no new requests, open ones end within their bound (http/server.py).
"""

import errno
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, Literal, NamedTuple

from graveler.cli.support.serve_options import Listen
from graveler.core.clock import SystemClock
from graveler.core.errors import Conflict, Internal, Invalid, Refused, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import TlsFiles, environment
from graveler.http.connections import ConnectionLimits
from graveler.http.dispatch import Application
from graveler.http.front import Front, is_loopback
from graveler.http.server import BOUNDS, Certificate, Server, make_server

# The event loop and the uploads may wait this long for each computing thread.  With Python's
# default of 5 ms, the slowest look-ups beside writers and a long listing take five times as long.
# With 0.1 ms, 40 merges at once have 0.78 of their speed (docs/explanation/performance.md).
_SWITCH_SECONDS: Final = 0.0003
# When Python looks for cycles: after so many new objects, and how many such looks lead to one at
# older objects, and then at all.  By the default of 700, 10 and 10, a commit of 100,000 objects
# stopped every thread four times for 30 ms, because a look at all takes so long while the caches
# are full.  There is little to find, because requests and connections leave no cycles
# (tests/api/test_garbage.py, docs/explanation/performance.md).
_COLLECTOR: Final = (5_000, 10, 20)


@dataclass(frozen=True, slots=True)
class Running:
    """A service that is ready."""

    listen: Listen
    stop: Callable[[], None]
    stopping: Callable[[], bool]


OnReady = Callable[[Running], None]


class Signals:
    """Handles SIGINT and SIGTERM.  Before there is a server they raise `KeyboardInterrupt`;
    afterwards they stop the server gracefully."""

    def __init__(self) -> None:
        self._server: Server | None = None
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._on_signal) for number in numbers}

    def stop(self, server: Server) -> None:
        """From now on a signal stops `server`."""
        self._server = server

    def restore(self) -> None:
        """Restore the earlier signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # The server has its own handlers while it runs.  When it ends, it raises the signals that
        # it received once more.  At that time the store is closing, and must not be interrupted.
        if self._server is None:
            raise KeyboardInterrupt
        self._server.should_exit = True


class Listener(NamedTuple):
    """Where a process serves: the bound socket, its address, and what stops the server."""

    taken: socket.socket
    listen: Listen
    signals: Signals


@contextmanager
def listening(listen: Listen, front: Front) -> Iterator[Listener]:
    """A bound port for the time of the block, with signals handled and files made for their owner
    alone.  The threads of the process share one heap from now on.

    Errors: those of `bind`; `Invalid` for an address of other machines, unless `front` lets them
    in.  Main thread only."""
    share_heap()
    mask = os.umask(0o077)  # a library creates the database files, with the modes of the umask
    signals = Signals()
    try:
        taken = bind(listen)
        try:
            is_guarded = front.serves_others or listen.scheme == "https"
            if not is_guarded and not is_loopback(taken.getsockname()[0]):
                raise Invalid(
                    "listen address invalid: credentials would cross the network by plain HTTP; "
                    "give a certificate (--tls-certificate, --tls-key), put a proxy with TLS in "
                    "front (--trusted-proxy), or allow it (--insecure-http): "
                    f"listen={listen.authority}"
                )
            address = listen._replace(port=taken.getsockname()[1])
            yield Listener(taken, address, signals)
        finally:
            taken.close()
    finally:
        signals.restore()
        os.umask(mask)


def certificate_of(
    files: TlsFiles | Literal[Absent.ABSENT],
) -> Certificate | Literal[Absent.ABSENT]:
    """The certificate of the service.  Warns if clients refuse it now.  Raises `Invalid`, which
    names the file and the remedy."""
    if files is ABSENT:
        return ABSENT
    certificate = Certificate(files)
    if reason := certificate.lapse(datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC)):
        text = f"graveler: warning: clients refuse the certificate: {reason}: {files.certificate}"
        print(text, file=sys.stderr)
    return certificate


def serve_until_stopped(
    application: Application,
    at: Listener,
    front: Front,
    on_ready: OnReady,
    certificate: Certificate | Literal[Absent.ABSENT],
) -> None:
    """Serve, and return after a graceful stop.  `on_ready` runs on the event loop, so it must
    return immediately.  `certificate`: clients must use TLS.  Raises `Internal` if the server does
    not start."""

    def stop() -> None:
        server.should_exit = True

    def ready(_port: int) -> None:
        on_ready(Running(at.listen, stop, lambda: server.should_exit))

    bounds = fitted(BOUNDS)
    if bounds.connections_max < BOUNDS.connections_max:
        print(
            f"graveler: serves at most {bounds.connections_max} connections instead of "
            f"{BOUNDS.connections_max}: the system allows too few open files; raise the hard "
            "limit (ulimit -Hn)",
            file=sys.stderr,
        )
    where = (at.listen.host, at.listen.port)
    server = make_server(
        application, *where, ready, bounds=bounds, front=front, certificate=certificate
    )
    gc.collect()
    gc.freeze()  # modules and operations live for ever: Python's collector can skip them
    at.signals.stop(server)
    switch_seconds, collector = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_COLLECTOR)
    try:
        server.run(sockets=[at.taken])
    finally:
        sys.setswitchinterval(switch_seconds)
        gc.set_threshold(*collector)
    if not server.started:
        raise Internal("the service did not start: see the log above")


# ---- the port ------------------------------------------------------------------------------------

_REMEDIES = {
    errno.EADDRINUSE: (Conflict, "the port is in use; stop who uses it or choose another"),
    errno.EACCES: (Refused, "the port is not allowed to this user; choose one above 1023"),
    errno.EADDRNOTAVAIL: (Invalid, "this machine has no such address; try 127.0.0.1"),
}


def bind(listen: Listen) -> socket.socket:
    """A socket that is bound to the address and listens.  Connections wait until the server accepts
    them.

    Errors: `Conflict` for a port in use, `Refused` for a port that this user may not use, `Invalid`
    for an unknown host or an address of another machine, `Unavailable`.
    """
    where = listen.authority
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise Invalid(
            f"listen address invalid: the host has no address; try 127.0.0.1: listen={where}"
        ) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Two processes may bind one port while neither listens.  So listen now, answer when ready.
        listening.listen(1_024)
    except OSError as error:
        listening.close()
        refusal, remedy = _REMEDIES.get(error.errno or 0, (Unavailable, str(error.strerror)))
        raise refusal(f"cannot listen: {remedy}: listen={where}") from error
    return listening


# ---- open files ----------------------------------------------------------------------------------

# Files of the database (128), of objects being read or written, and of refused connections.
_OTHERS: Final = 512
_PER_CONNECTION: Final = 2  # a download has its socket twice, an upload a temporary file
_MANY: Final = 16_384
_SHARE: Final = 4  # with a low limit, connections still get at least 1/4 of it


def fitted(bounds: ConnectionLimits) -> ConnectionLimits:
    """Raise the limit of open files to the number that `bounds` need, and return `bounds`.  If the
    system does not allow that many, return them with fewer connections.  Never fails."""
    return lowered(bounds, _raised(_PER_CONNECTION * bounds.connections_max + _OTHERS))


def allow_many() -> None:
    """Raise the limit of open files as far as the system allows, to 16,384 at most: the store
    keeps tables open in a share of what is allowed when it is opened.  Never fails."""
    _raised(_MANY)


def lowered(bounds: ConnectionLimits, files: int) -> ConnectionLimits:
    """`bounds` with as many connections as fit into `files` open files; unchanged if all fit.
    Pure."""
    fit = max((files - _OTHERS) // _PER_CONNECTION, files // _SHARE, 1)
    if fit >= bounds.connections_max:
        return bounds
    return replace(
        bounds,
        connections_max=fit,
        per_address_max=max(1, bounds.per_address_max * fit // bounds.connections_max),
        refused_max=min(bounds.refused_max, fit // _SHARE),
    )


def _raised(least: int) -> int:
    """Ask the system for `least` open files; return how many it now allows, at most `least`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= least:
        return least
    goal = least if hard == resource.RLIM_INFINITY else min(least, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):  # the kernel has a lower limit of its own
        return soft
    return goal


# ---- memory --------------------------------------------------------------------------------------

# glibc gives threads heaps of their own, each of which keeps the room of its busiest moment; one
# heap uses the room of any thread again.  Blocks above this bound are mapped apart and given back
# whole: the bound is fixed above the pieces of bodies and below the blocks of the database.
_APART_BYTES: Final = 512 * 1024
_KEPT_BYTES: Final = 4 * _APART_BYTES  # free at the end of the heap: pieces of bodies come again
_TUNABLES: Final = "GLIBC_TUNABLES"
# The numbers of <malloc.h>, the variables and tunables that say the same, and the values.
_OPTIONS: Final = (
    (-8, "MALLOC_ARENA_MAX", "glibc.malloc.arena_max=", 1),
    (-3, "MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold=", _APART_BYTES),
    (-1, "MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold=", _KEPT_BYTES),
)


def share_heap() -> None:
    """Let threads that start from now on use one heap, and map large blocks apart, each unless the
    environment says otherwise.  Does nothing without glibc.  Never fails."""
    variables = environment()
    tunables = variables.get(_TUNABLES, "")
    with suppress(ImportError, OSError, AttributeError):  # a Python without libffi, or static
        import ctypes

        library = ctypes.CDLL(None)
        for number, variable, tunable, value in _OPTIONS:
            if variable not in variables and tunable not in tunables:
                library.mallopt(number, value)


# ---- the log -------------------------------------------------------------------------------------

_STANDARD: Final = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))


class TextLines(logging.Formatter):
    """Formats a record as a line of text: time, level, logger, message, fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = (f"{name}={_word(value)}" for name, value in _fields(record).items())
        return " ".join((super().formatMessage(record), *fields))


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON.  A message that is a mapping stays one."""

    def format(self, record: logging.LogRecord) -> str:
        message: Any = record.msg
        if not isinstance(message, Mapping):
            message = record.getMessage()
        line = {
            "level": record.levelname,
            "location": record.name,
            "message": message,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _word(value: Any) -> str:
    """A value in text: quoted if it has a blank, or a character that could begin another line."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def log_text() -> None:
    """From now on the process logs lines of text to its standard error, from WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines())
    logging.basicConfig(handlers=[handler])


def log_json() -> None:
    """From now on the process logs lines of JSON to its standard error: its own from INFO,
    libraries from WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger("graveler").setLevel(logging.INFO)
