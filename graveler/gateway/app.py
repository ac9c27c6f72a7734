"""The application of a process that serves S3 clients and nothing else.

It resumes no jobs and runs none.  At its end it waits for the work that has begun.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from graveler.api.app import Graveler
from graveler.api.pages import HEALTH_PATH, METRICS_PATH, READY_PATH
from graveler.core.errors import GravelerError
from graveler.gateway.route import S3Route
from graveler.gateway.signatures import Authentication
from graveler.http.answers import Receive, Scope, Send
from graveler.http.metrics import add_requests
from graveler.http.service import Service

OBSERVED_PATHS: Final = (HEALTH_PATH, READY_PATH, METRICS_PATH)


def s3_route(service: Service, domains: Sequence[str], *, signature_v2: bool) -> S3Route:
    """The route of S3 clients.  `domains`: as for `S3Route`.  `signature_v2`: as for
    `Authentication`."""
    authentication = Authentication(domains, signature_v2=signature_v2)
    return S3Route(service, domains, authentication)


class _Alone:
    """The route of S3 clients, which answers everything but the observed paths."""

    def __init__(self, route: S3Route) -> None:
        self._route = route

    def wants(self, scope: Scope) -> bool:
        return scope["path"] not in OBSERVED_PATHS or self._route.wants(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._route.handle(scope, receive, send)


def gateway_app(service: Service, route: S3Route, namespace: str) -> Graveler:
    """The application.  It owns the threads of the service from its start to its stop.

    `namespace`: the storage namespace that must answer before the process is ready.
    """

    @contextmanager
    def life() -> Iterator[None]:
        yield
        with suppress(GravelerError):
            add_requests(service.ports, service.metrics)
        service.pools.close()

    return Graveler(life, operations=()).use(service, _Alone(route), namespace)
