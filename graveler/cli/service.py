"""Serves one embedded store in this process, from start to stop.

    port bound ─► store opened ─► administrator ─► server listens ─► ready ─► SIGINT or SIGTERM
        ─► no new requests, open ones end ─► janitor ends ─► store closed

If a step fails, the earlier steps are undone, and the error is one of errors.py.  For serve.py and
demo.py.
"""

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from types import FrameType
from typing import Final

from graveler import limits
from graveler.api.app import create_app, open_service
from graveler.api.server import BOUNDS, Server, make_server
from graveler.api.service import Service, ServiceSettings
from graveler.assembly import Embedded, open_embedded
from graveler.assembly.fanout import ThreadFanout
from graveler.audit.files import AUDIT_FOLDER, FileBounds, FileTrail
from graveler.auth.identities import NO_IDENTITIES, Identities
from graveler.cli.descriptors import fitted
from graveler.cli.listener import bind, bound
from graveler.cli.options import Listen, S3Options, ServeOptions
from graveler.cli.sweeps import COLLECT_FIRST_SECONDS, Sweeper, collect_garbage
from graveler.engine.ports import Ports
from graveler.errors import Internal
from graveler.gateway.authentication import Authentication
from graveler.gateway.route import S3Route

# The event loop may wait this long for each computing thread.  With Python's default of 5 ms, the
# slowest look-ups beside writers and a long listing take five times as long
# (docs/measured/benchmarks.md).
_SWITCH_SECONDS: Final = 0.0005


@dataclass(frozen=True, slots=True)
class Running:
    """A service that is ready."""

    listen: Listen
    stop: Callable[[], None]
    stopping: Callable[[], bool]


Prepare = Callable[[Embedded, Listen], None]
OnReady = Callable[[Running], None]


def run(options: ServeOptions, prepare: Prepare, on_ready: OnReady) -> None:
    """Serve until interrupted, and return after a graceful stop.

    `prepare` is called once the port is bound and the store is open.  `on_ready` is called when the
    service answers; it runs on the event loop, so it must return immediately.

    Raises the error that prevents the start, or `KeyboardInterrupt` if interrupted before there is
    a server.  Main thread only.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask = os.umask(0o077)  # a library creates the database files, with the modes of the umask
    signals = Signals()
    taken = bind(options.listen)
    try:
        rows_max = options.commit_rows_max if options.commit_rows_max > 0 else inf
        roots = options.import_roots
        public_url = options.front.public_url
        store = open_embedded(
            options.store, import_roots=roots, base_url=public_url, commit_rows_max=rows_max
        )
        try:
            listen = bound(taken, options.listen)
            prepare(store, listen)
            with _hooked(store, options) as ports:
                bounds = FileBounds(bytes_max=options.audit_bytes_max)
                trail = FileTrail(options.store / AUDIT_FOLDER, ports.clock, bounds)
                try:
                    service = open_service(
                        ports,
                        store.signer,
                        store.secret,
                        _settings(options),
                        identities=_identities(options, ports),
                        trail=trail,
                    )
                    route, rounds = _s3_route(service, options.s3), _rounds(store, options)
                    _serve(service, route, taken, listen, signals, on_ready, rounds)
                finally:
                    trail.close()
        finally:
            store.close()
    finally:
        taken.close()
        signals.restore()
        os.umask(mask)


@contextmanager
def _hooked(store: Embedded, options: ServeOptions) -> Iterator[Ports]:
    """The ports of the store, with hooks if the options allow hosts to them."""
    if not options.hooks.hosts:
        yield store.ports
        return
    from graveler.hooks.deployment import open_hooks

    together = ThreadFanout(limits.hook_threads)
    try:
        yield replace(store.ports, hooks=open_hooks(options.hooks, store.ports.clock, together))
    finally:
        together.close()


def _identities(options: ServeOptions, ports: Ports) -> Identities:
    """What proves an identity beside a key, as the options say."""
    if not options.identities.given:
        return NO_IDENTITIES
    from graveler.api.identities import open_identities

    return open_identities(options.identities, ports.clock)


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


def _rounds(store: Embedded, options: ServeOptions) -> Sequence[Sweeper]:
    """The sweepers of the janitor and, if ordered, of garbage collection."""
    sweepers = [Sweeper(store.ports)]
    if options.collect_hours > 0:
        period = options.collect_hours * 3600.0
        sweepers.append(Sweeper(store.ports, COLLECT_FIRST_SECONDS, period, collect_garbage))
    return sweepers


def _settings(options: ServeOptions) -> ServiceSettings:
    """The settings of a service of an embedded store.  Clients get signed URLs only if the service
    knows its public URL."""
    front = replace(options.front, hosts=(*options.front.hosts, options.listen.host))
    return ServiceSettings(
        presigns=bool(front.public_url), front=front, setup_token=options.setup_token
    )


def _s3_route(service: Service, options: S3Options) -> S3Route:
    """The route of S3 clients."""
    authentication = Authentication(options.domains, v2_writes=options.v2_writes)
    return S3Route(service, options.domains, authentication.identify)


def _serve(
    service: Service,
    route: S3Route,
    taken: socket.socket,
    listen: Listen,
    signals: Signals,
    on_ready: OnReady,
    sweepers: Sequence[Sweeper],
) -> None:
    def stop() -> None:
        server.should_exit = True

    def ready(_port: int) -> None:
        for sweeper in sweepers:
            sweeper.start()
        on_ready(Running(listen, stop, lambda: server.should_exit))

    front = service.settings.front
    bounds = fitted(BOUNDS)
    if bounds.connections_max < BOUNDS.connections_max:
        print(
            f"graveler: serves at most {bounds.connections_max} connections instead of "
            f"{BOUNDS.connections_max}: the system allows too few open files; raise the hard "
            "limit (ulimit -Hn)",
            file=sys.stderr,
        )
    server = make_server(
        create_app(service, route), listen.host, listen.port, ready, bounds=bounds, front=front
    )
    gc.collect()
    gc.freeze()  # modules and operations live for ever: Python's collector can skip them
    signals.stop(server)
    switch_seconds = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        server.run(sockets=[taken])
    finally:
        sys.setswitchinterval(switch_seconds)
        for sweeper in sweepers:
            sweeper.stop()
    if not server.started:
        raise Internal("the service did not start: see the log above")
