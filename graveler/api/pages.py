"""Paths outside the API: `/`, health, metrics, the OpenAPI document, `/docs`, logout, signed URLs.

Metrics need credentials.  The other paths reveal nothing, or carry their own signature.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from itertools import chain
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from graveler.api import errors, openapi
from graveler.api.answers import HTML, JSON, PLAIN
from graveler.api.signed_urls import answer_signed
from graveler.auth.access import Caller
from graveler.auth.permissions import Permission
from graveler.block.adapter import Blocks
from graveler.block.signature import PRESIGNED_PATH
from graveler.committed.cache import CacheFigures
from graveler.core.errors import Corrupt, GravelerError, Invalid, NotFound, StorageFull
from graveler.core.records import ABSENT
from graveler.engine import staged_rows
from graveler.engine.repositories import repository
from graveler.engine.staged_rows import StagedRows
from graveler.http import front, metrics
from graveler.http.answers import (
    NOSNIFF,
    Answer,
    Headers,
    Receive,
    Scope,
    Send,
    text_header,
)
from graveler.http.audit import AuditLog, RequestTrace
from graveler.http.dispatch import note_request_id, route_path, send_answer
from graveler.http.front import cors_headers, host_of, token_of_cookie
from graveler.http.intake import Disconnected
from graveler.http.service import Service
from graveler.kv.store import Store
from graveler.refs import job_records
from graveler.ui.assets import PREFIX
from graveler.ui.shell import OPEN_PAGES, Page

# ---- metrics and readiness -----------------------------------------------------------------------

METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/_health"
READY_PATH: Final = "/_health/ready"
_PERMISSIONS: Final = (Permission("fs:ReadConfig", "*"),)
_CONTENT: Final = ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), NOSNIFF)
_COUNTS_SECONDS: Final = 60.0
_COUNT_SECONDS: Final = 1.0
_ROWS_MAX: Final = 10_000  # of uncommitted rows that are counted
_READY_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 2.0
_WRITE_SECONDS: Final = 5.0
_ROW: Final = (b"ready", b"ready")  # a place for this alone; empty unless the settings say so
_NO_OBJECT: Final = "_graveler/ready"  # an address below a namespace where no object is
_READY: Final = Answer(200, PLAIN, b"ready")
_NO_ANSWER: Final = "the store does not answer"
_FULL: Final = "no room is left, so the store takes no writes"
_DAMAGED: Final = "files of the store are damaged: read the log, and restore a back-up"


class _Census(NamedTuple):
    """What was counted: jobs by state, and in how many repositories; uncommitted rows."""

    at: float
    states: Mapping[str, int]
    repositories: int
    staged: StagedRows


class Observation:
    """Answers both paths."""

    def __init__(self, service: Service, namespace: str = "") -> None:
        """`namespace`: where the object store must answer too; empty: it is not asked."""
        self._service = service
        self._namespace = namespace
        self._census = _Census(float("-inf"), {}, 0, StagedRows(0, 0))
        self._ready_at = float("-inf")
        self._written_at = float("-inf")
        self._failure = _NO_ANSWER  # empty: it is ready
        self._asking: asyncio.Future[None] | None = None

    async def metrics(self, caller: Caller) -> Answer:
        """The metrics of this process.  Raises `Refused`."""
        auth, pools = self._service.auth, self._service.pools
        await pools.point(auth.authorize, caller, _PERMISSIONS)
        return await pools.writers.start(self._text)

    def _text(self) -> Answer:
        census = self._counted()
        lines = chain(
            self._service.metrics.lines(),
            metrics.cache_lines(self._caches()),
            metrics.job_lines(census.states, census.repositories),
            metrics.staged_lines(census.staged.rows, census.staged.branches),
        )
        return Answer(200, _CONTENT, ("\n".join(lines) + "\n").encode())

    def _caches(self) -> Mapping[str, CacheFigures]:
        caches: Mapping[str, CacheFigures] = getattr(self._service.ports.ranges, "caches", {})
        return caches

    def _counted(self) -> _Census:
        now = self._service.ports.clock.steady_seconds()
        if now - self._census.at >= _COUNTS_SECONDS:
            states, repositories = self._jobs()
            self._census = _Census(now, states, repositories, self._staged())
        return self._census

    def _jobs(self) -> tuple[Mapping[str, int], int]:
        """Jobs by state, and in how many repositories."""
        goes_on = self._for_a_second()
        states: Counter[str] = Counter()
        count = 0
        for repo in repository.every(self._service.ports):
            if not goes_on():
                break
            jobs = job_records.list_all(repo.kv, repo.record)
            states.update(seen.job.state.name.lower() for seen in jobs)
            count += 1
        return states, count

    def _staged(self) -> StagedRows:
        return staged_rows.count(self._service.ports, _ROWS_MAX, self._for_a_second())

    def _for_a_second(self) -> Callable[[], bool]:
        clock = self._service.ports.clock
        end = clock.steady_seconds() + _COUNT_SECONDS
        return lambda: clock.steady_seconds() < end

    async def ready(self) -> Answer:
        """Whether the store answers, and takes writes.  At most once a second 1 KV request, and
        with a namespace 1 block request."""
        age = self._service.ports.clock.steady_seconds() - self._ready_at
        if self._asking is None and age >= _READY_SECONDS:
            self._asking = asyncio.ensure_future(self._ask())
        if self._asking is not None:  # all who ask meanwhile wait for the same answer
            await asyncio.shield(self._asking)
        if not self._failure:
            return _READY
        headers = (*PLAIN, (b"retry-after", b"1"))
        return Answer(503, headers, f"not ready: {self._failure}".encode())

    async def _ask(self) -> None:
        try:
            self._failure = await self._reach_store()
            self._ready_at = self._service.ports.clock.steady_seconds()
        finally:
            self._asking = None

    async def _reach_store(self) -> str:
        """Why the process is not ready; empty if it is.  Anybody reads it, so it has no names."""
        answer = self._service.pools.walkers.start(self._ask_stores)
        try:
            await asyncio.wait_for(answer, _WAIT_SECONDS)
        except StorageFull:
            return _FULL
        except Corrupt:
            return _DAMAGED
        except (GravelerError, TimeoutError):
            return _NO_ANSWER
        return ""

    def _ask_stores(self) -> None:
        kv, now = self._service.ports.kv, self._service.ports.clock.steady_seconds()
        if self._service.settings.ready_writes and now - self._written_at >= _WRITE_SECONDS:
            kv.set(*_ROW, b"", b"")
            self._written_at = now
        else:
            ask_table(kv)
        if self._namespace:
            ask_bucket(self._service.ports.blocks, self._namespace)


def ask_table(kv: Store) -> None:
    """Ask the key-value store for a row that need not exist.  Raises `Unavailable` if it does not
    answer.  1 request."""
    kv.get(*_ROW)


def ask_bucket(blocks: Blocks, namespace: str) -> None:
    """Ask the object store for an object below `namespace` that does not exist.  Raises
    `Unavailable` if it does not answer, or has no such bucket.  1 request."""
    with suppress(NotFound):
        blocks.read(f"{namespace}/{_NO_OBJECT}", 0, 1)


# ---- pages ---------------------------------------------------------------------------------------

_FIELDS_MAX: Final = 16  # in the query of a signed URL; a valid one has four
DOCUMENT_PATH: Final = "/openapi.json"
REFERENCE_PATH: Final = "/docs"
_LOGOUT: Final = "/logout"
_ALIVE_PATHS: Final = (HEALTH_PATH, "/healthcheck")
HEALTH_PATHS: Final = (*_ALIVE_PATHS, READY_PATH)
DIRECT_PATHS: Final = frozenset((*HEALTH_PATHS, METRICS_PATH))
OPEN_PATHS: Final = (
    *("/", *HEALTH_PATHS, DOCUMENT_PATH, REFERENCE_PATH, _LOGOUT, PRESIGNED_PATH),
    *(*OPEN_PAGES, PREFIX),
)
# What only the paid edition of lakeFS serves: clients get the answer of its free edition.
_NOT_OFFERED: Final = ("/iceberg/api/", "/iceberg/relative_to/", "/mds/iceberg/api/")
_ONLY_TLS: Final = (b"strict-transport-security", b"max-age=31536000")
_NOT_IMPLEMENTED: Final = Answer(501, PLAIN, b"Not Implemented\n")

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem;"
    "color:#222;background:#fff}code{background:#eee;padding:.1em .3em}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{border:1px solid #8888;padding:.1em .5em;"
    "text-align:left;vertical-align:top}details{margin:.3em 0}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#333}"
    "a{color:#8bf}}"
)
_WELCOME: Final = """<h1>Graveler is running</h1>
<p>Git for data lakes: repositories, branches, commits and merges over objects.</p>
<ul>
<li>The API is served under <code>{root}/api/v1</code>; any lakeFS client can use it with
<code>{host}{root}</code> as its endpoint.</li>
<li>Its description: <a href="{root}/docs"><code>{root}/docs</code></a>, and for programs
<a href="{root}/openapi.json"><code>{root}/openapi.json</code></a>; health:
<a href="{root}/_health"><code>{root}/_health</code></a>.</li>
<li>The page for browsers is not built: <code>make ui</code> builds it.</li>
<li>The documentation lies in the folder <code>docs/</code> of the project; begin with
<code>README.md</code>.</li>
</ul>"""
_NOT_HERE: Final = """<h1>Nothing is served here</h1>
<p>The API lies under <code>{root}/api/v1</code>; <a href="{root}/">the first page</a>
says more.</p>"""


class _Described(NamedTuple):
    """A page made from a document, for an application that is mounted at `root`."""

    of: Mapping[str, Any]
    root: str
    answer: Answer


class Pages:
    """The route of every path that is not below the API."""

    def __init__(
        self, service: Service, document: Callable[[], dict[str, Any]], namespace: str = ""
    ) -> None:
        """`document`: makes the OpenAPI document.  `namespace`: as for `Observation`."""
        self._service = service
        self._document = document
        settings = service.settings
        self._page_in_browser = Page(
            storage_origins=settings.storage_origins, dollars=settings.page_dollars.text
        )
        self._instance = _uuid(service.ports.ids.stamp())
        self._pages: dict[str, _Described] = {}
        self._observation = Observation(service, namespace)
        self._audit = AuditLog(service)

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        path = route_path(scope)
        trace = RequestTrace()
        note_request_id(self._service, scope)
        try:
            if path.startswith(PRESIGNED_PATH):
                answer = await self._presigned(scope, path[len(PRESIGNED_PATH) :], receive)
            elif path in (METRICS_PATH, READY_PATH) and scope["method"] in ("GET", "HEAD"):
                answer = await self._observed(scope, path, trace)
            elif path in (DOCUMENT_PATH, REFERENCE_PATH) and scope["method"] in ("GET", "HEAD"):
                answer = await self._described(path, scope.get("root_path", ""))
            else:
                if path == _LOGOUT and self._logs_out(scope):
                    trace.acting = await self._end_session(scope)
                answer = self._page(scope, path)
        except Disconnected:
            answer = Answer(499)
        except Exception as error:
            trace.fail(error)
            is_known = trace.account is not ABSENT
            answer = errors.answer(error, "", {}, scope, is_known=is_known)
        if trace.acting or trace.denied(answer.status):
            self._audit.record(_operation(path), scope, trace, answer.status)
        if trace.changes:
            self._audit.record_changes(scope, trace, answer.status)
        answer = answer._replace(headers=(*answer.headers, *self._headers(scope, path)))
        await send_answer(self._service, scope, receive, send_message, answer)

    def _headers(self, scope: Scope, path: str) -> Headers:
        """The headers that depend on the request alone."""
        front = self._service.settings.front
        headers: Headers = ()
        if path.startswith(PRESIGNED_PATH):
            headers = cors_headers(front.cors_origins, scope["headers"])
        origin = front.origin(scope)
        # A browser would ask every other service at this name by TLS too, whatever its port.
        is_shared = host_of(origin.host) == "localhost"
        return (*headers, _ONLY_TLS) if origin.secure and not is_shared else headers

    async def _observed(self, scope: Scope, path: str, trace: RequestTrace) -> Answer:
        if path == READY_PATH:
            return await self._observation.ready()
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        auth, client = self._service.auth, self._service.settings.front.client(scope)
        caller = await self._service.pools.point(
            auth.identify, authorization, "", lambda: client, trace.changes
        )
        trace.account = caller
        self._service.rates.take(caller.record.uid)
        return await self._observation.metrics(caller)

    def _page(self, scope: Scope, path: str) -> Answer:
        """A page that asks no store.  It is made on the event loop and never in a pool: a process
        whose threads all wait for its store is still alive, and says so."""
        if path.startswith(_NOT_OFFERED):
            return _NOT_IMPLEMENTED
        root = escape(scope.get("root_path", ""))
        if path == _LOGOUT and scope["method"] in ("GET", "HEAD", "POST"):
            return self._logged_out(scope)
        if scope["method"] not in ("GET", "HEAD"):
            return _html(_NOT_HERE.format(root=root), 404)
        if path in _ALIVE_PATHS:
            return Answer(200, PLAIN, f"alive! {self._instance}".encode())
        query = scope["query_string"].decode("latin-1")
        in_browser = self._page_in_browser.answer(path, dict(scope["headers"]), query)
        if in_browser is not ABSENT:
            return in_browser
        if path in ("", "/"):
            host = escape(self._service.settings.front.origin(scope).url)
            return _html(_WELCOME.format(host=host, root=root), 200)
        return _html(_NOT_HERE.format(root=root), 404)

    def _logs_out(self, scope: Scope) -> bool:
        """A page ends its session by a POST with its header; a program or the reader by a GET too.
        A link to it, in a document of somebody else, ends nothing."""
        headers = dict(scope["headers"])
        if scope["method"] == "POST":
            return front.is_of_page(self._service.settings.front, scope, headers)
        return scope["method"] == "GET" and front.is_of_no_page(headers)

    def _logged_out(self, scope: Scope) -> Answer:
        status = 303 if scope["method"] == "POST" else 307
        answer = Answer(status, (text_header(b"location", scope.get("root_path", "") + "/"),))
        if not self._logs_out(scope):
            return answer
        ended = front.ended_cookie(self._service.settings.front.origin(scope))
        return answer._replace(headers=(*answer.headers, (b"set-cookie", ended)))

    async def _end_session(self, scope: Scope) -> str:
        """End the session of the sender; the result is whose it was, or empty."""
        user = ""
        headers = dict(scope["headers"])
        front = self._service.settings.front
        token = token_of_cookie(front, scope, headers, "GET")
        scheme, _, rest = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        for credential in (token, rest.strip() if scheme.lower() == "bearer" else ""):
            if credential:
                log_out, client = self._service.auth.log_out, front.client(scope)
                ended = await self._service.pools.writers.start(log_out, credential, client)
                user = ended or user
        return user

    async def _described(self, path: str, root: str) -> Answer:
        """The OpenAPI document or its page.  A thread makes it, because that takes longer than a
        request may hold the event loop."""
        known = self._pages.get(path)
        if known is not None and known.of is self._document() and known.root == root:
            return known.answer

        def made() -> _Described:
            document = self._document()
            shown = openapi.below(document, root)
            if path == DOCUMENT_PATH:
                answer = Answer(200, JSON, msgspec.json.encode(shown))
            else:
                answer = _html(openapi.page(shown, root), 200)
            return _Described(document, root, answer)

        made_now = self._pages[path] = await self._service.pools.walkers.start(made)
        return made_now.answer

    async def _presigned(self, scope: Scope, name: str, receive: Receive) -> Answer:
        if front.is_preflight(scope["method"], scope["headers"]):
            origins = self._service.settings.front.cors_origins
            allowed = front.preflight_headers(origins, scope["headers"])
            return Answer(204 if allowed else 403, allowed)
        try:
            fields = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=_FIELDS_MAX)
        except ValueError as error:
            raise Invalid(f"query has an error: at most {_FIELDS_MAX} fields") from error
        headers = dict(scope["headers"])
        return await answer_signed(
            self._service, scope["method"], name, dict(fields), headers, receive
        )


def _operation(path: str) -> str:
    """What the trail calls a path."""
    return "presigned" if path.startswith(PRESIGNED_PATH) else path.strip("/")


def _uuid(stamp: bytes) -> str:
    digits = stamp.hex()
    cuts = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    return "-".join(digits[start:end] for start, end in cuts)


def _html(content: str, status: int) -> Answer:
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width"><title>Graveler</title>'
        f"<style>{_STYLE}</style>{content}</html>"
    )
    return Answer(status, HTML, page.encode())
