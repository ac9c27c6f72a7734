"""Two paths for operators: `/metrics`, with credentials, and `/_health/ready`, without.

Metrics need the permission `fs:ReadConfig`, because they reveal what a deployment does.  Jobs and
uncommitted rows are counted at most once a minute, within a second each, and rows up to a number.

Readiness asks the key-value store for one row, and in a process that is told so the object store
for one object; it waits two seconds at most.  Anybody may ask, so an answer is kept for a second.
If the settings of the service say so, it writes the row instead, at most every five seconds while
writes succeed.  Used by pages.py.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

from graveler.api import metrics
from graveler.api.answers import NOSNIFF, PLAIN, Answer
from graveler.api.service import Service
from graveler.auth.access import Caller
from graveler.auth.permissions import Permission
from graveler.block.adapter import Blocks
from graveler.committed.cache import CacheFigures
from graveler.engine import staged_rows
from graveler.engine.repositories import repository
from graveler.engine.staged_rows import StagedRows
from graveler.errors import Corrupt, GravelerError, NotFound, StorageFull
from graveler.kv.store import Store
from graveler.refs.jobs import record

METRICS_PATH: Final = "/metrics"
HEALTH_PATH: Final = "/_health"
READY_PATH: Final = "/_health/ready"
_PERMISSIONS: Final = (Permission("fs:ReadConfig", "*"),)
_CONTENT: Final = ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), NOSNIFF)
_COUNTS_SECONDS: Final = 60.0
_COUNT_SECONDS: Final = 1.0
_ROWS_MAX: Final = 10_000  # of uncommitted rows that are counted
_READY_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 2.0
_WRITE_SECONDS: Final = 5.0
_ROW: Final = (b"ready", b"ready")  # a place for this alone; empty unless the settings say so
_NO_OBJECT: Final = "_graveler/ready"  # an address below a namespace where no object is
_READY: Final = Answer(200, PLAIN, b"ready")
_NO_ANSWER: Final = "the store does not answer"
_FULL: Final = "no room is left, so the store takes no writes"
_DAMAGED: Final = "files of the store are damaged: read the log, and restore a back-up"


class _Census(NamedTuple):
    """What was counted: jobs by state, and in how many repositories; uncommitted rows."""

    at: float
    states: Mapping[str, int]
    repositories: int
    staged: StagedRows


class Observation:
    """Answers both paths."""

    def __init__(self, service: Service, namespace: str = "") -> None:
        """`namespace`: where the object store must answer too; empty: it is not asked."""
        self._service = service
        self._namespace = namespace
        self._census = _Census(float("-inf"), {}, 0, StagedRows(0, 0))
        self._ready_at = float("-inf")
        self._written_at = float("-inf")
        self._failure = _NO_ANSWER  # empty: it is ready
        self._asking: asyncio.Future[None] | None = None

    async def metrics(self, caller: Caller) -> Answer:
        """The metrics of this process.  Raises `Refused`."""
        auth, pools = self._service.auth, self._service.pools
        await pools.point(auth.authorize, caller, _PERMISSIONS)
        return await pools.writers.start(self._text)

    def _text(self) -> Answer:
        census = self._counted()
        lines = chain(
            self._service.metrics.lines(),
            metrics.cache_lines(self._caches()),
            metrics.job_lines(census.states, census.repositories),
            metrics.staged_lines(census.staged.rows, census.staged.branches),
        )
        return Answer(200, _CONTENT, ("\n".join(lines) + "\n").encode())

    def _caches(self) -> Mapping[str, CacheFigures]:
        caches: Mapping[str, CacheFigures] = getattr(self._service.ports.ranges, "caches", {})
        return caches

    def _counted(self) -> _Census:
        now = self._service.ports.clock.steady_seconds()
        if now - self._census.at >= _COUNTS_SECONDS:
            states, repositories = self._jobs()
            self._census = _Census(now, states, repositories, self._staged())
        return self._census

    def _jobs(self) -> tuple[Mapping[str, int], int]:
        """Jobs by state, and in how many repositories."""
        goes_on = self._for_a_second()
        states: Counter[str] = Counter()
        count = 0
        for repo in repository.every(self._service.ports):
            if not goes_on():
                break
            jobs = record.list_all(repo.kv, repo.record)
            states.update(seen.job.state.name.lower() for seen in jobs)
            count += 1
        return states, count

    def _staged(self) -> StagedRows:
        return staged_rows.count(self._service.ports, _ROWS_MAX, self._for_a_second())

    def _for_a_second(self) -> Callable[[], bool]:
        clock = self._service.ports.clock
        end = clock.steady_seconds() + _COUNT_SECONDS
        return lambda: clock.steady_seconds() < end

    async def ready(self) -> Answer:
        """Whether the store answers, and takes writes.  At most once a second 1 KV request, and
        with a namespace 1 block request."""
        age = self._service.ports.clock.steady_seconds() - self._ready_at
        if self._asking is None and age >= _READY_SECONDS:
            self._asking = asyncio.ensure_future(self._ask())
        if self._asking is not None:  # all who ask meanwhile wait for the same answer
            await asyncio.shield(self._asking)
        if not self._failure:
            return _READY
        headers = (*PLAIN, (b"retry-after", b"1"))
        return Answer(503, headers, f"not ready: {self._failure}".encode())

    async def _ask(self) -> None:
        try:
            self._failure = await self._reach_store()
            self._ready_at = self._service.ports.clock.steady_seconds()
        finally:
            self._asking = None

    async def _reach_store(self) -> str:
        """Why the process is not ready; empty if it is.  Anybody reads it, so it has no names."""
        answer = self._service.pools.walkers.start(self._ask_stores)
        try:
            await asyncio.wait_for(answer, _WAIT_SECONDS)
        except StorageFull:
            return _FULL
        except Corrupt:
            return _DAMAGED
        except (GravelerError, TimeoutError):
            return _NO_ANSWER
        return ""

    def _ask_stores(self) -> None:
        kv, now = self._service.ports.kv, self._service.ports.clock.steady_seconds()
        if self._service.settings.ready_writes and now - self._written_at >= _WRITE_SECONDS:
            kv.set(*_ROW, b"", b"")
            self._written_at = now
        else:
            ask_table(kv)
        if self._namespace:
            ask_bucket(self._service.ports.blocks, self._namespace)


def ask_table(kv: Store) -> None:
    """Ask the key-value store for a row that need not exist.  Raises `Unavailable` if it does not
    answer.  1 request."""
    kv.get(*_ROW)


def ask_bucket(blocks: Blocks, namespace: str) -> None:
    """Ask the object store for an object below `namespace` that does not exist.  Raises
    `Unavailable` if it does not answer, or has no such bucket.  1 request."""
    with suppress(NotFound):
        blocks.read(f"{namespace}/{_NO_OBJECT}", 0, 1)
