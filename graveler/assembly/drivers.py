"""Builds the engine's ports from a set of drivers."""

from dataclasses import dataclass

from graveler import limits
from graveler.assembly.lanes import thread_lanes
from graveler.auth import secrets
from graveler.block.adapter import Blocks
from graveler.clock import Clock, Ids
from graveler.committed.ranges import RangeStore
from graveler.engine.ports import EngineSettings, Fanout, Ports
from graveler.kv.store import Store
from graveler.refs.cache import RefCache

UPLOADS_PURPOSE = "upload addresses"  # the purpose of the key that signs them


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers behind the ports.  For `staging_shards_max`, `commit_rows_max` and
    `repository_cached_seconds` see `EngineSettings`."""

    kv: Store
    blocks: Blocks
    ranges: RangeStore
    clock: Clock
    ids: Ids
    fanout: Fanout
    staging_shards_max: int = 1
    commit_rows_max: float = limits.commit_rows_max
    repository_cached_seconds: float = 0


def ports_of(drivers: Drivers, secret: bytes, before: bytes = b"") -> Ports:
    """The ports over `drivers`, with a new cache and new lanes: those of one process.

    The key that signs upload addresses is derived from `secret`.  Addresses that were signed under
    the earlier secret `before` are accepted too.
    """
    return Ports(
        kv=drivers.kv,
        blocks=drivers.blocks,
        ranges=drivers.ranges,
        clock=drivers.clock,
        ids=drivers.ids,
        fanout=drivers.fanout,
        cache=RefCache(drivers.clock),
        settings=EngineSettings(
            signing_key=secrets.derive(secret, UPLOADS_PURPOSE),
            signing_key_before=secrets.derive(before, UPLOADS_PURPOSE) if before else b"",
            staging_shards_max=drivers.staging_shards_max,
            commit_rows_max=drivers.commit_rows_max,
            repository_cached_seconds=drivers.repository_cached_seconds,
        ),
        lanes=thread_lanes(),
    )
