"""Serves one application in this process, on a port that is bound already, until SIGINT or SIGTERM.

Before there is a server, a signal raises `KeyboardInterrupt`.  Afterwards it stops the server
gracefully: no new requests, open ones end within their bound (http/server.py).  For service.py and
gateway.py.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final, NamedTuple

from graveler.cli import heap
from graveler.cli.descriptors import fitted
from graveler.cli.listener import bind, bound
from graveler.cli.options import Listen
from graveler.errors import Internal, Invalid
from graveler.http.dispatch import Application
from graveler.http.front import Front, is_loopback
from graveler.http.server import BOUNDS, Server, make_server

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


class Place(NamedTuple):
    """Where a process serves: the bound socket, its address, and what stops the server."""

    taken: socket.socket
    listen: Listen
    signals: Signals


@contextmanager
def place(listen: Listen, front: Front) -> Iterator[Place]:
    """A bound port for the time of the block, with signals handled and files made for their owner
    alone.  The threads of the process share one heap from now on (heap.py).

    Errors: those of `bind`; `Invalid` for an address of other machines, unless `front` lets them
    in.  Main thread only."""
    heap.share()
    mask = os.umask(0o077)  # a library creates the database files, with the modes of the umask
    signals = Signals()
    try:
        taken = bind(listen)
        try:
            if not front.serves_others and not is_loopback(taken.getsockname()[0]):
                raise Invalid(
                    "listen address invalid: credentials would cross the network by plain HTTP; "
                    "put a proxy with TLS in front (--trusted-proxy), or allow it "
                    f"(--insecure-http): listen={listen.authority}"
                )
            yield Place(taken, bound(taken, listen), signals)
        finally:
            taken.close()
    finally:
        signals.restore()
        os.umask(mask)


def serve_until_stopped(
    application: Application, at: Place, front: Front, on_ready: OnReady
) -> None:
    """Serve, and return after a graceful stop.  `on_ready` runs on the event loop, so it must
    return immediately.  Raises `Internal` if the server does not start."""

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
    host, port = at.listen
    server = make_server(application, host, port, ready, bounds=bounds, front=front)
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
