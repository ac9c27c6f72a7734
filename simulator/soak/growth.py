"""Whether what was sampled under an even load grows: a slow leak does, noise does not.

    samples ─► 24 blocks, the median of each ─► Mann and Kendall: does the rank rise with time?
                                              ─► Theil and Sen: how much in an hour?
                                              ─► thirds: does it rise from each third to the next?

A quantity *grows* if all of this holds:

- the run has lasted `LEAST_SECONDS`;
- the trend is significant: a level series shows one as strong in one of 500 runs (`Z_LEAST`);
- it rises by more than a floor in an hour;
- both later thirds rise by a share of the whole: a step, or caches that fill, rise in one.

A trend above its floor that fails another condition is a remark, no verdict.  Samples that follow
one another are alike (a compaction lasts longer than one); blocks of a minute and more are less so,
so the test of ranks counts 24 observations and not hundreds, and fewer where neighbours still are.

Latency has two signals.  One is milliseconds as they were.  The other is what is left of them when
the time that a fixed piece of work took is taken out: a machine that becomes busy slows both.  The
verdict is of the second, and the first must rise too.  Where the fixed work says nothing about
latency, nothing is taken out and both signals are one.  For tests only.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from statistics import fmean, median
from typing import NamedTuple

LEAST_SECONDS = 1_800.0
BLOCKS = 24
Z_LEAST = 2.88  # one in 500, one-sided
_THIRD_SHARE = 0.05
_ALIKE = 0.2  # from so much on, blocks that follow one another count as alike
_CONTROL_SHARE = 0.25


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


Block = Sequence[Sample]
Point = tuple[float, float]  # seconds, value


class Rule(NamedTuple):
    """A quantity of a block, and how much it may rise: absolutely, or as a share of its level.
    `controlled`: the field of samples that the fixed work is taken out of; empty: none."""

    name: str
    unit: str
    value: Callable[[Block], float]
    hour: float = 0.0
    hour_share: float = 0.0
    controlled: str = ""


class Trend(NamedTuple):
    """What became of a quantity.  `raw_per_hour`: as it was measured; `per_hour`: without what the
    machine explains; `z`: standard deviations by which its ranks rise."""

    name: str
    unit: str
    level: float
    raw_per_hour: float
    per_hour: float
    allowed_per_hour: float
    z: float
    verdict: str

    @property
    def grows(self) -> bool:
        return self.verdict == GROWS


LEVEL = "level"
GROWS = "grows"
TOO_SHORT = "rises; the run is too short to tell"
BY_CHANCE = "rises; not significant"
BY_THE_MACHINE = "rises; only beside the fixed work"
ONCE = "rises; in one part of the run"


def judged(samples: Sequence[Sample]) -> list[str]:
    """What grew: violations."""
    return [said(each) for each in trends(samples) if each.grows]


def remarks(samples: Sequence[Sample]) -> list[str]:
    """What rose by more than its floor and is no verdict."""
    return [said(each) for each in trends(samples) if each.verdict not in (GROWS, LEVEL)]


def said(trend: Trend) -> str:
    """A trend in a line, both signals."""
    return (
        f"{trend.name} {trend.verdict}: {trend.per_hour:+.4g} {trend.unit} an hour "
        f"(as measured {trend.raw_per_hour:+.4g}), z={trend.z:.2f}, level={trend.level:.4g}, "
        f"allowed={trend.allowed_per_hour:.4g}"
    )


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Every quantity's; none of a run with fewer samples than two a block."""
    if len(samples) < 2 * BLOCKS:
        return []
    edges = [at * len(samples) // BLOCKS for at in range(BLOCKS + 1)]
    blocks = [samples[left:right] for left, right in pairwise(edges)]
    return [_trend(rule, blocks) for rule in RULES]


def _trend(rule: Rule, blocks: Sequence[Block]) -> Trend:
    seconds = [fmean(sample.seconds for sample in block) for block in blocks]
    raw = [rule.value(block) for block in blocks]
    values = [rule.value(block) for block in _controlled(rule, blocks, raw)]
    level = median(raw)
    trend = Trend(
        rule.name,
        rule.unit,
        level,
        3600 * theil_sen(list(zip(seconds, raw, strict=True))),
        3600 * theil_sen(list(zip(seconds, values, strict=True))),
        max(rule.hour, rule.hour_share * level),
        mann_kendall(values) / math.sqrt(_inflation(seconds, values)),
        LEVEL,
    )
    lasted = blocks[-1][-1].seconds - blocks[0][0].seconds
    return trend._replace(verdict=_verdict(trend, values, lasted))


def _verdict(trend: Trend, values: Sequence[float], lasted: float) -> str:
    if trend.per_hour <= trend.allowed_per_hour:
        return LEVEL
    if lasted < LEAST_SECONDS:
        return TOO_SHORT
    if trend.z < Z_LEAST:
        return BY_CHANCE
    if trend.raw_per_hour <= _CONTROL_SHARE * trend.allowed_per_hour:
        return BY_THE_MACHINE
    third = len(values) // 3
    means = [fmean(values[at : at + third]) for at in range(0, 3 * third, third)]
    whole = means[-1] - means[0]
    if any(later - earlier <= _THIRD_SHARE * whole for earlier, later in pairwise(means)):
        return ONCE
    return GROWS


def _controlled(rule: Rule, blocks: Sequence[Block], raw: Sequence[float]) -> Sequence[Block]:
    """Samples less what the line of a quantity over the fixed work explains; a slower machine never
    makes requests faster.  A leak beside a machine that becomes busy all along is taken for that.
    """
    if not rule.controlled:
        return blocks
    work = [_middle([sample.fixed_work_ms for sample in block]) for block in blocks]
    slope = max(0.0, theil_sen(list(zip(work, raw, strict=True))))
    middle = median(work)

    def without(sample: Sample) -> Sample:
        explained = slope * (sample.fixed_work_ms - middle)
        left = getattr(sample, rule.controlled) - explained
        return sample._replace(**{rule.controlled: left})

    return [[without(sample) for sample in block] for block in blocks]


def theil_sen(points: Sequence[Point]) -> float:
    """The median slope of all pairs; up to 29 % of outliers do not move it.  0 without pairs."""
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in combinations(points, 2)
        if later[0] != earlier[0]
    ]
    return median(slopes) if slopes else 0.0


