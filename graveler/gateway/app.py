"""The application of a process that serves S3 clients and nothing else.

It resumes no jobs and runs none.  At its end it waits for the work that has begun.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from graveler.api.pages import HEALTH_PATH, METRICS_PATH, READY_PATH, Pages
from graveler.api.start import over_tls
from graveler.core.errors import GravelerError
from graveler.gateway.authentication import Authentication
from graveler.gateway.route import S3Route
from graveler.http.answers import Receive, Scope, Send
from graveler.http.dispatch import Application, with_lifespan
from graveler.http.metrics import add_requests
from graveler.http.service import Service

OBSERVED_PATHS: Final = (HEALTH_PATH, READY_PATH, METRICS_PATH)


def s3_route(service: Service, domains: Sequence[str], *, signature_v2: bool) -> S3Route:
    """The route of S3 clients.  `domains`: as for `S3Route`.  `signature_v2`: as for
    `Authentication`."""
    authentication = Authentication(domains, signature_v2=signature_v2)
    return S3Route(service, domains, authentication)


def gateway_app(service: Service, route: S3Route, namespace: str) -> Application:
    """The application.  It owns the threads of the service from its start to its stop.

    `namespace`: the storage namespace that must answer before the process is ready.
    """
    pages = Pages(service, namespace)

    def takes(scope: Scope) -> bool:
        return scope["path"] not in OBSERVED_PATHS or route.wants(scope)

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        handle = route.handle if takes(scope) else pages.handle
        await handle(scope, receive, send)

    @contextmanager
    def life() -> Iterator[None]:
        yield
        with suppress(GravelerError):
            add_requests(service.ports, service.metrics)
        service.pools.close()

    return with_lifespan(over_tls(service, answering, takes), life)
