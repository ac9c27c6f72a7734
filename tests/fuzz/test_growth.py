"""What counts as growth under an even load: a slow leak does, noise and a busy machine do not."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from simulator.soak.growth import (
    BY_CHANCE,
    LEAST_SECONDS,
    LEVEL,
    ONCE,
    TOO_SHORT,
    Sample,
    judged,
    mann_kendall,
    remarks,
    theil_sen,
    trends,
)

COUNT = 240  # 40 minutes
SHORT = 72  # 12 minutes
SERIES = 100


def sample(number: int, **changed: float) -> Sample:
    memory = (100.0, 30.0, 5.0)
    even = Sample(10.0 * number, *memory, 40, 5.0 + number, 300 * number, 900, 3.0, 20.0, 1.5)
    return even._replace(**changed)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Load:
    """A load as it is seen: outliers, files that come and go, compactions, other work.

    `alike`: the correlation of a sample with the one before it.  `spread`: by how much the fixed
    work scatters (logarithmic); `linked`: latency scatters with it.  `leaks`: an hour.
    """

    count: int = COUNT
    busy: Callable[[int], float] = lambda _at: 1.0
    alike: float = 0.0
    spread: float = 0.2
    linked: bool = True
    leaks: Mapping[str, float] = field(default_factory=dict)

    def samples(self, seed: int) -> list[Sample]:
        chance = Random(seed)
        return [self._sample(at, chance, *noise) for at, noise in enumerate(self._noise(chance))]

    def _noise(self, chance: Random) -> Iterator[tuple[float, float]]:
        latency = memory = 0.0
        fresh = math.sqrt(1 - self.alike**2)
        for _ in range(self.count):
            latency = self.alike * latency + fresh * chance.gauss(0, 1)
            memory = self.alike * memory + fresh * chance.gauss(0, 1)
            yield latency, memory

    def _sample(self, at: int, chance: Random, latency: float, memory: float) -> Sample:
        fixed = self.busy(at) * chance.lognormvariate(0.4, self.spread)
        base = fixed if self.linked else 1.5
        seen = sample(
            at,
            memory_mib=100 + 1.5 * memory + (30 if chance.random() < 0.05 else 0),
            open_files=40 + chance.randrange(8),
            disk_mib=5 + at + chance.uniform(0, 3),
            changes=300 * at + chance.randrange(200),
            median_ms=2.5 * base * math.exp(0.1 * latency),
            high_ms=30 * base * chance.lognormvariate(0, 0.3),
            fixed_work_ms=fixed,
        )
        hours = seen.seconds / 3600
        leaked = {name: getattr(seen, name) + more * hours for name, more in self.leaks.items()}
        return seen._replace(**leaked)


def grown(load: Load, count: int = SERIES) -> list[str]:
    """The names of what grew, of all series; the seeds are their numbers."""
    return [
        said.partition(" grows")[0] for seed in range(count) for said in judged(load.samples(seed))
    ]


def test_an_even_load_is_right() -> None:
    even = [sample(number) for number in range(COUNT)]
    assert (judged(even), remarks(even)) == ([], [])
    assert {each.verdict for each in trends(even)} == {LEVEL}


def fivefold(**more: float) -> Load:
    """The fixed work varies fivefold (from a 2.5th to a 97.5th percentile), latency does not."""
    return Load(spread=math.log(5) / 4, linked=False, **more)  # type: ignore[arg-type]


# How many series of SERIES may be called growth: 2 in 100 where samples stay alike for a minute.
@pytest.mark.parametrize(
    ("load", "most"),
    [
        (Load(), 0),
        (Load(alike=0.8), 2),
        (fivefold(), 0),
        (fivefold(alike=0.8), 2),
        (Load(count=SHORT), 0),
        (fivefold(count=SHORT), 0),
        (Load(busy=lambda at: 1 + 3 * at / COUNT), 0),
        (Load(busy=lambda at: 3.0 if at > 170 else 1.0), 0),
    ],
    ids=["level", "alike", "fivefold", "fivefold alike", "short", "short fivefold", "ramp", "step"],
)
def test_a_level_load_is_no_growth(load: Load, most: int) -> None:
    assert len(grown(load)) <= most


@pytest.mark.parametrize(
    ("leaks", "name"),
    [
        ({"memory_mib": 10.0}, "memory in use"),
        ({"memory_mib": 10.0, "file_mib": 10.0}, "memory of files"),
        ({"open_files": 20.0}, "open files"),
        ({"median_ms": 1.0}, "median latency"),
        ({"high_ms": 40.0}, "99th percentile"),
    ],
)
@pytest.mark.parametrize("load", [Load, fivefold], ids=["linked", "fivefold"])
def test_a_slow_leak_is_found_in_40_minutes(
    load: Callable[..., Load], leaks: dict[str, float], name: str
) -> None:
    found = grown(load(leaks=leaks))
    assert set(found) == {name}
    assert len(found) >= 0.95 * SERIES


def test_a_leak_is_found_though_the_machine_is_busy_for_a_while() -> None:
    load = Load(busy=lambda at: 2.0 if 80 < at < 160 else 1.0, leaks={"median_ms": 2.0})
    assert len(grown(load, 20)) >= 19
    [said] = judged(load.samples(0))
    assert "as measured" in said and "ms an hour" in said


def test_a_step_and_a_cache_that_fills_are_no_growth() -> None:
    stepped = [sample(at, memory_mib=100.0 + 20 * (at > 150)) for at in range(COUNT)]
    filled = [sample(at, memory_mib=100.0 + min(at, COUNT // 2)) for at in range(COUNT)]
    assert judged(stepped) == judged(filled) == []
    [remark] = remarks(filled)
    assert remark.startswith("memory in use rises; ")


def test_free_room_that_grows_in_the_heap_is_no_growth() -> None:
    room = {"memory_mib": 10.0, "free_mib": 10.0}
    assert grown(Load(leaks=room)) == []


def test_a_step_among_noise_is_a_remark() -> None:
    verdicts = set()
    for seed in range(40):
        seen = Load().samples(seed)
        steps = [
            each._replace(memory_mib=each.memory_mib + 3 * (each.seconds > 900)) for each in seen
        ]
        verdicts |= {each.verdict for each in trends(steps) if each.name == "memory in use"}
    assert ONCE in verdicts


def test_noise_that_rises_by_chance_is_a_remark() -> None:
    load = Load(alike=0.9)
    found = [each for seed in range(40) for each in trends(load.samples(seed))]
    assert BY_CHANCE in {each.verdict for each in found}


def test_a_short_run_is_told_but_not_judged() -> None:
    leak = Load(count=SHORT, leaks={"memory_mib": 100.0}).samples(1)
    assert leak[-1].seconds < LEAST_SECONDS
    assert judged(leak) == []
    assert [each.verdict for each in trends(leak) if each.name == "memory in use"] == [TOO_SHORT]
    assert judged([sample(number, memory_mib=10.0**number) for number in range(10)]) == []


def test_disk_that_a_change_takes_more_of_is_noticed() -> None:
    samples = [sample(at, disk_mib=5 + at + at * at / COUNT) for at in range(COUNT)]
    [said] = judged(samples)
    assert said.startswith("disk for a change grows")


def test_outliers_do_not_move_the_line() -> None:
    points = [(float(at), 2.0 * at + (1_000 if at % 5 == 0 else 0)) for at in range(60)]
    assert theil_sen(points) == pytest.approx(2.0, abs=0.1)
    assert theil_sen([(1.0, 1.0), (1.0, 2.0)]) == 0.0


def test_ranks_rise_as_the_books_say() -> None:
    assert mann_kendall([1.0] * 10) == 0.0
    # 10 values in order: S = 45, its variance 10 * 9 * 25 / 18 = 125
    assert mann_kendall([float(at) for at in range(10)]) == pytest.approx(44 / math.sqrt(125))
    assert mann_kendall([float(-at) for at in range(10)]) == pytest.approx(-44 / math.sqrt(125))
    # 1 1 2: S = 2; a tie of two takes 2 * 1 * 9 / 18 = 1 from 3 * 2 * 11 / 18
    assert mann_kendall([1.0, 1.0, 2.0]) == pytest.approx(1 / math.sqrt(66 / 18 - 1))
