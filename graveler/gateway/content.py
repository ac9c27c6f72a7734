"""The content of a request: the event loop receives it, and a thread of the engine stores it.

    client ──► receive() ──► Feed ──► Payload.content: unframed, verified ──► Spool ──► engine

Memory and threads are bounded (api/feed.py).  If the body is short, long or wrong, or if the client
goes away, the engine stores and stages nothing.  Used by the endpoints that store a body.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeVar

from graveler import limits
from graveler.api.feed import next_piece, spooled
from graveler.block.bodies import Spool
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import S3Call
from graveler.records import ABSENT, Absent

T = TypeVar("T")
Store = Callable[[Iterable[bytes]], T]
Check = Callable[[], object]
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
    call: S3Call,
    check: Check,
    store: Store[T],
    small: StoreSmall[T] | Literal[Absent.ABSENT] = ABSENT,
) -> T:
    """The result of `store`, which a thread calls with the verified content.

    A body of one piece is passed in memory, and a longer one in a spool, so that the engine can
    send it again.  `check` can refuse a longer one before it is received.  If the service stores
    small bodies together, `small` gets a small one, on the event loop, instead of `store`.  Raises
    what `check`, `store` and `small` raise, `S3Error`, and `Disconnected`.
    """
    pools = call.service.pools
    first = await next_piece(call.receive)
    if first.is_last:
        if small is not ABSENT and len(first.body) < limits.upload_batched_bytes_max:
            return await small(call.payload.whole(first.body))
        whole: T = await pools.writers.start(_store_whole, call, store, first.body)
        return whole

    def open_spool() -> Spool:
        check()
        return call.repo.blocks.spool(call.repo.namespace)

    content = call.payload.content
    return await spooled(pools.bodies, call.receive, first, open_spool, content, store)


def _store_whole(call: S3Call, store: Store[T], body: bytes) -> T:
    return store(call.payload.whole(body))
