"""The application in the hands of others: mounted, wrapped in middleware, observed, extended."""

import asyncio
import base64
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.middleware.gzip import GZipMiddleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.responses import Response
from starlette.routing import Mount

from graveler import create_app
from graveler.api.app import Graveler
from graveler.app import DEFAULTS, AppOptions, Caller, OpenRepository, lifespan_of, requires
from graveler.engine.repositories import repository
from graveler.http.dispatch import Application
from graveler.http.permissions import REPO_ARN
from tests.api.serving import ADMINISTRATOR, API, basic, running

KEYS = (ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)
AS_ADMINISTRATOR = {"Authorization": basic(*KEYS)}
LARGE = bytes(range(256)) * 20_000


@contextmanager
def client_of(app: Application) -> Iterator[httpx.Client]:
    with running(app) as (at, _), httpx.Client(base_url=at.url, headers=AS_ADMINISTRATOR) as client:
        yield client


def create(client: httpx.Client, below: str = "", name: str = "lake") -> None:
    body = {"name": name, "storage_namespace": f"local://{name}/x"}
    reply = client.post(f"{below}{API}/repositories", json=body)
    assert reply.status_code == 201, reply.text


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def app(store: Path) -> Graveler:
    return create_app(store, administrator=KEYS)


# ---- start ---------------------------------------------------------------------------------------


def test_a_store_is_open_from_start_to_stop_and_keeps_what_was_written(store: Path) -> None:
    with client_of(create_app(store, administrator=KEYS)) as client:
        create(client)
    with client_of(create_app(store)) as client:
        assert client.get(f"{API}/repositories/lake").status_code == 200


def test_an_application_that_did_not_start_says_what_to_do(app: Graveler) -> None:
    with pytest.raises(RuntimeError, match="lifespan_of"):
        asyncio.run(ask(app, f"{API}/healthcheck"))


# ---- mounts --------------------------------------------------------------------------------------


@pytest.fixture
def mounted(app: Graveler) -> Iterator[httpx.Client]:
    parent = FastAPI(lifespan=lifespan_of(app))
    parent.mount("/lake", app)
    with client_of(parent) as client:
        yield client


def test_a_mounted_application_answers_below_its_prefix(mounted: httpx.Client) -> None:
    create(mounted, "/lake")
    assert mounted.get("/lake/_health").text.startswith("alive!")
    assert mounted.get(f"/lake{API}/repositories/lake").json()["id"] == "lake"
    assert mounted.get(f"{API}/repositories/lake").status_code == 404
    assert mounted.get(f"/lake{API}/nothing").json() == {"message": "invalid API endpoint"}
    assert mounted.get("/lake/nothing").status_code == 404


def test_a_quoted_slash_stays_in_a_name(mounted: httpx.Client) -> None:
    create(mounted, "/lake")
    branches = f"/lake{API}/repositories/lake/branches"
    for name in ("a%2Fb", "main%2Fx"):
        reply = mounted.get(f"{branches}/{name}")
        assert reply.json()["message"] != "invalid API endpoint"
        assert reply.status_code in (400, 404)


@pytest.mark.parametrize("below", ["", "/lake"])
def test_a_quoted_slash_before_a_name_leads_nowhere(app: Graveler, below: str) -> None:
    """Else who filters by the path, as a proxy, would see another one than is answered."""
    parent = FastAPI(lifespan=lifespan_of(app))
    parent.mount("/lake", app)
    with client_of(parent if below else app) as client:
        assert client.get(f"{below}{API}/repositories").status_code == 200
        for path in ("/api%2Fv1/x/repositories", "/api/v1%2Fx/repositories"):
            reply = client.get(below + path)
            assert (reply.status_code, "invalid API endpoint" in reply.text) == (404, True)


def test_links_and_documents_of_a_mount_lead_below_its_prefix(mounted: httpx.Client) -> None:
    document = mounted.get("/lake/openapi.json").json()
    assert document["servers"] == [{"url": f"/lake{API}"}]
    assert "/repositories" in document["paths"]
    assert 'href="/lake/openapi.json"' in mounted.get("/lake/docs").text
    assert 'href="/lake/"' in mounted.get("/lake/nothing").text
    reply = mounted.get("/lake/logout", follow_redirects=False)
    assert reply.headers["location"] == "/lake/"


def test_signed_urls_of_a_mount_lead_to_it(store: Path) -> None:
    options = AppOptions(settings=DEFAULTS._replace(presigns=True))
    app = create_app(store, administrator=KEYS, options=options)
    parent = FastAPI(lifespan=lifespan_of(app))
    parent.mount("/lake", app)
    with client_of(parent) as client:
        create(client, "/lake")
        objects = f"/lake{API}/repositories/lake/branches/main/objects"
        assert client.post(objects, params={"path": "a"}, content=b"abc").status_code == 201
        stat = f"/lake{API}/repositories/lake/refs/main/objects/stat"
        found = client.get(stat, params={"path": "a", "presign": "true"}).json()
        assert found["physical_address"].startswith(f"{client.base_url}/lake/_presigned/")
        assert httpx.get(found["physical_address"]).content == b"abc"


