"""Counts the requests to a block store, so that tests and benchmarks see the cost of a verb.

A request counts before it is sent, so a failed one counts too.  The chunks of a body do not count
separately, a creation of many counts as one put for each object, and presigning makes no request.
"""

from collections.abc import Callable

from graveler.block.adapter import Blocks
from graveler.requests import Counts, preceded

_CALLS = (
    *("delete", "delete_all", "check_versions", "create_upload", "put_part", "copy_part"),
    *("list_parts", "complete_upload", "abort_upload", "get", "read", "put", "head", "list"),
    "copy",
)


def counted_blocks(blocks: Blocks, counts: Counts) -> Blocks:
    """`blocks`, whose requests `counts` counts by verb."""

    def one(verb: str) -> Callable[..., None]:
        return lambda *_, **__: counts.add(verb)

    before: dict[str, Callable[..., None]] = {verb: one(verb) for verb in _CALLS}
    before["create_many"] = lambda objects: counts.add("put", len(objects))
    return preceded(blocks, before)
