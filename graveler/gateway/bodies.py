"""The XML body of a request: received whole, verified, parsed.  Used by the endpoints."""

from graveler.api.requests import TooLarge, whole_body
from graveler.gateway import xml_bodies
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import S3Call
from graveler.gateway.xml_bodies import Bounds, Node

_FRAMES_BYTES_MAX = 256 * 1024  # of the framing around the longest document


async def document_of(call: S3Call, root: str, bounds: Bounds) -> Node:
    """The document in the body of a request, with `root` as its first element.

    A thread verifies and parses it.  Raises `S3Error`, and `Disconnected` if the client closes the
    connection.
    """
    bytes_max = bounds.bytes_max + _FRAMES_BYTES_MAX
    try:
        raw = await whole_body(call.receive, call.headers, bytes_max)
    except TooLarge as error:
        raise S3Error("MaxMessageLengthExceeded") from error
    return await call.service.pools.writers.start(_parsed, call, raw, root, bounds)


def _parsed(call: S3Call, raw: bytes, root: str, bounds: Bounds) -> Node:
    return xml_bodies.parse(b"".join(call.payload.content((raw,))), root, bounds)