def test_a_root_path_of_a_proxy_is_part_of_links(store: Path) -> None:
    app = create_app(store, administrator=KEYS)

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": "/lake"}, receive, send)

    with client_of(behind) as client:
        assert client.get("/openapi.json").json()["servers"] == [{"url": f"/lake{API}"}]
        assert client.get(f"{API}/repositories").status_code == 200


def test_an_application_that_includes_the_router_runs_its_own_dependencies_first(
    app: Graveler,
) -> None:
    def let_in(request: Request) -> None:
        if request.headers.get("x-badge") != "yes":
            raise HTTPException(418, "no badge")

    parent = FastAPI()
    parent.include_router(app.router, prefix="/lake", dependencies=[Depends(let_in)])
    with client_of(parent) as client:
        assert client.get(f"/lake{API}/repositories").status_code == 418
        client.headers["x-badge"] = "yes"
        create(client, "/lake")
        assert client.get(f"/lake{API}/repositories/lake").json()["id"] == "lake"
        client.headers["Authorization"] = "Basic eDp5"
        assert client.get(f"/lake{API}/repositories/lake").status_code == 401


# ---- routes of others ----------------------------------------------------------------------------


def add_routes(app: FastAPI) -> None:
    router = APIRouter()

    @router.get("/who")
    async def who(caller: Caller) -> dict[str, str]:
        return {"user": caller.user}

    @router.get("/branch/{repository}")
    async def default_branch(repo: OpenRepository) -> dict[str, str]:
        return {"branch": repo.record.default_branch}

    @router.get(API + "/of/{repository}", dependencies=[requires("fs:DeleteRepository", REPO_ARN)])
    async def guarded() -> dict[str, str]:
        return {"may": "delete"}

    @router.get("/missing", dependencies=[requires("fs:ReadObject", REPO_ARN)])
    async def missing() -> None: ...

    @router.get("/")
    async def home() -> dict[str, str]:
        return {"home": "of others"}

    app.include_router(router)


def test_a_route_of_others_uses_the_caller_and_an_open_repository(app: Graveler) -> None:
    add_routes(app)
    with client_of(app) as client:
        create(client)
        assert client.get("/who").json() == {"user": "admin"}
        assert client.get("/branch/lake").json() == {"branch": "main"}
        assert client.get(f"{API}/of/lake").json() == {"may": "delete"}
        assert client.get("/").json() == {"home": "of others"}
        assert client.get(f"{API}/repositories/lake").status_code == 200
        document = client.get("/openapi.json").json()
        assert document["paths"]["/who"]["servers"] == [{"url": "/"}]
        assert document["paths"]["/of/{repository}"]["get"]["responses"]["200"]
        assert "/who" in client.get("/docs").text


def test_dependencies_fail_as_operations_of_the_api_do(app: Graveler) -> None:
    add_routes(app)
    with client_of(app) as client:
        create(client)
        missing = client.get("/branch/none")
        assert (missing.status_code, missing.json()["message"]) == (404, "repository not found")
        assert client.get("/missing").status_code == 400
        client.post(f"{API}/auth/users", json={"id": "eve"})
        key = client.post(f"{API}/auth/users/eve/credentials").json()
        client.headers["Authorization"] = basic(key["access_key_id"], key["secret_access_key"])
        assert client.get("/who").json() == {"user": "eve"}
        # whoever may not see a repository is not told whether it exists
        answers = {client.get(f"/branch/{name}").text for name in ("lake", "none")}
        assert len(answers) == 1
        assert client.get(f"{API}/of/lake").status_code in (403, 404)
        client.headers["Authorization"] = "Basic eDp5"
        refused = client.get("/who")
        assert (refused.status_code, refused.json()["message"]) == (
            401, "error authenticating request",
        )  # fmt: skip


def test_a_permission_counts_for_all_that_a_route_is_given(app: Graveler) -> None:
    @app.get("/several", dependencies=[requires("fs:ReadRepository", REPO_ARN)])
    async def several(repository: Annotated[list[str], Query()]) -> list[str]:
        return repository

    with client_of(app) as client:
        assert client.get("/several?repository=ours").json() == ["ours"]
        twice = client.get("/several?repository=theirs&repository=ours")
        assert (twice.status_code, "twice" in twice.text) == (400, True)


def test_a_permission_of_a_route_names_an_action_that_exists() -> None:
    with pytest.raises(ValueError, match="fs:Dance"):
        requires("fs:Dance", REPO_ARN)


