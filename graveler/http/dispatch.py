"""What all doors share between a request and its answer.

Where an endpoint runs, and how an answer is sent.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from html import escape
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar

from graveler.auth.access import Caller
from graveler.auth.permissions import Permission
from graveler.block.adapter import FileChunks
from graveler.core.errors import GravelerError, explained
from graveler.core.records import ABSENT
from graveler.http import permissions
from graveler.http.answers import NOSNIFF, Answer, Receive, Scope, Send, StreamedBody
from graveler.http.metrics import add_requests
from graveler.http.permissions import Template
from graveler.http.service import Call, Service

_LOG = logging.getLogger("graveler.access")
_ERRORS = logging.getLogger("graveler.api")
_HEADERS_OF_FAILED_HEAD = frozenset(
    (
        *(b"content-range", b"retry-after"),
        *(b"x-amz-bucket-region", b"x-amz-request-id", b"x-request-id"),
        *(b"access-control-allow-origin", b"access-control-expose-headers", b"vary"),
    )
)
_WITHOUT_LENGTH = frozenset((204, 304))
Application = Callable[[Scope, Receive, Send], Awaitable[None]]  # of ASGI
WriteToSocket = Callable[[Any, int], Awaitable[int]]  # at most so many bytes; returns how many
_ADDED_COUNT = 1_000  # requests that are added together to the counters of the deployment


class DirectSender(Protocol):
    """What takes answers in fewer steps than messages: the server of this project, and the library
    with a store in its process."""

    sends_files: bool

    async def send_whole(self, start: Mapping[str, Any], body: bytes) -> None:
        """Send an answer whose body is complete.  `start`: the message with which it begins."""
        ...

    async def send_file(self, write: WriteToSocket, chunks: FileChunks) -> None:
        """Send the body of an answer that has begun: by `write`, or from `chunks`.  Only if
        `sends_files`."""
        ...


def direct_sender(send_message: Send) -> DirectSender | None:
    """The object whose method `send_message` is, if it takes answers directly.  An application or
    middleware that wraps `send` hides it, and gets the messages of ASGI instead."""
    sender: Any = getattr(send_message, "__self__", None)
    return sender if hasattr(sender, "send_whole") else None


async def send_answer(
    service: Service, scope: Scope, receive: Receive, send_message: Send, answer: Answer
) -> None:
    """Send an answer.  A streamed answer ends early if the client closes the connection."""
    status, headers, body = answer
    request_id = note_request_id(service, scope)
    all_headers = [*headers, (b"x-request-id", request_id.encode("ascii"))]
    head_only = scope["method"] == "HEAD"
    if head_only and status >= 400:
        all_headers = [each for each in all_headers if each[0] in _HEADERS_OF_FAILED_HEAD]
    if status not in _WITHOUT_LENGTH and not head_only:
        length = body.length if isinstance(body, StreamedBody) else len(body)
        all_headers.append((b"content-length", b"%d" % length))
    start = {"type": "http.response.start", "status": status, "headers": all_headers}
    direct = direct_sender(send_message)
    if isinstance(body, StreamedBody):
        await send_message(start)
        try:
            if direct is not None and direct.sends_files and isinstance(body.chunks, FileChunks):
                await _send_file(service, direct, body.chunks)
            else:
                await _stream(service, receive, send_message, body)
        except GravelerError as error:  # an answer without its end: the server cuts the connection
            operation, _ = scope.get("graveler.operation", ("none", 0.0))
            fields = {"operation": operation, "request_id": request_id, "cause": explained(error)}
            _ERRORS.error("body ended early", extra=fields)
    elif direct is not None:
        await direct.send_whole(start, b"" if head_only else body)
    else:
        await send_message(start)
        await send_message({"type": "http.response.body", "body": b"" if head_only else body})
    status = scope.get("graveler.status", status)  # of work that ended after the answer began
    operation, started = scope.get("graveler.operation", ("none", 0.0))
    took = service.ports.clock.steady_seconds() - started if started else 0.0
    if started:
        service.metrics.record(operation, status, took)
        if service.metrics.requests % _ADDED_COUNT == 0:
            service.pools.imports.submit(_add_requests, service)
    if not service.settings.access_log:
        return
    _LOG.info(
        "request",
        extra={
            "method": scope["method"],
            "operation": operation,
            "status": status,
            "milliseconds": round(took * 1000, 1),
            "request_id": request_id,
        },
    )


def route_path(scope: Scope) -> str:
    """The path of a request below the place where the application is mounted (`root_path`)."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    below = path[len(root) :]
    return below if root and path.startswith(root) and below[:1] in ("", "/") else path


