"""Knows requests of S3 clients by their signature, and refuses them where no S3 gateway runs.

    S3 client ──► HTTP API of a deployment ──► 501 NotImplemented, with the endpoint to use

A gateway needs bodies that stream and paths as they were sent; functions have neither.  The refusal
reads nothing of the request but its headers and its query, and verifies nothing.  Used by gateway/
and by the functions.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from graveler.api.answers import NOSNIFF, Answer
from graveler.api.dispatch import Scope
from graveler.api.feed import Receive
from graveler.api.responses import Send, send
from graveler.api.service import Service

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
        await send(self._service, scope, receive, send_message, Answer(501, headers, body))
