"""Whether what was sampled under an even load stays level: a slow leak shows, noise does not.

    first half: caches fill, not judged │ second half: a line through it, extrapolated to an hour
                                        │ quarter 3 │ quarter 4      must both rise with it

The line is Theil and Sen's: the median of the slopes between all pairs of samples, which up to 29 %
of outliers do not move.  A quantity grows if its line rises by more than a floor, in an hour and
within the half itself, and if both quarters rise: a step (other work that begins, a table that
doubles) rises in one of them only.  Latency is divided by the time that a fixed piece of work took
at the same instants, so that a machine that becomes busy slows both.  For tests only.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

SAMPLES_MIN = 24
_PARTS = 16  # of the half, where a figure needs a difference of samples
_QUARTER_SHARE = 0.25


class Sample(NamedTuple):
    """What was seen in one interval; latencies of all requests of it."""

    seconds: float
    memory_mib: float
    open_files: int
    disk_mib: float
    changes: int
    requests: int
    median_ms: float
    high_ms: float  # of 100 requests one takes longer
    fixed_work_ms: float  # what the machine needed for always the same


Point = tuple[float, float]  # seconds, value


class Rule(NamedTuple):
    """A quantity, and how much it may rise: absolutely, or as a share of its level."""

    name: str
    unit: str
    points: Callable[[Sequence[Sample]], list[Point]]
    hour: float = 0.0
    hour_share: float = 0.0
    within_share: float = 1 / 6  # of what an hour may bring, and that is all that a half may bring


class Trend(NamedTuple):
    """What became of a quantity: its level (the median), its rise, and the rise that is allowed."""

    name: str
    unit: str
    level: float
    per_hour: float
    allowed_per_hour: float
    grows: bool


def judged(samples: Sequence[Sample]) -> list[str]:
    """What grew; nothing of a run too short to tell."""
    return [
        f"{each.name} grows: {each.per_hour:+.4g} {each.unit} an hour, level={each.level:.4g}, "
        f"allowed={each.allowed_per_hour:.4g}"
        for each in trends(samples)
        if each.grows
    ]


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Every quantity's, over the second half; none of a run too short to tell."""
    if len(samples) < SAMPLES_MIN:
        return []
    half = samples[len(samples) // 2 :]
    return [_trend(rule, rule.points(half)) for rule in RULES]


def _trend(rule: Rule, points: list[Point]) -> Trend:
    level = median(value for _, value in points)
    slope = theil_sen(points)
    allowed = max(rule.hour, rule.hour_share * level)
    middle = len(points) // 2
    steady = all(
        theil_sen(part) > _QUARTER_SHARE * slope for part in (points[:middle], points[middle:])
    )
    # A short run must not be extrapolated from noise: within the half there is a floor as well.
    within = slope * (points[-1][0] - points[0][0]) > allowed * rule.within_share
    grows = 3600 * slope > allowed and within and steady
    return Trend(rule.name, rule.unit, level, 3600 * slope, allowed, grows)


def theil_sen(points: Sequence[Point]) -> float:
    """The median slope of all pairs."""
    return median(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for at, earlier in enumerate(points)
        for later in points[at + 1 :]
    )


def _column(name: str) -> Callable[[Sequence[Sample]], list[Point]]:
    return lambda samples: [(each.seconds, float(getattr(each, name))) for each in samples]


def _ratio(name: str) -> Callable[[Sequence[Sample]], list[Point]]:
    return lambda samples: [
        (each.seconds, getattr(each, name) / each.fixed_work_ms) for each in samples
    ]


def _kib_per_change(samples: Sequence[Sample]) -> list[Point]:
    """Over parts of the time: files are written now and then, not with each change."""
    count = min(_PARTS, len(samples) - 1)
    edges = [samples[at * (len(samples) - 1) // count] for at in range(count + 1)]
    return [
        (
            late.seconds,
            1024 * (late.disk_mib - early.disk_mib) / max(1, late.changes - early.changes),
        )
        for early, late in pairwise(edges)
    ]


RULES = (
    Rule("memory", "MiB", _column("memory_mib"), hour=24.0, hour_share=0.12),
    Rule("open files", "files", _column("open_files"), hour=18.0),
    Rule("disk for a change", "KiB", _kib_per_change, hour=3.0, hour_share=0.9),
    Rule("median latency", "times the fixed work", _ratio("median_ms"), hour_share=0.75),
    Rule("99th percentile", "times the fixed work", _ratio("high_ms"), hour_share=1.0),
)