def note_request_id(service: Service, scope: Scope) -> str:
    """The id of a request in its answer, in the log and in the audit trail.  A front such as API
    Gateway may have given it one."""
    id: str = scope.get("graveler.request_id") or service.ports.ids.stamp().hex()
    scope["graveler.request_id"] = id
    return id


def _add_requests(service: Service) -> None:
    with suppress(GravelerError):  # then they are added later
        add_requests(service.ports, service.metrics)


async def _send_file(service: Service, direct: DirectSender, chunks: FileChunks) -> None:
    """Let the server send bytes of a file; the pool does what may wait for the disk."""
    streams = service.pools.streams

    def write(socket: Any, count_max: int) -> Awaitable[int]:
        return streams.proceed(chunks.send_to, socket, count_max)

    try:
        await direct.send_file(write, chunks)
    finally:
        await streams.proceed(chunks.close)


async def _stream(
    service: Service, receive: Receive, send_message: Send, body: StreamedBody
) -> None:
    """Read chunks, those of an iterator in the pool, and send them one at a time."""
    streams = service.pools.streams
    gone = asyncio.ensure_future(_disconnected(receive))
    chunks = body.chunks
    try:
        while not gone.done():
            if isinstance(chunks, AsyncIterator):
                chunk: bytes = await anext(chunks, b"")
            else:
                chunk = await streams.proceed(next, chunks, b"")
            await send_message(
                {"type": "http.response.body", "body": chunk, "more_body": bool(chunk)}
            )
            if not chunk:
                return
    finally:
        gone.cancel()
        close = getattr(chunks, "close", None)  # an asynchronous one holds nothing
        if close is not None:
            await streams.proceed(close)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# ---- S3 clients where no gateway runs ------------------------------------------------------------

_SIGNED_SCHEMES: Final = (b"aws4-", b"aws ")
_SIGNED_PARAMETERS: Final = frozenset((b"X-Amz-Algorithm", b"X-Amz-Credential", b"AWSAccessKeyId"))

_LABEL: Final = "s3:unknown"  # no operation is looked for
_XML: Final = (b"content-type", b"application/xml")
_ERROR: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    "<Error><Code>NotImplemented</Code><Message>{}</Message>"
    "<RequestId>{}</RequestId><HostId>{}</HostId></Error>"
)
_NAMED: Final = "This address serves the HTTP API only. The endpoint for S3 clients is {}"
_UNNAMED: Final = (
    "This address serves the HTTP API only, and no endpoint for S3 clients is set. "
    "`graveler gateway` serves them; the template's parameter S3Endpoint names its URL "
    "(docs/how-to/gateway-on-aws.md). `graveler serve` serves them from a store on one machine."
)


def is_signed(headers: Sequence[tuple[bytes, bytes]], raw_query: bytes) -> bool:
    """Whether a request carries a signature as S3 clients send it, right or wrong."""
    for name, value in headers:
        if name == b"authorization" and value[:5].lower().startswith(_SIGNED_SCHEMES):
            return True
    if not raw_query:
        return False
    if b"X-Amz-" not in raw_query and b"AWSAccessKeyId" not in raw_query:
        return False
    return any(part.partition(b"=")[0] in _SIGNED_PARAMETERS for part in raw_query.split(b"&"))


class S3Refusal:
    """A route that answers every request of an S3 client with 501.  It asks no store."""

    def __init__(self, service: Service, endpoint: str) -> None:
        """`endpoint`: the URL of the gateway that answers name; empty: they say how to run one."""
        self._service = service
        self._message = escape(_NAMED.format(endpoint) if endpoint else _UNNAMED)

    def wants(self, scope: Scope) -> bool:
        """Whether a request is one of an S3 client."""
        return is_signed(scope["headers"], scope["query_string"])

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        """Answer a request."""
        ports = self._service.ports
        request_id = ports.ids.stamp().hex()
        scope["graveler.request_id"] = request_id
        scope["graveler.operation"] = (_LABEL, ports.clock.steady_seconds())
        body = _ERROR.format(self._message, request_id, request_id).encode()
        headers = (_XML, NOSNIFF, (b"x-amz-request-id", request_id.encode("ascii")))
        await send_answer(self._service, scope, receive, send_message, Answer(501, headers, body))


