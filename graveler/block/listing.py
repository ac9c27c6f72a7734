"""Lists everything below a prefix, page by page."""

from collections.abc import Iterator

from graveler import limits
from graveler.block.adapter import BlockStore, ListedObject


def list_all(blocks: BlockStore, prefix: str, after: str = "") -> Iterator[ListedObject]:
    """Objects whose address begins with `prefix` and is greater than `after`, in byte order.

    The next page is requested when the previous one is used up.  Objects that are added or deleted
    meanwhile may be listed or not.  Cost: one request per 1,000 objects, at least one.
    """
    more = True
    while more:
        page = blocks.list(prefix, after, limits.page_count_max)
        yield from page.lines
        more = page.more and bool(page.lines)
        if page.lines:
            after = page.lines[-1].address