def mann_kendall(values: Sequence[float]) -> float:
    """By how many standard deviations more pairs rise than fall; ties count for neither."""
    count = len(values)
    rises = sum((later > earlier) - (later < earlier) for earlier, later in combinations(values, 2))
    ties = [values.count(value) for value in set(values)]
    variance = _pairs_variance(count) - sum(map(_pairs_variance, ties))
    if variance <= 0:
        return 0.0
    return (rises - math.copysign(min(1, abs(rises)), rises)) / math.sqrt(variance)


def _pairs_variance(count: int) -> float:
    return count * (count - 1) * (2 * count + 5) / 18


def _inflation(seconds: Sequence[float], values: Sequence[float]) -> float:
    """How many blocks say what one independent block would: by the correlation of neighbours that
    is left without the line."""
    slope = theil_sen(list(zip(seconds, values, strict=True)))
    left = [value - slope * at for at, value in zip(seconds, values, strict=True)]
    centre = fmean(left)
    scatter = sum((each - centre) ** 2 for each in left)
    shared = sum((one - centre) * (other - centre) for one, other in pairwise(left))
    alike = shared / scatter if scatter else 0.0
    return (1 + alike) / (1 - alike) if alike > _ALIKE else 1.0


def _middle_of(name: str) -> Callable[[Block], float]:
    return lambda block: _middle([float(getattr(sample, name)) for sample in block])


def _middle(values: Sequence[float]) -> float:
    """The mean of the middle three fifths."""
    cut = len(values) // 5
    return fmean(sorted(values)[cut : len(values) - cut])


def _kib_per_change(block: Block) -> float:
    first, last = block[0], block[-1]
    return 1024 * (last.disk_mib - first.disk_mib) / max(1, last.changes - first.changes)


RULES = (
    Rule("memory", "MiB", _middle_of("memory_mib"), hour=6.0),
    Rule("open files", "files", _middle_of("open_files"), hour=12.0),
    Rule("disk for a change", "KiB", _kib_per_change, hour=3.0, hour_share=0.9),
    Rule("median latency", "ms", _middle_of("median_ms"), 0.5, 0.08, "median_ms"),
    Rule("99th percentile", "ms", _middle_of("high_ms"), 10.0, 0.3, "high_ms"),
)
