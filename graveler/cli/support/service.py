"""Serves one embedded store in this process, from start to stop.

    certificate read ─► port bound ─► store opened ─► administrator ─► server listens ─► ready
        ─► SIGINT or SIGTERM ─► no new requests, open ones end ─► janitor ends ─► store closed

If a step fails, the earlier steps are undone, and the error is one of errors.py.  For serve.py and
demo.py.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Final, Literal

from graveler.api.local import open_service, served
from graveler.assembly import Embedded, open_embedded
from graveler.assembly.drivers import ThreadFanout
from graveler.audit.trail import AUDIT_FOLDER, FileBounds, FileTrail
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.auth.credentials import NewCredential
from graveler.cli.support import administrator
from graveler.cli.support.host import (
    OnReady,
    Place,
    Running,
    allow_many,
    certificate_of,
    log_text,
    place,
    serve_until_stopped,
)
from graveler.cli.support.janitor import COLLECT_FIRST_SECONDS, Sweeper, collect_garbage, tending
from graveler.cli.support.serve_options import Listen, ServeOptions
from graveler.core import limits
from graveler.core.clock import SystemIds
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import AdministratorKeys
from graveler.engine.ports import Ports
from graveler.gateway.app import s3_route
from graveler.gateway.route import S3Route
from graveler.http.service import Service, ServiceSettings
from graveler.http.tls import Certificate

Prepare = Callable[[Embedded, Listen], None]


def run(options: ServeOptions, prepare: Prepare, on_ready: OnReady) -> None:
    """Serve until interrupted, and return after a graceful stop.

    `prepare` is called once the port is bound and the store is open.  `on_ready` is called when the
    service answers; it runs on the event loop, so it must return immediately.

    Raises the error that prevents the start, or `KeyboardInterrupt` if interrupted before there is
    a server.  Main thread only.
    """
    certificate = certificate_of(options.tls)
    log_text()
    allow_many()
    rows_max = options.commit_rows_max if options.commit_rows_max > 0 else inf
    settings = _settings(options)
    with place(options.listen, settings.front) as at:
        store = open_embedded(
            options.store,
            import_roots=options.import_roots,
            base_url=options.front.public_url,
            commit_rows_max=rows_max,
            synced=options.synced,
        )
        try:
            prepare(store, at.listen)
            with _hooked(store, options) as ports, _trail(options, ports) as trail:
                service = open_service(
                    ports,
                    store.signer,
                    store.secret,
                    settings,
                    before=store.before,
                    identities=_identities(options, ports),
                    trail=trail,
                )
                route = s3_route(service, options.s3.domains, signature_v2=options.s3.signature_v2)
                sweepers = _rounds(store, service, options)
                _serve(service, route, at, on_ready, sweepers, certificate)
        finally:
            store.close()


@contextmanager
def _trail(options: ServeOptions, ports: Ports) -> Iterator[FileTrail]:
    """The audit trail in the folder of the store."""
    bounds = FileBounds(bytes_max=options.audit_bytes_max)
    trail = FileTrail(options.store / AUDIT_FOLDER, ports.clock, bounds)
    try:
        yield trail
    finally:
        trail.close()


@contextmanager
def _hooked(store: Embedded, options: ServeOptions) -> Iterator[Ports]:
    """The ports of the store, with hooks if the options allow hosts to them."""
    if not options.hooks.hosts:
        yield store.ports
        return
    from graveler.hooks.gate import open_hooks

    together = ThreadFanout(limits.hook_threads)
    try:
        yield replace(store.ports, hooks=open_hooks(options.hooks, store.ports.clock, together))
    finally:
        together.close()


def _identities(options: ServeOptions, ports: Ports) -> Identities:
    """What proves an identity beside a key, as the options say."""
    if not options.identities.given:
        return NO_IDENTITIES
    from graveler.api.start import open_identities

    return open_identities(options.identities, ports.clock)


def _rounds(store: Embedded, service: Service, options: ServeOptions) -> Sequence[Sweeper]:
    """The sweepers of the janitor and, if ordered, of garbage collection."""
    sweepers = [Sweeper(store.ports, work=tending(service.queue))]
    if options.collect_hours > 0:
        period = options.collect_hours * 3600.0
        sweepers.append(Sweeper(store.ports, COLLECT_FIRST_SECONDS, period, collect_garbage))
    return sweepers


def _settings(options: ServeOptions) -> ServiceSettings:
    """The settings of a service of an embedded store.  Clients get signed URLs only if the service
    knows its public URL."""
    hosts = (*options.front.hosts, options.listen.host)
    front = replace(options.front, hosts=hosts)
    return ServiceSettings(
        presigns=bool(front.public_url),
        front=front,
        setup_token=options.setup_token,
        ready_writes=True,
        user_requests_per_second=options.user_requests_per_second,
    )


def _serve(
    service: Service,
    route: S3Route,
    at: Place,
    on_ready: OnReady,
    sweepers: Sequence[Sweeper],
    certificate: Certificate | Literal[Absent.ABSENT],
) -> None:
    def ready(running: Running) -> None:
        for sweeper in sweepers:
            sweeper.start()
        on_ready(running)

    try:
        application, front = served(service, route), service.settings.front
        serve_until_stopped(application, at, front, ready, certificate)
    finally:
        for sweeper in sweepers:
            sweeper.stop()


_SETUP_TOKEN_LENGTH: Final = 32
_UNSYNCED: Final = (
    "graveler: warning: sync is off: if the machine loses power or its system crashes, "
    "acknowledged uploads, commits and the whole store may be lost; for tests only"
)


def serve(options: ServeOptions, keys: AdministratorKeys) -> int:
    """Serve until interrupted.  `keys`: of the administrator.  Returns 0 after a graceful stop."""
    if not options.synced:
        print(_UNSYNCED, file=sys.stderr, flush=True)
    options = replace(options, setup_token=SystemIds().unique(_SETUP_TOKEN_LENGTH))

    def prepare(store: Embedded, listen: Listen) -> None:
        url = options.front.public_url or listen.url
        _prepare(store, keys, url, options.setup_token)

    def on_ready(running: Running) -> None:
        served = f"API, page and S3; store {options.store}, process {os.getpid()}"
        if options.front.public_url:
            served = f"for clients {options.front.public_url}; {served}"
        print(f"graveler: ready at {running.listen.url} ({served})", flush=True)

    run(options, prepare, on_ready)
    print("graveler: stopped", flush=True)
    return 0


def _prepare(store: Embedded, keys: AdministratorKeys, url: str, setup_token: str) -> None:
    if keys.given:
        credential = NewCredential(keys.access_key_id, keys.secret_access_key)
        if administrator.ensure(store, credential):
            print("graveler: the administrator now has the credentials of the environment")
    elif administrator.account(store) is ABSENT:
        print(
            f"graveler: no administrator yet: in another terminal: graveler login {url} --setup\n"
            f"graveler: it asks for this setup token: {setup_token}",
            file=sys.stderr,
        )
