"""The content of a request: the event loop receives it, and a thread of the engine reads it.

    client ──► receive() ──► Feed ──► Payload.content: unframed, verified ──► engine

Memory is bounded: the feed holds 1 MiB, and a fast client waits for the store.  If the body is
short, long or wrong, or if the client goes away, the reader gets an error before the end of the
content, so the engine stores and stages nothing.  Used by the endpoints that store a body.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeVar

from graveler import limits
from graveler.api.feed import Disconnected, Feed
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import S3Call
from graveler.records import ABSENT, Absent

T = TypeVar("T")
Store = Callable[[Iterable[bytes]], T]
StoreSmall = Callable[[Sequence[bytes]], Awaitable[T]]


def length_of(call: S3Call) -> int:
    """The number of bytes of the content, as the request says.

    Raises `S3Error`: MissingContentLength, EntityTooLarge.
    """
    length = call.payload.length
    if length > limits.put_length_bytes_max:
        raise S3Error("EntityTooLarge")
    return length


async def stored(
    call: S3Call, store: Store[T], small: StoreSmall[T] | Literal[Absent.ABSENT] = ABSENT
) -> T:
    """The result of `store`, which a thread calls with the verified content.

    A body that arrived whole is verified first and passed in memory, so that the engine can send it
    again.  Any other one is verified while it streams.  If the service stores small bodies
    together, `small` gets a small whole one, on the event loop, instead of `store`.  Raises what
    `store` and `small` raise, `S3Error`, and `Disconnected`.
    """
    pools = call.service.pools
    message = await call.receive()
    if message["type"] == "http.disconnect":
        raise Disconnected("client disconnected before its request was complete")
    first = message.get("body", b"")
    if not message.get("more_body", False):
        if small is not ABSENT and len(first) < limits.upload_batched_bytes_max:
            return await small(call.payload.whole(first))
        whole: T = await pools.writers.start(_store_whole, call, store, first)
        return whole
    return await Feed().fill(
        call.receive,
        first,
        pools.streams.start,
        lambda feed: store(call.payload.content(feed)),
    )


def _store_whole(call: S3Call, store: Store[T], body: bytes) -> T:
    return store(call.payload.whole(body))
