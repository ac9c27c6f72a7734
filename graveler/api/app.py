"""The HTTP application: the table of routes, the pages beside it, start and stop.

    service = open_service(ports, grants, secret, settings)
    application = create_app(service)

FastAPI types nothing here: it hosts two plain routes, one for the API and one for all the rest.  At
its start the jobs of processes that died are failed; at its stop the imports that run here are
cancelled and waited for.  For the commands and the functions.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from graveler import __version__
from graveler.api import imports
from graveler.api.openapi import document
from graveler.api.opening import open_service
from graveler.api.pages import Pages
from graveler.api.routing import api_route
from graveler.api.service import Service

__all__ = ["create_app", "open_service"]


def create_app(service: Service) -> FastAPI:
    """The application.  It owns the service's threads from its start to its stop."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        imports.fail_orphans(service)
        yield
        imports.cancel_running(service)
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


class _Application(FastAPI):
    """FastAPI, but for its description, which comes from the table, and for its middleware: our
    routes answer errors themselves, and five layers cost a third of a short request."""

    def build_middleware_stack(self) -> ASGIApp:
        return self.router

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = document()
        return self.openapi_schema
