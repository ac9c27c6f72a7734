"""Metrics of one process in the format of Prometheus.

Labels are names of operations and statuses only.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from graveler.auth import accounts
from graveler.committed.cache import CacheFigures
from graveler.core.limits import SECOND_NS
from graveler.engine.ports import Ports

BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_BUCKETS_COUNT: Final = len(BUCKETS) + 1  # the last one is unbounded
_REQUESTS: Final = "graveler_requests_seconds"


class _Series:
    """The requests of one operation with one status."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS_COUNT
        self.seconds = 0.0


class Metrics:
    """The counters of one process.  Only the thread of the event loop counts; any thread reads."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, int], _Series] = {}
        self.requests = 0
        self.added = 0  # to the counters of the deployment (auth/accounts.py)
        self.adding = threading.Lock()  # held by the thread that adds

    def record(self, operation: str, status: int, seconds: float) -> None:
        """Count a request of the API that was answered."""
        self.requests += 1
        series = self._series.get((operation, status))
        if series is None:
            series = self._series[operation, status] = _Series()
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
        series.seconds += seconds

    def lines(self) -> Iterator[str]:
        """The counters, in the text format of Prometheus."""
        yield f"# HELP {_REQUESTS} Requests of the API, to the end of the answer."
        yield f"# TYPE {_REQUESTS} histogram"
        for (operation, status), series in sorted(self._series.items()):
            labels = f'operation="{operation}",status="{status}"'
            count = 0
            for bound, number in zip((*BUCKETS, "+Inf"), series.buckets, strict=True):
                count += number
                yield f'{_REQUESTS}_bucket{{{labels},le="{bound}"}} {count}'
            yield f"{_REQUESTS}_sum{{{labels}}} {series.seconds:.6f}"
            yield f"{_REQUESTS}_count{{{labels}}} {count}"


def add_requests(ports: Ports, metrics: Metrics) -> None:
    """Add the requests that were not added yet to the counters of the deployment.

    Errors: those of `accounts.add_usage`: what is not added now is added later.
    """
    with metrics.adding:
        count = metrics.requests - metrics.added
        if count:
            month = datetime.fromtimestamp(ports.clock.now_ns() / SECOND_NS, UTC)
            accounts.add_usage(ports.kv, ports.ids, f"{month:%Y-%m}", count)
            metrics.added += count


def cache_lines(caches: Mapping[str, CacheFigures]) -> Iterator[str]:
    """The figures of the caches of ranges, by the name of the cache."""
    kinds = (("hits", "counter", "_total"), ("misses", "counter", "_total"), ("spent", "gauge", ""))
    for field, kind, ending in kinds:
        name = f"graveler_cache_{'bytes' if field == 'spent' else field}{ending}"
        yield f"# TYPE {name} {kind}"
        for cache, figures in caches.items():
            yield f'{name}{{cache="{cache}"}} {getattr(figures, field)}'


def job_lines(states: Mapping[str, int], repositories: int) -> Iterator[str]:
    """How many jobs are on record, by state, in the repositories that were read."""
    yield "# HELP graveler_jobs Jobs on record, in the repositories that were read."
    yield "# TYPE graveler_jobs gauge"
    for state, count in sorted(states.items()):
        yield f'graveler_jobs{{state="{state}"}} {count}'
    yield "# TYPE graveler_jobs_repositories gauge"
    yield f"graveler_jobs_repositories {repositories}"


def staged_lines(rows: int, branches: int) -> Iterator[str]:
    """How many uncommitted rows there are, and the branches whose rows were all counted."""
    yield "# HELP graveler_staged_rows Uncommitted rows, at least; all of the counted branches."
    yield "# TYPE graveler_staged_rows gauge"
    yield f"graveler_staged_rows {rows}"
    yield "# TYPE graveler_staged_rows_branches gauge"
    yield f"graveler_staged_rows_branches {branches}"
