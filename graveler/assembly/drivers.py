"""Builds the ports of the engine from drivers and threads."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple, TypeVar

from graveler.auth import secrets
from graveler.block.adapter import Blocks
from graveler.committed.ranges import RangeStore
from graveler.core import limits
from graveler.core.clock import Clock, Ids
from graveler.core.turns import ThreadTurns
from graveler.engine.ports import EngineSettings, Fanout, Ports
from graveler.kv.store import Store
from graveler.refs.cache import RefCache

# ---- fanout ----------------------------------------------------------------------------------

A = TypeVar("A")
B = TypeVar("B")

FANOUT_THREADS = 16
WRITE_THREADS = 8  # that wait for the store while commits write many ranges


class ThreadFanout:
    """`Fanout` on a bounded pool of threads.  Concurrent writers that wait for the same sync share
    it.

    If a call running on the pool uses the fan-out again, its calls run one after the other in its
    own thread.  Otherwise all threads could wait for a free thread (a deadlock).
    """

    def __init__(self, threads: int = FANOUT_THREADS) -> None:
        self._here = threading.local()
        self._pool = ThreadPoolExecutor(
            threads, thread_name_prefix="fanout", initializer=self._mark_thread
        )

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        if getattr(self._here, "is_ours", False):
            return [function(item) for item in items]
        futures = [self._pool.submit(function, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """Accept no more calls, and wait for the running ones to end."""
        self._pool.shutdown(wait=True)

    def _mark_thread(self) -> None:
        self._here.is_ours = True


class WriteThreads:
    """`Waiters` on a bounded pool of threads."""

    def __init__(self, threads: int = WRITE_THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ranges")

    def begin(self, write: Callable[[], object]) -> Callable[[], object]:
        return self._pool.submit(write).result

    def close(self) -> None:
        """Wait until all writes have ended, also those of commits that failed."""
        self._pool.shutdown(wait=True)


def thread_turns() -> ThreadTurns:
    """The turns of one open store."""
    return ThreadTurns(threading.Lock(), threading.Event)


# ---- drivers ---------------------------------------------------------------------------------


UPLOADS_PURPOSE = "upload addresses"  # the purpose of the key that signs them


class Drivers(NamedTuple):
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
    """The ports over `drivers`, with a new cache and new turns: those of one process.

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
        turns=thread_turns(),
    )
