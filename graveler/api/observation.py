"""Two paths for operators: `/metrics`, with credentials, and `/_health/ready`, without.

Metrics need the permission `fs:ReadConfig`, because they reveal what a deployment does.  The jobs
of all repositories are counted at most once a minute, within a second.

Readiness asks the key-value store for one row, and waits two seconds at most.  Anybody may ask, so
an answer is kept for a second.  Used by pages.py.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple

from graveler.api import metrics
from graveler.api.answers import NOSNIFF, PLAIN, Answer
from graveler.api.service import Service
from graveler.auth.callers import Caller
from graveler.auth.permissions import Permission
from graveler.committed.cache import CacheFigures
from graveler.engine.repositories import repository
from graveler.errors import GravelerError
from graveler.refs.jobs import record

METRICS_PATH: Final = "/metrics"
READY_PATH: Final = "/_health/ready"
_PERMISSIONS: Final = (Permission("fs:ReadConfig", "*"),)
_CONTENT: Final = ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), NOSNIFF)
_JOBS_SECONDS: Final = 60.0
_COUNT_SECONDS: Final = 1.0
_READY_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 2.0
_NO_ROW: Final = (b"ready", b"ready")  # a place where no row is
_READY: Final = Answer(200, PLAIN, b"ready")
_NOT_READY: Final = Answer(
    503, (*PLAIN, (b"retry-after", b"1")), b"not ready: the store does not answer"
)


class _JobCount(NamedTuple):
    at: float
    states: Mapping[str, int]
    repositories: int


class Observation:
    """Answers both paths."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._jobs = _JobCount(float("-inf"), {}, 0)
        self._ready_at = float("-inf")
        self._is_ready = False

    async def metrics(self, caller: Caller) -> Answer:
        """The metrics of this process.  Raises `Refused`."""
        auth, pools = self._service.auth, self._service.pools
        await pools.point(auth.authorize, caller, _PERMISSIONS)
        return await pools.writers.start(self._text)

    def _text(self) -> Answer:
        lines = chain(
            self._service.metrics.lines(),
            metrics.cache_lines(self._caches()),
            metrics.job_lines(*self._counted()),
        )
        return Answer(200, _CONTENT, ("\n".join(lines) + "\n").encode())

    def _caches(self) -> Mapping[str, CacheFigures]:
        caches: Mapping[str, CacheFigures] = getattr(self._service.ports.ranges, "caches", {})
        return caches

    def _counted(self) -> tuple[Mapping[str, int], int]:
        """Jobs by state, and in how many repositories."""
        ports = self._service.ports
        now = ports.clock.steady_seconds()
        if now - self._jobs.at >= _JOBS_SECONDS:
            states: Counter[str] = Counter()
            count = 0
            for repo in repository.every(ports):
                if ports.clock.steady_seconds() - now >= _COUNT_SECONDS:
                    break
                jobs = record.list_all(repo.kv, repo.record)
                states.update(seen.job.state.name.lower() for seen in jobs)
                count += 1
            self._jobs = _JobCount(now, states, count)
        return self._jobs.states, self._jobs.repositories

    async def ready(self) -> Answer:
        """Whether the store answers."""
        clock = self._service.ports.clock
        if clock.steady_seconds() - self._ready_at >= _READY_SECONDS:
            self._is_ready = await self._reaches_store()
            self._ready_at = clock.steady_seconds()
        return _READY if self._is_ready else _NOT_READY

    async def _reaches_store(self) -> bool:
        row = self._service.pools.walkers.start(self._service.ports.kv.get, *_NO_ROW)
        try:
            await asyncio.wait_for(row, _WAIT_SECONDS)
        except (GravelerError, TimeoutError):
            return False
        return True
