"""Removes what deliveries of events said of themselves, once no notification can travel any more.

Stores whose rows vanish by themselves (DynamoDB) need none of it; in the others a row would stay
for each delivery there ever was.  For the local service.
"""

from math import inf

from graveler import limits
from graveler.engine.ports import Ports
from graveler.records import Repository
from graveler.refs.events import arrivals, rules

_START_BYTES = 4


def expire(ports: Ports, repo: Repository, seconds: float = inf) -> int:
    """Part of what is past its time, as far as `seconds` reach; how many rows.

    It begins at a place that chance draws, so that rounds come to all of it.  Ended rules count:
    their rows are there.  Cost: the rules, and 2 KV requests for each of their 64 partitions, 1
    more for up to 1,000 rows that are removed."""
    end = ports.clock.steady_seconds() + seconds
    before_ns = ports.clock.now_ns() - limits.event_seconds * limits.SECOND_NS
    count, start = 0, ports.ids.stamp()[:_START_BYTES]
    for rule in rules.every_id(ports.kv, repo):
        for partition in arrivals.vouched_partitions(repo, rule):
            if ports.clock.steady_seconds() >= end:
                return count
            count += arrivals.forget_vouched(ports.kv, partition, start, before_ns)
    return count