def test_errors_of_the_engine_in_a_route_of_others_are_answers(app: Graveler) -> None:
    @app.get("/fails")
    async def fails(request: Request) -> None:
        repository.get(app.service.ports, "none")

    with client_of(app) as client:
        assert client.get("/fails").json() == {"message": "repository not found"}


# ---- middleware ----------------------------------------------------------------------------------


class _Stamp(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        response.headers["x-stamp"] = request.method
        return response


def _stamped(app: Graveler) -> None:
    app.add_middleware(_Stamp)


def _compressed(app: Graveler) -> None:
    app.add_middleware(GZipMiddleware, minimum_size=100)


def _both(app: Graveler) -> None:
    _compressed(app)
    _stamped(app)


@pytest.mark.parametrize("wrap", [_stamped, _compressed, _both])
def test_middleware_around_it_breaks_no_large_download(
    app: Graveler, wrap: Callable[[Graveler], None]
) -> None:
    wrap(app)
    with running(app) as (client, _):
        body = {"name": "lake", "storage_namespace": "local://lake/x"}
        assert client.send("POST", "/repositories", body=body).status == 201
        assert client.upload("lake", "large", LARGE).status == 201
        target = f"{API}/repositories/lake/refs/main/objects?path=large"
        for headers in ({}, {"Accept-Encoding": "gzip"}):
            reply = client.raw("GET", target, headers=headers)
            is_zipped = reply.headers.get("content-encoding") == "gzip"
            assert is_zipped == (wrap is not _stamped and bool(headers))
            assert (gzip.decompress(reply.body) if is_zipped else reply.body) == LARGE
            assert reply.headers.get("x-stamp", "GET") == "GET"
        part = client.raw("GET", target, headers={"Range": "bytes=10-19"})
        assert (part.status, part.body) == (206, LARGE[10:20])


def test_middleware_sees_errors_and_changes_answers(app: Graveler) -> None:
    seen: list[int] = []

    @app.middleware("http")
    async def count(request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        seen.append(response.status_code)
        return response

    with client_of(app) as client:
        client.get(f"{API}/repositories/none")
        client.get("/_health")
        client.get("/nothing")
    assert seen == [404, 200, 404]


# ---- telemetry -----------------------------------------------------------------------------------


def test_a_span_is_named_after_the_operation(app: Graveler) -> None:
    """FastAPI tells its telemetry of the route that its router selects."""
    from fastapi.telemetry import get_telemetry_data
    from opentelemetry.trace import (
        INVALID_SPAN_CONTEXT,
        NonRecordingSpan,
        Span,
        Tracer,
        TracerProvider,
    )

    names: list[str] = []

    class Named(NonRecordingSpan):
        def update_name(self, name: str) -> None:
            names.append(name)

    class Spans(Tracer):
        def start_span(self, name: str, *_: Any, **__: Any) -> Span:
            return Named(INVALID_SPAN_CONTEXT)

        def start_as_current_span(self, name: str, *_: Any, **__: Any) -> Any:
            raise AssertionError(name)

    class Provider(TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Tracer:
            return Spans()

    assert get_telemetry_data() is None
    telemetry: Any = {
        "tracer_provider": Provider(), "operation_spans": False, "metrics": False, "logs": False,
    }  # fmt: skip
    parent = FastAPI(lifespan=lifespan_of(app), telemetry=telemetry)
    parent.mount("/lake", app)
    with client_of(parent) as client:
        create(client, "/lake")
        names.clear()
        client.get(f"/lake{API}/repositories/lake/branches/main%2Fx")
    assert names[-1] == f"GET /lake{API}/repositories/{{repository}}/branches/{{branch}}"


# ---- the rest of ASGI ----------------------------------------------------------------------------


async def ask(app: FastAPI, path: str) -> list[Any]:
    """The messages with which an application answers, when the server names no `raw_path`."""
    sent: list[Any] = []
    token = base64.b64encode(":".join(KEYS).encode())
    headers = [(b"host", b"localhost"), (b"authorization", b"Basic " + token)]
    scope = {"type": "http", "method": "GET", "scheme": "http", "query_string": b"", "path": path}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({**scope, "headers": headers}, receive, send)
    return sent


def test_a_scope_without_the_path_as_it_was_sent_is_answered(app: Graveler) -> None:
    async def started() -> list[Any]:
        async with app.router.lifespan_context(app):
            return await ask(app, f"{API}/repositories")

    assert asyncio.run(started())[0]["status"] == 200


@pytest.mark.parametrize("name", ["dependencies", "max_body_size"])
def test_an_option_that_operations_would_not_have_is_refused(store: Path, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        create_app(store, **{name: None})


def test_routes_are_listed_and_have_urls(app: Graveler) -> None:
    url = app.url_path_for("getBranch", repository="lake", branch="main")
    assert url == f"{API}/repositories/lake/branches/main"
    assert not [route for route in app.routes if isinstance(route, Mount)]
