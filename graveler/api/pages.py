"""Paths outside the API: the page at `/`, health, the OpenAPI document, its page `/docs`, logout,
presigned bytes, metrics.

Metrics need credentials, and count for the rate of their user.  The other paths need none: they
reveal nothing, or carry their own signature.  `OPEN_PATHS` is the exact list.  Denials and the end
of a session are put on record (witness.py).
"""

from html import escape
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from graveler.api import cookies, errors, reference_page
from graveler.api.answers import HTML, JSON, PLAIN, Answer, Headers
from graveler.api.dispatch import Scope
from graveler.api.feed import Disconnected, Receive
from graveler.api.observation import HEALTH_PATH, METRICS_PATH, READY_PATH, Observation
from graveler.api.openapi import document
from graveler.api.presigned_urls import presigned
from graveler.api.responses import Send, note_request_id, send
from graveler.api.service import Service
from graveler.api.witness import RequestTrace, Witness
from graveler.block.signature import PRESIGNED_PATH
from graveler.errors import Invalid
from graveler.http import cors
from graveler.records import ABSENT

_FIELDS_MAX: Final = 16  # in the query of a signed URL; a valid one has four
DOCUMENT_PATH: Final = "/openapi.json"
REFERENCE_PATH: Final = "/docs"
_ALIVE_PATHS: Final = (HEALTH_PATH, "/healthcheck")
HEALTH_PATHS: Final = (*_ALIVE_PATHS, READY_PATH)
OPEN_PATHS: Final = (
    "/",
    *HEALTH_PATHS,
    DOCUMENT_PATH,
    REFERENCE_PATH,
    "/logout",
    PRESIGNED_PATH,
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
<li>The API is served under <code>/api/v1</code>; any lakeFS client can use it with
<code>{host}</code> as its endpoint.</li>
<li>Its description: <a href="/docs"><code>/docs</code></a>, and for programs
<a href="/openapi.json"><code>/openapi.json</code></a>; health:
<a href="/_health"><code>/_health</code></a>.</li>
<li>The documentation lies in the folder <code>docs/</code> of the project; begin with
<code>README.md</code>.</li>
</ul>"""
_NOT_HERE: Final = """<h1>Nothing is served here</h1>
<p>The API lies under <code>/api/v1</code>; <a href="/">the first page</a> says more.</p>"""


class Pages:
    """The route of every path that is not below the API."""

    def __init__(self, service: Service, namespace: str = "") -> None:
        """`namespace`: as for `Observation`."""
        self._service = service
        self._instance = _uuid(service.ports.ids.stamp())
        self._pages: dict[str, Answer] = {}  # those that never change
        self._observation = Observation(service, namespace)
        self._witness = Witness(service)

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        path: str = scope["path"]
        trace = RequestTrace()
        note_request_id(self._service, scope)
        try:
            if path.startswith(PRESIGNED_PATH):
                answer = await self._presigned(scope, receive)
            elif path in (METRICS_PATH, READY_PATH) and scope["method"] in ("GET", "HEAD"):
                answer = await self._observed(scope, path, trace)
            elif path in (DOCUMENT_PATH, REFERENCE_PATH) and scope["method"] in ("GET", "HEAD"):
                answer = self._pages.get(path) or await self._described(path)
            else:
                if path == "/logout" and scope["method"] == "GET" and not self._is_foreign(scope):
                    trace.acting = await self._end_session(scope)
                answer = self._page(scope, path)
        except Disconnected:
            answer = Answer(499)
        except Exception as error:
            trace.fail(error)
            is_known = trace.account is not ABSENT
            answer = errors.answer(error, "", {}, scope, is_known=is_known)
        if trace.acting or trace.denied(answer.status):
            self._witness.record(_operation(path), scope, trace, answer.status)
        if trace.changes:
            self._witness.record_changes(scope, trace, answer.status)
        answer = answer._replace(headers=(*answer.headers, *self._headers(scope)))
        await send(self._service, scope, receive, send_message, answer)

    def _headers(self, scope: Scope) -> Headers:
        """The headers that depend on the request alone."""
        front = self._service.settings.front
        headers: Headers = ()
        if scope["path"].startswith(PRESIGNED_PATH):
            headers = cors.shared(front.cors_origins, scope["headers"])
        return (*headers, _ONLY_TLS) if front.origin(scope).secure else headers

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
        if scope["method"] not in ("GET", "HEAD"):
            return _html(_NOT_HERE, 404)
        if path in _ALIVE_PATHS:
            return Answer(200, PLAIN, f"alive! {self._instance}".encode())
        if path == "/logout":
            if self._is_foreign(scope):  # a page of another site ends no session
                return Answer(307, ((b"location", b"/"),))
            ended = cookies.ended(self._service.settings.front.origin(scope))
            return Answer(307, ((b"location", b"/"), (b"set-cookie", ended)))
        if path == "/":
            return _html(
                _WELCOME.format(host=escape(self._service.settings.front.origin(scope).url)), 200
            )
        return _html(_NOT_HERE, 404)

    def _is_foreign(self, scope: Scope) -> bool:
        return cookies.is_foreign(self._service.settings.front, scope, dict(scope["headers"]))

    async def _end_session(self, scope: Scope) -> str:
        """End the session of the sender; the result is whose it was, or empty."""
        user = ""
        headers = dict(scope["headers"])
        front = self._service.settings.front
        token = cookies.session(front, scope, headers, "GET")
        scheme, _, rest = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        for credential in (token, rest.strip() if scheme.lower() == "bearer" else ""):
            if credential:
                log_out, client = self._service.auth.log_out, front.client(scope)
                ended = await self._service.pools.writers.start(log_out, credential, client)
                user = ended or user
        return user

    async def _described(self, path: str) -> Answer:
        """The OpenAPI document or its page.  A thread makes it, because that takes longer than a
        request may hold the event loop."""
        make = _document_answer if path == DOCUMENT_PATH else _reference_answer
        answer = self._pages[path] = await self._service.pools.walkers.start(make)
        return answer

    async def _presigned(self, scope: Scope, receive: Receive) -> Answer:
        if cors.is_preflight(scope["method"], scope["headers"]):
            origins = self._service.settings.front.cors_origins
            allowed = cors.preflight(origins, scope["headers"])
            return Answer(204 if allowed else 403, allowed)
        name = scope["path"][len(PRESIGNED_PATH) :]
        try:
            fields = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=_FIELDS_MAX)
        except ValueError as error:
            raise Invalid(f"query has an error: at most {_FIELDS_MAX} fields") from error
        headers = dict(scope["headers"])
        return await presigned(self._service, scope["method"], name, dict(fields), headers, receive)


def _operation(path: str) -> str:
    """What the trail calls a path."""
    return "presigned" if path.startswith(PRESIGNED_PATH) else path.strip("/")


def _document_answer() -> Answer:
    return Answer(200, JSON, msgspec.json.encode(document()))


def _reference_answer() -> Answer:
    return _html(reference_page.rendered(document()), 200)


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
