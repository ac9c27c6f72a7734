"""Builds the ports of the engine from drivers and threads."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeVar

from graveler.auth import secrets
from graveler.block.adapter import Blocks
from graveler.committed.apply import rewritten
from graveler.committed.ranges import Keyspace, RangeStore, Rewrite, Rewriting, Rewritten
from graveler.core import limits
from graveler.core.clock import Clock, Ids
from graveler.core.errors import GravelerError
from graveler.core.records import ABSENT, Absent, BreakParameters
from graveler.core.turns import ThreadTurns
from graveler.engine.ports import EngineSettings, Fanout, Ports
from graveler.kv.store import Store
from graveler.refs.cache import RefCache

# ---- fanout ----------------------------------------------------------------------------------

A = TypeVar("A")
B = TypeVar("B")

FANOUT_THREADS = 16
WRITE_THREADS = 8  # that wait for the store while commits write many ranges
FETCH_THREADS = 8  # that fetch files which a reader needs next
REWRITE_THREADS = 8  # that read, change and write a range each, of commits of many ranges
_FETCHES_EACH = 4  # that run or wait, for each thread
_FETCH_SECONDS = 10.0  # then a reader goes on alone
_REST_SECONDS = 0.5
_LOOK_SECONDS = 0.5  # a caller that waits for a thread looks so often whether it has to stop


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


class Threads:
    """A bounded pool of threads, whose calls may outlive the caller: a commit fails, a page is
    full."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._under_way: set[Future[Any]] = set()

    def _submit(self, call: Callable[..., B], *arguments: object) -> Future[B]:
        submitted = self._pool.submit(call, *arguments)
        self._under_way.add(submitted)
        submitted.add_done_callback(self._under_way.discard)
        return submitted

    def withdrawn(self) -> list[Future[Any]]:
        """Withdraw what no thread has begun, and return what runs.  A call that hangs is returned
        once."""
        running = [call for call in self._under_way.copy() if not call.cancel()]
        self._under_way.difference_update(running)
        return running

    def close(self) -> None:
        """Wait until all calls have ended."""
        self._pool.shutdown(wait=True)


def rest(pools: Iterable[Threads], seconds: float = _REST_SECONDS) -> None:
    """Withdraw what no thread has begun, and wait for what runs, `seconds` at most."""
    wait([call for each in pools for call in each.withdrawn()], seconds)


class WriteThreads(Threads):
    """`Waiters` on a bounded pool of threads."""

    def __init__(self, threads: int = WRITE_THREADS) -> None:
        super().__init__(threads, "ranges")

    def begin(self, write: Callable[[], object]) -> Callable[[], object]:
        return self._submit(write).result


class FetchThreads(Threads):
    """`Fetchers` on a bounded pool of threads.  If one hangs, readers wait for none until one
    ends."""

    def __init__(self, threads: int = FETCH_THREADS, seconds: float = _FETCH_SECONDS) -> None:
        """`seconds`: how long a reader waits."""
        super().__init__(threads, "fetches")
        self._lock = threading.Lock()
        self._begun: dict[str, Future[object]] = {}
        self._waiting_max = _FETCHES_EACH * threads
        self._seconds = seconds
        self._is_late = False

    def begin(self, address: str, fetch: Callable[[str], object]) -> None:
        with self._lock, suppress(RuntimeError):  # the process ends
            if address not in self._begun and len(self._begun) < self._waiting_max:
                begun = self._begun[address] = self._submit(self._fetch, address, fetch)
                begun.add_done_callback(lambda _: self._begun.pop(address, None))

    def wait(self, address: str) -> bool:
        begun = self._begun.get(address)
        if begun is None or begun.cancel():
            return False
        is_done = bool(wait((begun,), 0 if self._is_late else self._seconds).done)
        self._is_late = not is_done
        return is_done

    def _fetch(self, address: str, fetch: Callable[[str], object]) -> None:
        try:
            fetch(address)
        finally:
            self._is_late = False


class RewriterThreads(Threads):
    """`Rewriters` for a store that is far away: while some wait for it, others compute."""

    def __init__(
        self, store: Callable[[], RangeStore], size_max: int, threads: int = REWRITE_THREADS
    ) -> None:
        """`store`: the store whose ranges are rewritten, when it is there.  `size_max`: bytes of
        records that a thread may hold in memory."""
        super().__init__(threads, "rewrites")
        self._store = store
        self._size_max = size_max

    def begin(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        space = Keyspace(self._store(), namespace, breaks)
        if rewrite.ref.size > self._size_max:
            return _InThread(Future())
        return _InThread(self._submit(rewritten, space, rewrite))


class _InThread(NamedTuple):
    """See `Rewriting`.  What no thread has begun is left to the caller."""

    done: Future[Rewritten | Literal[Absent.ABSENT]]

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        if self.done.cancel():
            return ABSENT
        while not wait((self.done,), _LOOK_SECONDS).done:
            check()
        with suppress(GravelerError):  # the caller meets it again
            return self.done.result()
        return ABSENT

    def abandon(self) -> None:
        self.done.cancel()


def thread_turns() -> ThreadTurns:
    """The turns of one open store."""
    return ThreadTurns(threading.Lock(), threading.Event)


# ---- drivers ---------------------------------------------------------------------------------


UPLOADS_PURPOSE = "upload addresses"  # the purpose of the key that signs them


class Drivers(NamedTuple):
    """The drivers behind the ports.  For `staging_shards_max`, `commit_rows_max` and
    `repository_cached_seconds` see `EngineSettings`.  `threads`: what may still work when a verb
    has returned."""

    kv: Store
    blocks: Blocks
    ranges: RangeStore
    clock: Clock
    ids: Ids
    fanout: Fanout
    staging_shards_max: int = 1
    commit_rows_max: float = limits.commit_rows_max
    repository_cached_seconds: float = 0
    threads: Sequence[Threads] = ()


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
