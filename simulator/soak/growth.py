"""Decides whether a sampled quantity grows under an even load: a slow leak does, noise does not.

    samples ─► 24 blocks, the middle of each ─► Mann and Kendall: does the rank rise with time?
                                              ─► Theil and Sen: how much in an hour?
                                              ─► thirds: does it rise from each third to the next?

A quantity *grows* if all of these conditions hold:

- the run has lasted `LEAST_SECONDS`;
- the trend is significant: among 500 level series, one shows such a strong trend (`Z_LEAST`);
- it rises by more than its floor in an hour;
- each of the two later thirds rises by a share of the whole: a single step, or caches that fill,
  rise in only one.

A trend above its floor that fails another condition is reported as a remark, not as a violation.
Neighbouring samples are correlated (a compaction lasts longer than one sample).  Blocks of a minute
or more are less correlated, so the rank test counts 24 observations, not hundreds, and fewer if
neighbouring blocks still are.

Latency has two signals: the measured milliseconds, and what is left of them after the time of a
fixed piece of work is taken out, because a busy machine slows both.  The verdict uses the second
signal, and the first must rise too.  If the fixed work does not explain latency, nothing is taken
out and both signals are equal.  For tests only.
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
_ALIKE = 0.2  # above this correlation, neighbouring blocks count as alike
_CONTROL_SHARE = 0.25


class Sample(NamedTuple):
    """The measurements of one interval; the latencies are of all its requests.

    `disk_mib`, `changes`: at the last look at the disk, which not every interval has.
    """

    seconds: float
    memory_mib: float  # resident
    file_mib: float  # of it: pages of files
    free_mib: float  # free room in the heap of the C library, most of it resident
    open_files: int
    disk_mib: float
    changes: int
    requests: int
    median_ms: float
    high_ms: float  # the 99th percentile
    fixed_work_ms: float  # the time that the machine needed for the fixed work


Block = Sequence[Sample]
Point = tuple[float, float]  # seconds, value


def used_mib(sample: Sample) -> float:
    """The memory that the process holds on to: a leak raises it, and free room that grows between
    blocks in use does not."""
    return sample.memory_mib - sample.file_mib - sample.free_mib


class Rule(NamedTuple):
    """A quantity of a block, and how much it may rise in an hour: absolutely, or as a share of its
    level.  `controlled`: the field of samples from which the fixed work is taken out; empty:
    none."""

    name: str
    unit: str
    value: Callable[[Block], float]
    hour: float = 0.0
    hour_share: float = 0.0
    controlled: str = ""


class Trend(NamedTuple):
    """The trend of a quantity.  `raw_per_hour`: as measured; `per_hour`: without what the fixed
    work explains; `z`: by how many standard deviations the ranks rise."""

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
    """The quantities that grew: violations."""
    return [said(each) for each in trends(samples) if each.grows]


def remarks(samples: Sequence[Sample]) -> list[str]:
    """The quantities that rose above their floor without being a violation."""
    return [said(each) for each in trends(samples) if each.verdict not in (GROWS, LEVEL)]


def said(trend: Trend) -> str:
    """A trend as one line, with both signals."""
    return (
        f"{trend.name} {trend.verdict}: {trend.per_hour:+.4g} {trend.unit} an hour "
        f"(as measured {trend.raw_per_hour:+.4g}), z={trend.z:.2f}, level={trend.level:.4g}, "
        f"allowed={trend.allowed_per_hour:.4g}"
    )


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """The trend of every quantity; none if a run has fewer than two samples for each block."""
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
    """The samples without the part that the fixed work explains, by a line of the quantity over the
    fixed work.  The slope is not negative, because a slower machine never makes requests faster.  A
    leak on a machine that becomes busier during the whole run is mistaken for the machine."""
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
    """The median slope of all pairs; up to 29 % of outliers do not move it.  0 if there are no
    pairs."""
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
    """How many blocks carry the information of one independent block, by the correlation of
    neighbouring blocks after the trend line is subtracted."""
    slope = theil_sen(list(zip(seconds, values, strict=True)))
    left = [value - slope * at for at, value in zip(seconds, values, strict=True)]
    centre = fmean(left)
    scatter = sum((each - centre) ** 2 for each in left)
    shared = sum((one - centre) * (other - centre) for one, other in pairwise(left))
    alike = shared / scatter if scatter else 0.0
    return (1 + alike) / (1 - alike) if alike > _ALIKE else 1.0


def _middle_of(name: str) -> Callable[[Block], float]:
    return lambda block: _middle([float(getattr(sample, name)) for sample in block])


def _used(block: Block) -> float:
    return _middle([used_mib(sample) for sample in block])


def _middle(values: Sequence[float]) -> float:
    """The mean of the middle three fifths."""
    cut = len(values) // 5
    return fmean(sorted(values)[cut : len(values) - cut])


def _kib_per_change(block: Block) -> float:
    first, last = block[0], block[-1]
    return 1024 * (last.disk_mib - first.disk_mib) / max(1, last.changes - first.changes)


RULES = (
    Rule("memory in use", "MiB", _used, hour=6.0),
    Rule("memory of files", "MiB", _middle_of("file_mib"), hour=6.0),
    Rule("open files", "files", _middle_of("open_files"), hour=12.0),
    Rule("disk for a change", "KiB", _kib_per_change, hour=3.0, hour_share=0.9),
    Rule("median latency", "ms", _middle_of("median_ms"), 0.5, 0.08, "median_ms"),
    Rule("99th percentile", "ms", _middle_of("high_ms"), 10.0, 0.3, "high_ms"),
)
