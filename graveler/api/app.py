"""The FastAPI application: the operations, the pages beside it, start and stop.

    service = open_service(ports, grants, secret, settings)
    application = create_app(service)

FastAPI runs the start and the stop.  HTTP requests go directly to the two plain routes: one for the
API and one for all other paths.

The application belongs to a store that one process at a time can open.  At start it resumes the
jobs of dead processes.  At stop it stops the jobs of this process; the next start resumes them.
Used by the commands.
"""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Literal

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from graveler import __version__
from graveler.api.local_jobs import open_service
from graveler.api.metrics import add_requests
from graveler.api.openapi import document
from graveler.api.service import Service
from graveler.api.start import Route, bare_app, over_tls
from graveler.engine.jobs import record
from graveler.engine.repositories import repository
from graveler.errors import GravelerError
from graveler.jobs.handover import Desk, revive_all
from graveler.kv.wait import Prompt
from graveler.records import ABSENT, Absent

__all__ = ["create_app", "open_service"]


def create_app(service: Service, further: Route | Literal[Absent.ABSENT] = ABSENT) -> FastAPI:
    """The application.  It owns the threads of the service from its start to its stop.  `further`:
    a route that answers the requests it wants, whatever their path."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for repo in repository.every(service.ports):
            revive_all(Desk(repo, service.queue))
        try:
            with _never_waiting(service.ports.kv, service.ports.ranges):
                yield
            for repo in repository.every(service.ports):
                record.free_all(repo)  # their workers stop at the next heartbeat
            with suppress(GravelerError):
                add_requests(service.ports, service.metrics)
        finally:
            service.pools.close()

    takes = _nothing if further is ABSENT else further.wants
    return _Application(
        over_tls(service, bare_app(service, further), takes),
        title="Graveler",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )


def _nothing(_scope: Scope) -> bool:
    return False


@contextmanager
def _never_waiting(*stores: object) -> Iterator[None]:
    """Make the stores refuse to wait on this thread, the thread of the event loop."""
    thread = threading.get_ident()
    prompt = [store for store in stores if isinstance(store, Prompt)]
    for store in prompt:
        store.forbid_waiting(thread)
    try:
        yield
    finally:
        for store in prompt:
            store.allow_waiting(thread)


class _Application(FastAPI):
    """FastAPI without its middleware, its routing and its generated OpenAPI document.

    The routes answer errors themselves, so no middleware is needed.  Its middleware, telemetry and
    routing would take a large share of the time of a short request.  The OpenAPI document is built
    from the operations.
    """

    def __init__(self, http: ASGIApp, **settings: Any) -> None:
        super().__init__(**settings)
        self._http = http

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        application = self._http if scope["type"] == "http" else super().__call__
        await application(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = document()
        return self.openapi_schema
