"""Counts the requests to a store, so that tests and benchmarks see the cost of a verb.

A request counts before it is sent, so a failed one counts too.  A batch counts as one request for
each `limits.kv_batch_count_max` rows, and an empty batch as none (store.py).
"""

from graveler import limits
from graveler.kv.store import Store
from graveler.requests import Counts, preceded


def batch_requests(rows: int) -> int:
    """The number of requests that a batch of `rows` rows counts as."""
    return -(-rows // limits.kv_batch_count_max)


def counted_store(store: Store, counts: Counts) -> Store:
    """`store`, whose requests `counts` counts by verb."""
    return preceded(
        store,
        {
            "get": lambda *_: counts.add("get"),
            "get_many": lambda places: counts.add("get_many", batch_requests(len(places))),
            "scan": lambda *_: counts.add("scan"),
            "set": lambda *_: counts.add("set"),
            "set_many": lambda writes: counts.add("set_many", batch_requests(len(writes))),
            "set_if": lambda *_, **__: counts.add("set_if"),
            "set_newer": lambda *_: counts.add("set_newer"),
            "set_newer_many": lambda rows: counts.add("set_newer", len(rows)),
            "delete": lambda _, keys, versions=(): counts.add(
                "delete", len(versions) or batch_requests(len(keys))
            ),
        },
    )
