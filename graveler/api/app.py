"""The HTTP application: the table of routes, the pages beside it, start and stop.

    service = open_service(ports, grants, secret, settings)
    application = create_app(service)

FastAPI types nothing here: it hosts two plain routes, one for the API and one for all the rest.  It
belongs to a store that one process at a time can open: at its start the jobs of processes that died
go on; at its stop those that run here stop, to go on after the next start.  For the commands.
"""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from graveler import __version__
from graveler.api.local_jobs import open_service
from graveler.api.openapi import document
from graveler.api.pages import Pages
from graveler.api.routing import api_route
from graveler.api.service import Service
from graveler.engine.jobs import record
from graveler.engine.repositories import repository
from graveler.jobs.handover import Desk, revive_all
from graveler.kv.store import Store
from graveler.kv.wait import Prompt
from graveler.limits import page_count_max
from graveler.records import Repository

__all__ = ["create_app", "open_service"]


def create_app(service: Service) -> FastAPI:
    """The application.  It owns the service's threads from its start to its stop."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for repo in _repositories(service):
            revive_all(Desk(service.ports, repo, service.queue))
        with _never_waiting(service.ports.kv):
            yield
        for repo in _repositories(service):
            record.free_all(service.ports, repo)  # whose runners stop when they next beat
        service.pools.close()

    application = _Application(
        title="Graveler",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    application.router.redirect_slashes = False
    application.router.routes.append(api_route(service))
    application.router.routes.append(Pages(service))
    return application


def _repositories(service: Service) -> Iterator[Repository]:
    after, more = "", True
    while more:
        found, more = repository.list_page(service.ports, "", "", after, page_count_max)
        for repo in found:
            yield repo
            after = repo.id


@contextmanager
def _never_waiting(kv: Store) -> Iterator[None]:
    """Have the store keep this thread, which is the event loop's, from waiting."""
    if not isinstance(kv, Prompt):
        yield
        return
    thread = threading.get_ident()
    kv.forbid_waiting(thread)
    try:
        yield
    finally:
        kv.allow_waiting(thread)


class _Application(FastAPI):
    """FastAPI, but for its description, which comes from the table, and for its middleware: our
    routes answer errors themselves, and five layers cost a third of a short request."""

    def build_middleware_stack(self) -> ASGIApp:
        return self.router

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = document()
        return self.openapi_schema
