"""Serves one embedded store in this process, from start to stop.

    certificate read ─► port bound ─► store opened ─► administrator ─► server listens ─► ready
        ─► SIGINT or SIGTERM ─► no new requests, open ones end ─► janitor ends ─► store closed

If a step fails, the earlier steps are undone, and the error is one of errors.py.  For serve.py and
demo.py.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from graveler.api.app import Graveler
from graveler.app import AppOptions, open_service, route_of, running
from graveler.assembly import Embedded, open_embedded
from graveler.auth.credentials import NewCredential
from graveler.cli.support import administrator
from graveler.cli.support.host import (
    OnReady,
    Running,
    allow_many,
    certificate_of,
    listening,
    log_text,
    serve_until_stopped,
)
from graveler.cli.support.serve_options import Listen, ServeOptions
from graveler.core.clock import SystemIds
from graveler.core.records import ABSENT
from graveler.core.settings import AdministratorKeys
from graveler.http.service import ServiceSettings

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
    with listening(options.listen, settings.front) as at:
        store = open_embedded(
            options.store,
            import_roots=options.import_roots,
            base_url=options.front.public_url,
            commit_rows_max=rows_max,
            synced=options.synced,
        )
        chosen = AppOptions(
            settings=settings,
            s3_domains=options.s3.domains,
            s3_signature_v2=options.s3.signature_v2,
            hooks=options.hooks,
            identities=options.identities,
            audit_bytes_max=options.audit_bytes_max,
            collect_hours=options.collect_hours,
        )
        try:
            prepare(store, at.listen)
            with open_service(store, options.store, chosen) as service:
                app = Graveler(partial(running, service, chosen))
                app.use(service, route_of(service, chosen))
                serve_until_stopped(app, at, settings.front, on_ready, certificate)
        finally:
            store.close()


def _settings(options: ServeOptions) -> ServiceSettings:
    """The settings of a service of an embedded store.  Clients get signed URLs only if the service
    knows its public URL."""
    hosts = (*options.front.hosts, options.listen.host)
    front = options.front._replace(hosts=hosts)
    return ServiceSettings(
        presigns=bool(front.public_url),
        front=front,
        setup_token=options.setup_token,
        ready_writes=True,
        user_requests_per_second=options.user_requests_per_second,
    )


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
