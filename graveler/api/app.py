"""The application: FastAPI, with the operations of the API as its routes.

    server ─► middleware ─► S3 clients ─► operations, signed URLs, health ─► FastAPI's router
              of users      (`further`)   (an index of paths as sent)        (other routes, pages)

A compiled plan answers an operation (dispatch.py): behind the middleware that somebody added, and
before the layers of FastAPI that operations do not need.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import cached_property
from threading import Lock, RLock
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.requests import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute, APIRouter
from starlette.middleware import Middleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Match

from graveler import __version__
from graveler.api import errors, openapi
from graveler.api.answers import message
from graveler.api.dispatch import Dispatch, Plan, unmatched
from graveler.api.operation import API_PREFIX, Operation
from graveler.api.operations import OPERATIONS
from graveler.api.pages import DIRECT_PATHS, HEALTH_PATHS, Pages
from graveler.block.signature import PRESIGNED_PATH
from graveler.core.errors import GravelerError
from graveler.core.records import ABSENT, Absent
from graveler.http.answers import Answer, Receive, Scope, Send
from graveler.http.dispatch import Application, Route, note_request_id, route_path, send_answer
from graveler.http.service import Service

Life = Callable[[], AbstractContextManager[None]]

_BELOW_API: Final = API_PREFIX + "/"
_API_SEGMENTS: Final = _BELOW_API.split("/")[1:-1]
_API_DEPTH: Final = _BELOW_API.count("/")
_FOUND: Final = "graveler.found"  # in a scope: what the index found, until the route takes it
_ASKED: Final = "graveler.asked"  # in a scope: the application whose index knows no such route
_PLAIN: Final = message(
    403,
    "plain HTTP is for this machine only: use TLS, by the service (--tls-certificate) or by a "
    "proxy that it trusts (--trusted-proxy)",
)
# FastAPI would ask for providers at each request, which takes as long as half of the rest here.
_NO_TELEMETRY: Final = {"tracing": False, "metrics": False, "logs": False}
_MAKING: Final = RLock()
_REFUSED: Final = frozenset(("dependencies", "max_body_size"))
_NOT_STARTED: Final = (
    "the application has not started: the application that mounts it must enter its lifespan "
    "(graveler.app.lifespan_of)"
)


class Tree(NamedTuple):
    """Routes as a tree of path segments.  A look-up takes one dictionary access for each
    segment."""

    literal: dict[str, "Tree"]
    variable: list["Tree"]  # at most one
    here: dict[str, "OperationRoute"]  # by method

    @classmethod
    def empty(cls) -> "Tree":
        return cls({}, [], {})

    def add(self, path: str, method: str, route: "OperationRoute") -> None:
        """Store `route` under a template such as `/repositories/{repository}`."""
        node = self
        for segment in path.strip("/").split("/"):
            if segment.startswith("{"):
                if not node.variable:
                    node.variable.append(Tree.empty())
                node = node.variable[0]
            else:
                node = node.literal.setdefault(segment, Tree.empty())
        assert method not in node.here, f"two routes for {method} {path}"
        node.here[method] = route

    def find(self, segments: Sequence[str], method: str) -> "Found | None":
        """The route, and the variable segments, still quoted."""
        node, values = self, []
        for segment in segments:
            child = node.literal.get(segment)
            if child is None:
                if not node.variable or not segment:
                    return None
                values.append(segment)
                child = node.variable[0]
            node = child
        route = node.here.get(method)
        return None if route is None else (route, values)


Found = tuple["OperationRoute", list[str]]


class OperationRoute(APIRoute):
    """The route of one operation.

    The index of the application finds it and runs its plan.  An application that includes the
    router finds it as any other route of FastAPI, so that the dependencies of that application run
    first.
    """

    def __init__(self, operation: Operation, host: "Graveler") -> None:
        self._operation = operation
        self._host = host
        self._is_whole = False
        self.plan = Plan(operation)

    def __getattr__(self, name: str) -> Any:
        """What FastAPI knows of a route is made when something of it is first read: a start does
        not pay for what it never serves."""
        with _MAKING:
            if name in self.__dict__:  # made by another thread meanwhile
                return self.__dict__[name]
            if name.startswith("__") or self._is_whole:
                raise AttributeError(name)
            self._is_whole = True
            self._make(self._operation)
        return getattr(self, name)

    def _make(self, operation: Operation) -> None:
        super().__init__(
            API_PREFIX + operation.path,
            _endpoint,
            name=operation.name,
            operation_id=operation.name,
            methods=[operation.method],
            tags=[operation.tag],
            summary=operation.summary,
            status_code=min(operation.answers),
            response_model=None,
            response_class=Response,
        )

    @property
    def openapi_extra(self) -> dict[str, Any]:
        """Made with the document, so that the start of a process does not pay for it."""
        return openapi.described(self._operation)

    @openapi_extra.setter
    def openapi_extra(self, _: object) -> None:
        """FastAPI sets it when it makes the route."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        if _FOUND in scope:  # `_traced` asks again
            return Match.FULL, {}
        if scope.get(_ASKED) is self._host:
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        found = scope.pop(_FOUND, None)
        if found is None:
            await super().handle(scope, receive, send)
        else:
            host, values = found
            await host.dispatch.answer(self.plan, values, scope, receive, send)

    async def traced(self, scope: Any, receive: Any, send: Any) -> None:
        """As `handle`, through a router of FastAPI, which names a span after the route."""
        await self._alone(scope, receive, send)

    @cached_property
    def _alone(self) -> APIRouter:
        return APIRouter(routes=[self])

    async def relay(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request that FastAPI's router found."""
        host, path = self._host, self._operation.path
        names = path.strip("/").split("/")
        values = _raw_path(scope).split("/")[-len(names) :]
        pairs = zip(names, values, strict=True)
        host.check_started()
        if host.is_refused(scope, is_wanted=False):
            await host.send(scope, receive, send, _PLAIN)
            return
        variable = [value for name, value in pairs if name.startswith("{")]
        await host.dispatch.answer(self.plan, variable, scope, receive, send)


async def _endpoint(request: Request) -> Response:
    return _Relayed(request.scope["route"])


class _Relayed(Response):
    """What FastAPI gets from the endpoint of an operation: a response that runs the operation when
    it is sent."""

    def __init__(self, route: OperationRoute) -> None:
        self._route, self.status_code, self.background = route, 200, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._route.relay(scope, receive, send)


class _Sent(Response):
    """An answer of this service, as a response of FastAPI."""

    def __init__(self, host: "Graveler", answer: Answer) -> None:
        self._host, self._answer = host, answer
        self.status_code, self.background = answer.status, None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._host.send(scope, receive, send, self._answer)


class _Fork(ServerErrorMiddleware):
    """Sends requests that the application answers itself past FastAPI."""

    def __init__(self, app: Any, host: "Graveler", **options: Any) -> None:
        super().__init__(app, **options)
        self._find = host.find

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = self._find(scope) if scope["type"] == "http" else None
        if found is None:
            await super().__call__(scope, receive, send)
        else:
            await found(scope, receive, send)


class Graveler(FastAPI):
    """The application.

    `life`: entered at the start and left at the stop, on the thread of the event loop; it calls
    `use`, unless somebody did before.  `operations`: those of the API that it has.  `options`: as
    for `FastAPI`, but that it observes itself only if `telemetry` is given.  Raises `TypeError` for
    those that operations would not have.
    """

    dispatch: Dispatch

    def __init__(
        self,
        life: Life = nullcontext,
        operations: Iterable[Operation] = OPERATIONS,
        **options: Any,
    ) -> None:
        @asynccontextmanager
        async def lifespan(_app: object) -> AsyncIterator[None]:
            with life():
                yield

        for name in _REFUSED.intersection(options):
            raise TypeError(f"operations would not have it: use middleware: {name}")
        super().__init__(
            title=openapi.TITLE,
            version=__version__,
            description=openapi.DESCRIPTION,
            license_info=openapi.LICENSE,
            servers=[{"url": API_PREFIX}],
            lifespan=lifespan,
            redirect_slashes=False,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            **{"telemetry": _NO_TELEMETRY, **options},
        )
        self.openapi_version = "3.0.3"  # what lakeFS's clients are made from
        self._operations = tuple(operations)
        self._document: dict[str, Any] = {}
        self._describing = Lock()
        self._tree = Tree.empty()
        for operation in self._operations:
            route = OperationRoute(operation, self)
            self._tree.add(operation.path, operation.method, route)
            self.router.routes.append(route)
        self.router.default = self._default
        self.add_exception_handler(GravelerError, self._failed)
        self._service: Service | None = None
        self._further: Route | Literal[Absent.ABSENT] = ABSENT

    def use(
        self,
        service: Service,
        further: Route | Literal[Absent.ABSENT] = ABSENT,
        namespace: str = "",
    ) -> "Graveler":
        """Answer with `service` from now on, and return this application.

        `further`: answers the requests that it wants, whatever their path.  `namespace`: see
        `Pages`."""
        self._service = service
        self._further = further
        self._tls_only = service.settings.front.tls_only
        self.dispatch = Dispatch(service)
        self._pages = Pages(service, self.openapi, namespace)
        return self

    @property
    def service(self) -> Service:
        """The service behind the application.  Raises `RuntimeError` before the start."""
        self.check_started()
        return cast(Service, self._service)

    def check_started(self) -> None:
        """Raises `RuntimeError` before the start."""
        if self._service is None:
            raise RuntimeError(_NOT_STARTED)

    def find(self, scope: Scope) -> Application | None:
        """What answers a request before FastAPI's own router is asked."""
        if self._service is None:
            raise RuntimeError(_NOT_STARTED)
        further = self._further
        is_wanted = further is not ABSENT and further.wants(scope)
        if self._tls_only and self.is_refused(scope, is_wanted=is_wanted):
            return self._refuse
        if is_wanted and further is not ABSENT:
            return further.handle
        path: str = route_path(scope) if scope.get("root_path") else scope["path"]
        if path.startswith(_BELOW_API):
            depth = _API_DEPTH + scope["path"].count("/", 0, len(scope["path"]) - len(path))
            segments = _raw_path(scope).split("/")
            is_api = segments[depth - len(_API_SEGMENTS) : depth] == _API_SEGMENTS
            found = self._tree.find(segments[depth:], scope["method"]) if is_api else None
            if found is not None:
                route, values = found
                scope[_FOUND] = (self, values)
                scope["route"], scope["endpoint"] = route, route.endpoint
                return route.traced if "fastapi.telemetry" in scope else route.handle
        elif path in DIRECT_PATHS or path.startswith(PRESIGNED_PATH):
            return self._pages.handle
        scope[_ASKED] = self
        return None

    def is_refused(self, scope: Scope, *, is_wanted: bool) -> bool:
        """Whether a request must use TLS, whatever it asks.  The pages that say whether the service
        is ready stay open: they show nothing.  `is_wanted`: another route than the pages answers
        it, even one with their path."""
        if not self.service.settings.front.refuses(scope):
            return False
        is_read = scope["method"] in ("GET", "HEAD")
        return is_wanted or not is_read or route_path(scope) not in HEALTH_PATHS

    async def send(self, scope: Scope, receive: Receive, send: Send, answer: Answer) -> None:
        """Send an answer of the service."""
        await send_answer(self.service, scope, receive, send, answer)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.send(scope, receive, send, _PLAIN)

    async def _default(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer what nobody has a route for."""
        if scope["type"] != "http":
            await APIRouter().not_found(scope, receive, send)
            return
        path = route_path(scope)
        if path.startswith(_BELOW_API):
            await self.send(scope, receive, send, unmatched(path[len(_BELOW_API) :]))
        else:
            await self._pages.handle(scope, receive, send)

    async def _failed(self, request: Request, error: Exception) -> Response:
        """The answer for an error that a route of somebody else raised."""
        note_request_id(self.service, request.scope)
        names = {name: str(value) for name, value in request.path_params.items()}
        return _Sent(self, errors.answer(error, "", names, request.scope))

    def build_middleware_stack(self) -> Any:
        """FastAPI's, with `_Fork` behind the middleware that was added; as the first if none was,
        so that nothing wraps what the server hands out."""
        if self.user_middleware:
            added = self.user_middleware
            self.user_middleware = [*added, Middleware(cast(Any, _Fork), self)]
            try:
                return super().build_middleware_stack()
            finally:
                self.user_middleware = added
        whole = cast(ServerErrorMiddleware, super().build_middleware_stack())
        return _Fork(whole.app, self, handler=whole.handler, debug=whole.debug)

    def openapi(self) -> dict[str, Any]:
        """The document of all operations, and of the routes that were added."""
        with self._describing:
            whole = super().openapi()
            if whole is not self._document:  # FastAPI has made it anew
                openapi.complete(whole, self._operations)
                self._document = whole
            return whole


def _raw_path(scope: Scope) -> str:
    """The path as it was sent, so that `%2F` in a name stays in the name."""
    raw: bytes | None = scope.get("raw_path")
    return raw.decode("latin-1") if raw else quote(scope["path"])


def lifespan_of(*hosts: FastAPI) -> Callable[[Any], Any]:
    """The lifespan of an application that mounts `hosts`, whose own would not run.

    app = FastAPI(lifespan=lifespan_of(lake))
    """

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for host in hosts:
                await stack.enter_async_context(host.router.lifespan_context(host))
            yield

    return lifespan