class Route(Protocol):
    """A part of the application that answers some of its requests."""

    def wants(self, scope: Scope) -> bool:
        """Whether a request is for this route."""
        ...

    async def handle(self, scope: Scope, receive: Receive, send_message: Send) -> None:
        """Answer a request."""
        ...


class Runs(Enum):
    """Where an endpoint runs, which decides what it may do.

    - LOOP: on the event loop.  The endpoint reads nothing.
    - POINT: on the event loop, as long as none of its look-ups has to wait; otherwise in a thread.
    - POOL: in a thread, because the endpoint writes or calls the block store.
    - COPY: as POOL, in a thread of the pool for copies and joins of bytes, which may take long.
    - WALK: in a thread of the pool for scans and walks of history, with a deadline inside.
    - STREAM: a coroutine on the event loop.  It moves work that waits to threads.
    """

    LOOP = "loop"
    POINT = "point"
    POOL = "pool"
    COPY = "copy"
    WALK = "walk"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the API and the gateway declare of an operation.

    `permissions`: what every request needs; the route checks them, but those of an operation
    `by_item`, whose endpoint checks them for each item.  `errors`: beside those that every
    operation has.
    """

    name: str
    method: str
    summary: str
    permissions: tuple[Permission, ...]
    actions: frozenset[str]  # of `permissions`
    templates: tuple[Template, ...]
    errors: tuple[Any, ...]
    runs: Runs
    by_item: bool
    endpoint: Callable[..., Any]

    def allows(self, caller: Caller) -> bool:
        """Whether the caller may run the operation whatever the request names, or its items are
        authorized one by one."""
        if self.by_item:
            return True
        return bool(self.actions) and self.actions <= caller.rights.everywhere

    def needed(self, call: Call) -> tuple[Permission, ...]:
        """The permissions that a request needs before its endpoint runs."""
        query, body = call.inputs.get("query", ABSENT), call.inputs.get("body", ABSENT)
        return permissions.needed(self.templates, call.arguments, query, body)

    async def run(self, call: Call) -> Answer:
        """Run the endpoint where `runs` says, with the input that it declares."""
        endpoint = partial(self.endpoint, **call.inputs) if call.inputs else self.endpoint
        pools, runs = call.service.pools, self.runs
        if runs is Runs.LOOP:
            return endpoint(call)  # type: ignore[no-any-return]
        if runs is Runs.STREAM:
            return await endpoint(call)  # type: ignore[no-any-return]
        if runs is Runs.WALK or (runs is Runs.POINT and call.walks):
            return await pools.walkers.start(_walk, endpoint, call)
        if runs is Runs.POINT:
            return await pools.point(endpoint, call)
        pool = pools.copies if runs is Runs.COPY else pools.writers
        answer: Answer = await pool.start(endpoint, call)
        return answer


Declared = TypeVar("Declared", bound=Operation)


def declared(kind: type[Declared], *modules: ModuleType) -> tuple[Declared, ...]:
    """All operations that the modules declare, in their order."""
    found = (value for module in modules for value in vars(module).values())
    return tuple(value for value in found if isinstance(value, kind))


def _walk(endpoint: Any, call: Call) -> Answer:
    """Run a walk in a thread.  Its deadline starts now: time spent in the queue does not count."""
    call.begin_walk()
    return endpoint(call)  # type: ignore[no-any-return]


def require(name: str, condition: bool, rule: str) -> None:
    """Raises `TypeError` for a declaration that breaks a rule."""
    if not condition:
        raise TypeError(f"operation {name}: {rule}")


def summary_of(name: str, endpoint: Callable[..., Any]) -> str:
    """The first line of the docstring of an endpoint, which it must have."""
    summary = (endpoint.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
    require(name, bool(summary), "its docstring is the summary")
    return summary
