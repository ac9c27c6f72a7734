"""The soak's own judgement: what it counts, what it keeps, what it calls growth."""

import json
import random
from pathlib import Path

import pytest

from simulator.soak import run as soak
from simulator.soak.kill_loop import KillLoop, Slot
from simulator.soak.load import LEAST_SECONDS, Sample, growth, stored_mib
from simulator.soak.tracks import Failure, Report

ROOT = Path(__file__).parents[2]
COUNT = 240  # samples of 40 minutes


def sample(number: int, **changed: float) -> Sample:
    even = Sample(10.0 * number, 60.0, 40, 900, 3.0, 20.0)
    return even._replace(**changed)  # type: ignore[arg-type]


def series(name: str, slope: float, seed: int = 1) -> list[Sample]:
    """Samples that scatter, of which one field rises by `slope` an hour."""
    chance, made = random.Random(seed), []
    for at in range(COUNT):
        noise = {"memory_mib": chance.gauss(60, 1.5), "open_files": 40 + chance.randrange(8)}
        found = sample(at, **noise, median_ms=3 * chance.lognormvariate(0, 0.3))
        risen = getattr(found, name) + slope * found.seconds / 3600
        made.append(found._replace(**{name: risen}))
    return made


def test_an_even_load_does_not_grow() -> None:
    for seed in range(100):
        assert growth(series("memory_mib", 0, seed)) == []


@pytest.mark.parametrize(
    ("name", "slope"),
    [("memory_mib", 40.0), ("open_files", 80.0), ("median_ms", 60.0), ("high_ms", 500.0)],
)
def test_a_leak_is_found_in_40_minutes(name: str, slope: float) -> None:
    for seed in range(20):
        (said,) = growth(series(name, slope, seed))
        assert said.startswith(f"{name} grows")


def test_a_short_run_and_a_cache_that_fills_are_no_growth() -> None:
    assert growth([sample(at, memory_mib=10.0 * at) for at in range(72)]) == []
    assert LEAST_SECONDS > 10.0 * 72
    filled = [sample(at, memory_mib=50.0 + min(at, COUNT // 3)) for at in range(COUNT)]
    assert growth(filled) == []


def test_the_size_of_a_store_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/1", "a/b/2"):
        (tmp_path / name).write_bytes(bytes(2**19))
    assert stored_mib(tmp_path) == 1.0


def test_a_failing_seed_is_kept_once(tmp_path: Path) -> None:
    for _ in range(2):
        soak.keep(Failure("simulation", "core all 7", "lost"), tmp_path)
    soak.keep(Failure("fuzz", "tables 9", "KeyError"), tmp_path)
    soak.keep(Failure("engine", "12", "differs"), tmp_path)
    soak.keep(Failure("", "", "a service ended"), tmp_path)
    kept = {path.as_posix(): path.read_text() for path in (tmp_path / "tests").rglob("*.txt")}
    assert sorted(kept.values()) == ["12\n", "core all 7\n", "tables 9\n"]
    for file in soak.SEEDS.values():  # where the tests look
        assert (ROOT / file).parent.is_dir()


def test_totals_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    totals = soak.Totals()
    totals.add(Report({"schedules": 3, "faults": 1}, traces=[1, 2, 2]))
    totals.add(Report({"schedules": 1}, [Failure("", "", "gone")], [3], [sample(1)]))
    figures = totals.figures(1.0, 2)
    assert figures["schedules"] == 4
    assert figures["distinct_interleavings"] == 3
    assert figures["violations"] == 1
    assert "WRONG" in capsys.readouterr().out
    json.dumps(figures)


def test_what_may_be_found_after_a_kill() -> None:
    slot = Slot("p", sent=8, acknowledged=7)
    assert [found for found in range(10) if slot.allows(found, 7)] == [7, 8]
    assert not slot.allows(0, 7)  # a write that was acknowledged is gone
    assert Slot("p", sent=9, acknowledged=7).allows(0, 7)  # the deletion on its way came through
    assert not slot.allows(6, 5)  # a deletion leaves nothing to be found


def test_a_lost_write_is_noticed(tmp_path: Path) -> None:
    loop = KillLoop(tmp_path, random.Random(1))
    loop.slots[0].sent, loop.slots[0].acknowledged = 2, 2  # nobody ever sent it
    loop.run(1)
    assert any(wrong.startswith("lost after kill 0") for wrong in loop.wrong)
