"""What routes of others get from FastAPI: the caller, an open repository, a check of permissions.

    @app.get("/reports/{repository}", dependencies=[requires("fs:ListObjects", REPO_ARN)])
    async def report(caller: Caller, repo: OpenRepository) -> dict[str, str]: ...

They fail as operations of the API do: 401, 403, 404, 429, with a `message` in JSON.  They belong to
routes of the application itself (`app.get`, `app.include_router`).
"""

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request

from graveler.api.app import Graveler
from graveler.api.dispatch import identify
from graveler.auth import access
from graveler.auth.permissions import ACTIONS, Permission
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT
from graveler.engine import ports
from graveler.engine.repositories import repository
from graveler.http import permissions
from graveler.http.audit import AuditLog, RequestTrace
from graveler.http.dispatch import note_request_id
from graveler.http.service import Service
from graveler.kv.store import WouldWait

_SEEN = Permission("fs:ReadRepository", permissions.REPO_ARN)


def service_of(request: Request) -> Service:
    """The service of the application that has the route.  Raises `TypeError` if it is another
    application."""
    app = request.app
    if not isinstance(app, Graveler):
        raise TypeError("the route does not belong to an application of graveler.create_app")
    return app.service


async def caller_of(request: Request) -> access.Caller:
    """The user that sent the request, by its key, its token or its session.

    Raises `Unauthenticated`, and `Throttled` for a user with too many requests."""
    service = service_of(request)
    trace = RequestTrace()
    note_request_id(service, request.scope)
    named = partial(identify, service, request.scope, dict(request.scope["headers"]), trace.changes)
    try:
        caller = named()
    except WouldWait:
        caller = await service.pools.writers.start(named)
    if trace.changes:
        AuditLog(service).record_changes(request.scope, trace, 200)
    return caller


Caller = Annotated[access.Caller, Depends(caller_of)]


async def _repository_of(request: Request, caller: Caller) -> ports.OpenRepository:
    """The repository that the path names.

    Raises `Refused` for a caller that may not see it, and `NotFound`."""
    service = service_of(request)
    await _check(service, request, caller, _SEEN)
    name = request.path_params["repository"]
    record = await service.pools.point(repository.get, service.ports, name)
    return service.opened(record)


OpenRepository = Annotated[ports.OpenRepository, Depends(_repository_of)]


def requires(action: str, resource: str) -> Any:
    """A dependency that lets only callers with this permission pass.

    `resource`: an ARN; `{name}` in it is a parameter of the path or of the query, such as
    `arn:lakefs:fs:::repository/{repository}/object/{path}`, which each request must have,
    once.  Raises `Refused`, `Invalid`; `ValueError` for an unknown action.
    """
    if action not in ACTIONS:
        raise ValueError(f"action unknown: {action}")
    needed = Permission(action, resource)

    async def check(request: Request, caller: Caller) -> None:
        await _check(service_of(request), request, caller, needed)

    return Depends(check)


async def _check(
    service: Service, request: Request, caller: access.Caller, needed: Permission
) -> None:
    given = {**request.query_params, **request.path_params}
    for name in request.query_params:  # the route may get all of them, as a list
        if f"{{{name}}}" in needed.resource and len(request.query_params.getlist(name)) > 1:
            raise Invalid(f"request has an error: it has the parameter twice: {name}")
    try:
        template = permissions.template(needed, tuple(given), ABSENT, ABSENT)
    except TypeError as error:
        raise Invalid(f"parameter missing: {error}") from error
    found = permissions.needed((template,), given, ABSENT, ABSENT)
    await permissions.authorize(service, caller, found, given.get("repository", ""))
