"""What counts as growth under an even load: a slow leak does, noise and a busy machine do not."""

from random import Random

import pytest

from graveler.testing.growth import Sample, judged, theil_sen

COUNT = 240  # 40 minutes


def sample(number: int, **changed: float) -> Sample:
    even = Sample(10.0 * number, 100.0, 40, 5.0 + number, 300 * number, 900, 3.0, 20.0, 1.5)
    return even._replace(**changed)  # type: ignore[arg-type]


def noisy(seed: int, at: int, *, busy: float = 1.0) -> Sample:
    """A level load as it is seen: outliers, files that come and go, compactions, other work."""
    chance = Random(f"{seed}/{at}")
    fixed = busy * chance.lognormvariate(0.4, 0.2)
    return sample(
        at,
        memory_mib=100 + chance.gauss(0, 1.5) + (30 if chance.random() < 0.05 else 0),
        open_files=40 + chance.randrange(8),
        disk_mib=5 + at + chance.uniform(0, 3),
        changes=300 * at + chance.randrange(200),
        median_ms=2.5 * fixed * chance.lognormvariate(0, 0.15),
        high_ms=30 * fixed * chance.lognormvariate(0, 0.3),
        fixed_work_ms=fixed,
    )


def test_an_even_load_is_right() -> None:
    assert judged([sample(number) for number in range(COUNT)]) == []


def test_noise_is_no_growth() -> None:
    for seed in range(40):
        assert judged([noisy(seed, at) for at in range(COUNT)]) == [], seed


def test_a_machine_that_becomes_busy_is_no_growth() -> None:
    for seed in range(10):
        slower = [noisy(seed, at, busy=1 + 3 * at / COUNT) for at in range(COUNT)]
        assert judged(slower) == [], seed
        other = [noisy(seed, at, busy=3.0 if at > 170 else 1.0) for at in range(COUNT)]
        assert judged(other) == [], seed


def test_a_step_is_no_growth() -> None:
    stepped = [sample(at, memory_mib=100.0 + 20 * (at > 150)) for at in range(COUNT)]
    assert judged(stepped) == []


def test_caches_may_fill_in_the_first_half() -> None:
    assert (
        judged([sample(at, memory_mib=100.0 + 2 * min(at, COUNT // 2)) for at in range(COUNT)])
        == []
    )


def test_a_run_too_short_to_tell_is_not_judged() -> None:
    assert judged([sample(number, memory_mib=10.0**number) for number in range(10)]) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("name", "said", "an_hour"),
    [
        ("memory_mib", "memory", 45.0),
        ("open_files", "open files", 40.0),
        ("median_ms", "median latency", 8.0),
        ("high_ms", "99th percentile", 400.0),
    ],
)
def test_a_slow_leak_is_noticed(name: str, said: str, an_hour: float, seed: int) -> None:
    samples = []
    for at in range(COUNT):
        seen = noisy(seed, at)
        leaked = getattr(seen, name) + an_hour * seen.seconds / 3600
        samples.append(seen._replace(**{name: leaked}))
    assert [each.partition(" grows")[0] for each in judged(samples)] == [said]


def test_disk_that_a_change_takes_more_of_is_noticed() -> None:
    samples = [sample(at, disk_mib=5 + at + at * at / COUNT) for at in range(COUNT)]
    (said,) = judged(samples)
    assert said.startswith("disk for a change grows")


def test_outliers_do_not_move_the_line() -> None:
    points = [(float(at), 2.0 * at + (1_000 if at % 5 == 0 else 0)) for at in range(60)]
    assert theil_sen(points) == pytest.approx(2.0, abs=0.1)
