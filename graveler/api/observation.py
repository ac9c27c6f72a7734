"""Two paths for operators: `/metrics`, with credentials, and `/_health/ready`, without.

Metrics need the permission `fs:ReadConfig`, because they reveal what a deployment does.  Jobs and
uncommitted rows are counted at most once a minute, within a second each, and rows up to a number.

Readiness asks the key-value store for one row, and in a process that is told so the object store
for one object; it waits two seconds at most.  Anybody may ask, so an answer is kept for a second.
Used by pages.py.
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
from graveler.auth.callers import Caller
from graveler.auth.permissions import Permission
from graveler.block.adapter import Blocks
from graveler.committed.cache import CacheFigures
from graveler.engine import staged_rows
from graveler.engine.repositories import repository
from graveler.engine.staged_rows import StagedRows
from graveler.errors import GravelerError, NotFound
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
_NO_ROW: Final = (b"ready", b"ready")  # a place where no row is
_NO_OBJECT: Final = "_graveler/ready"  # an address below a namespace where no object is
_READY: Final = Answer(200, PLAIN, b"ready")
_NOT_READY: Final = Answer(
    503, (*PLAIN, (b"retry-after", b"1")), b"not ready: the store does not answer"
)


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
        self._is_ready = False
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
        """Whether the store answers.  At most once a second 1 KV request, and with a namespace 1
        block request."""
        age = self._service.ports.clock.steady_seconds() - self._ready_at
        if self._asking is None and age >= _READY_SECONDS:
            self._asking = asyncio.ensure_future(self._ask())
        if self._asking is not None:  # all who ask meanwhile wait for the same answer
            await asyncio.shield(self._asking)
        return _READY if self._is_ready else _NOT_READY

    async def _ask(self) -> None:
        try:
            self._is_ready = await self._reaches_store()
            self._ready_at = self._service.ports.clock.steady_seconds()
        finally:
            self._asking = None

    async def _reaches_store(self) -> bool:
        answer = self._service.pools.walkers.start(self._ask_stores)
        try:
            await asyncio.wait_for(answer, _WAIT_SECONDS)
        except (GravelerError, TimeoutError):
            return False
        return True

    def _ask_stores(self) -> None:
        ask_table(self._service.ports.kv)
        if self._namespace:
            ask_bucket(self._service.ports.blocks, self._namespace)


def ask_table(kv: Store) -> None:
    """Ask the key-value store for a row that does not exist.  Raises `Unavailable` if it does not
    answer.  1 request."""
    kv.get(*_NO_ROW)


def ask_bucket(blocks: Blocks, namespace: str) -> None:
    """Ask the object store for an object below `namespace` that does not exist.  Raises
    `Unavailable` if it does not answer, or has no such bucket.  1 request."""
    with suppress(NotFound):
        blocks.read(f"{namespace}/{_NO_OBJECT}", 0, 1)
