"""Sends answers: the headers that every answer has, streamed bodies, the access log.

A line of the access log holds the time, the method, the operation, the status, the duration and the
request id.  It never holds an object path, a query, a header, a credential or a signature.  Used by
dispatch.py and pages.py.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from graveler.api.answers import Answer, StreamedBody
from graveler.api.feed import Receive
from graveler.api.metrics import add_requests
from graveler.api.service import Service
from graveler.block.adapter import FileChunks
from graveler.errors import GravelerError, explained

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

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
BODY_FOLLOWS = "graveler.body_follows"  # the next message has the whole body
FILE_BODIES = "graveler.file_body"  # the server takes bodies from files; such a message is the body
_ADDED_COUNT = 1_000  # requests that are added together to the counters of the deployment


async def send(
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
    if isinstance(body, StreamedBody):
        await send_message(start)
        try:
            if isinstance(body.chunks, FileChunks) and FILE_BODIES in scope.get("extensions", ()):
                await _send_file(service, send_message, body.chunks)
            else:
                await _stream(service, receive, send_message, body)
        except GravelerError as error:  # an answer without its end: the server cuts the connection
            operation, _ = scope.get("graveler.operation", ("none", 0.0))
            fields = {"operation": operation, "request_id": request_id, "cause": explained(error)}
            _ERRORS.error("body ended early", extra=fields)
    else:
        await send_message({**start, BODY_FOLLOWS: True})
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


def note_request_id(service: Service, scope: Scope) -> str:
    """The id of a request in its answer, in the log and in the audit trail.  A front such as API
    Gateway may have given it one."""
    id: str = scope.get("graveler.request_id") or service.ports.ids.stamp().hex()
    scope["graveler.request_id"] = id
    return id


def _add_requests(service: Service) -> None:
    with suppress(GravelerError):  # then they are added later
        add_requests(service.ports, service.metrics)


async def _send_file(service: Service, send_message: Send, chunks: FileChunks) -> None:
    """Let the server send bytes of a file; the pool does what may wait for the disk."""
    streams = service.pools.streams
    try:
        await send_message(
            {
                "type": FILE_BODIES,
                "write": lambda socket, most: streams.proceed(chunks.send_to, socket, most),
            }
        )
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
