"""Everything below a prefix, page by page.  For the engine, and for Spark."""

from collections.abc import Iterator

from graveler import limits
from graveler.block.adapter import BlockStore, ListedObject


def list_all(blocks: BlockStore, prefix: str, after: str = "") -> Iterator[ListedObject]:
    """Objects whose address begins with `prefix` and is greater than `after`, in byte order.

    A page is asked for when the one before it is used up: what is deleted or added meanwhile may
    come or not.  Cost: a request for each 1,000, one if there are none.
    """
    more = True
    while more:
        page = blocks.list(prefix, after, limits.page_count_max)
        yield from page.lines
        more = page.more and bool(page.lines)
        if page.lines:
            after = page.lines[-1].address
