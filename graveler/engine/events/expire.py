"""Removes the confirmations of event deliveries, once no notification can arrive that refers to
them.

Stores that expire rows (DynamoDB) do not need it.  In other stores one row for each delivery would
stay for ever.  Used by the local service.
"""

from math import inf

from graveler import limits
from graveler.engine.ports import OpenRepository
from graveler.refs.events import arrivals, rules

_START_BYTES = 4


def expire(repo: OpenRepository, seconds: float = inf) -> int:
    """Remove part of the expired confirmations, within `seconds`; returns the number of rows.

    Each round begins at a random position, so that over time all rows are reached.  Deleted rules
    are included, because their rows still exist.  Cost: the rules; 2 KV requests for each of their
    64 partitions, 1 more for up to 1,000 rows that are removed.
    """
    end = repo.clock.steady_seconds() + seconds
    before_ns = repo.clock.now_ns() - limits.event_seconds * limits.SECOND_NS
    count, start = 0, repo.ids.stamp()[:_START_BYTES]
    for rule in rules.every_id(repo.kv, repo.record):
        for partition in arrivals.vouched_partitions(repo.record, rule):
            if repo.clock.steady_seconds() >= end:
                return count
            count += arrivals.forget_vouched(repo.kv, partition, start, before_ns)
    return count
