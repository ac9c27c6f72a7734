"""The application over a store in a folder, as `graveler serve` runs it: API, pages and S3.

    store ─► service (hooks, identities, audit trail) ─► application ─► jobs resumed, sweepers start

`create_app` is for everybody who mounts or extends it: docs/how-to/extend.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from graveler.api import local
from graveler.api.app import Graveler, lifespan_of
from graveler.api.dependencies import Caller, OpenRepository, requires
from graveler.assembly.drivers import ThreadFanout
from graveler.assembly.embedded import Embedded, open_embedded
from graveler.audit.trail import AUDIT_FOLDER, FileBounds, FileTrail
from graveler.auth import accounts
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.auth.credentials import NewCredential
from graveler.core import limits
from graveler.core.settings import (
    NO_HOOK_SETTINGS,
    NO_IDENTITY_SETTINGS,
    HookSettings,
    IdentitySettings,
)
from graveler.engine.ports import Ports
from graveler.gateway.route import S3Route, s3_route
from graveler.http.service import Service, ServiceSettings
from graveler.jobs.sweeper import COLLECT_FIRST_SECONDS, Sweeper, collect_garbage, tending

__all__ = ["AppOptions", "Caller", "OpenRepository", "create_app", "lifespan_of", "requires"]
DEFAULTS: Final = ServiceSettings(ready_writes=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What an application does beside the requests themselves.

    `s3_domains`, `s3_signature_v2`: as for `s3_route`.  `collect_hours`: the period of garbage
    collection; 0: never.  `audit_bytes_max`: of all files of the audit trail.
    """

    settings: ServiceSettings = DEFAULTS
    s3_domains: tuple[str, ...] = ()
    s3_signature_v2: bool = False
    hooks: HookSettings = NO_HOOK_SETTINGS
    identities: IdentitySettings = NO_IDENTITY_SETTINGS
    audit_bytes_max: int = limits.audit_bytes_max
    collect_hours: int = 0


def create_app(
    store: Path | str,
    *,
    administrator: tuple[str, str] | None = None,
    import_roots: Sequence[Path] = (),
    options: AppOptions | None = None,
    **more: Any,
) -> Graveler:
    """The application over the store in a folder, which is created if it does not exist.

    The store is opened when the application starts and closed when it stops: one process at a time
    can have it open.  `administrator`: the access key and the secret key that the administrator
    has from then on; without it, the first caller of `setup` needs the setup token of
    `options.settings`.  `import_roots`: folders from which objects may be imported.  `more`: as for
    `FastAPI`.

    The start raises `Conflict` if another process has the store open, and the other errors of
    `open_embedded`.
    """
    chosen = AppOptions() if options is None else options

    @contextmanager
    def life() -> Iterator[None]:
        with ExitStack() as stack:
            opened = open_embedded(
                Path(store),
                import_roots=import_roots,
                base_url=chosen.settings.front.public_url,
            )
            stack.callback(opened.close)
            if administrator is not None:
                ports, before = opened.ports, opened.before
                keeper = accounts.keeper(
                    ports.kv, ports.clock, ports.ids, opened.secret, before=before
                )
                accounts.ensure(keeper, NewCredential(*administrator))
            service = stack.enter_context(open_service(opened, Path(store), chosen))
            app.use(service, route_of(service, chosen))
            stack.enter_context(running(service, chosen))
            yield

    app = Graveler(life, **more)
    return app


@contextmanager
def open_service(store: Embedded, folder: Path, options: AppOptions) -> Iterator[Service]:
    """The service over an open store, whose audit trail lies in its folder."""
    with _hooked(store.ports, options.hooks) as ports:
        bounds = FileBounds(bytes_max=options.audit_bytes_max)
        trail = FileTrail(folder / AUDIT_FOLDER, ports.clock, bounds)
        try:
            yield local.open_service(
                ports,
                store.signer,
                store.secret,
                options.settings,
                before=store.before,
                identities=_identities(ports, options.identities),
                trail=trail,
            )
        finally:
            trail.close()


def route_of(service: Service, options: AppOptions) -> S3Route:
    """The route of S3 clients."""
    return s3_route(service, options.s3_domains, signature_v2=options.s3_signature_v2)


@contextmanager
def running(service: Service, options: AppOptions) -> Iterator[None]:
    """The life of the application, with its sweepers: they tend the repositories and, if ordered,
    collect garbage."""
    sweepers = [Sweeper(service.ports, work=tending(service.queue))]
    if options.collect_hours > 0:
        period = options.collect_hours * 3600.0
        sweepers.append(Sweeper(service.ports, COLLECT_FIRST_SECONDS, period, collect_garbage))
    with local.life(service):
        for sweeper in sweepers:
            sweeper.start()
        try:
            yield
        finally:
            for sweeper in sweepers:
                sweeper.stop()


@contextmanager
def _hooked(ports: Ports, hooks: HookSettings) -> Iterator[Ports]:
    """The ports, with hooks if the settings allow hosts to them."""
    if not hooks.hosts:
        yield ports
        return
    from graveler.hooks.gate import open_hooks

    together = ThreadFanout(limits.hook_threads)
    try:
        yield replace(ports, hooks=open_hooks(hooks, ports.clock, together))
    finally:
        together.close()


def _identities(ports: Ports, settings: IdentitySettings) -> Identities:
    """What proves an identity beside a key, as the settings say."""
    if not settings.given:
        return NO_IDENTITIES
    from graveler.api.identities import open_identities

    return open_identities(settings, ports.clock)
