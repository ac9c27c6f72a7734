"""The soak's own judgement: what it counts, what it keeps, what it calls growth."""

import json
import random
from pathlib import Path

import pytest

from graveler.testing import soak, soak_report
from graveler.testing.cardinality import DistinctCount
from graveler.testing.kill_loop import KillLoop, Slot
from graveler.testing.soak_tracks import Failure, Report
from graveler.testing.steady_load import Sample, judged

ROOT = Path(__file__).parents[2]


def sample(number: int, **changed: float) -> Sample:
    even = Sample(10.0 * number, 100.0, 40, 5.0 + number, 300 * number, 900, 3.0, 20.0)
    return even._replace(**changed)  # type: ignore[arg-type]


def test_an_even_load_is_right() -> None:
    assert judged([sample(number) for number in range(60)]) == []


def test_caches_may_fill() -> None:
    assert judged([sample(at, memory_mib=100.0 + 7 * at) for at in range(60)]) == []


def test_a_run_too_short_to_tell_is_not_judged() -> None:
    assert judged([sample(number, memory_mib=10.0**number) for number in range(10)]) == []


@pytest.mark.parametrize(
    ("name", "grown"),
    [
        ("memory_mib", lambda at: 300.0 + 10 * at),
        ("open_files", lambda at: 40 + 2 * at),
        ("median_ms", lambda at: 3.0 + at),
        ("high_ms", lambda at: 20.0 + 40 * at),
        ("disk_mib", lambda at: 5.0 + at * at),
    ],
)
def test_growth_is_noticed(name: str, grown) -> None:  # type: ignore[no-untyped-def]
    samples = [sample(at, **{name: grown(at)}) for at in range(60)]
    (said,) = judged(samples)
    assert name.split("_")[0] in said


def test_distinct_numbers_are_counted_within_three_per_cent() -> None:
    for wanted in (100, 20_000, 300_000):
        count = DistinctCount()
        for number in range(wanted):
            count.add(number * 1_000_003)
            count.add(number * 1_000_003)
        assert abs(count.estimate() - wanted) <= 0.03 * wanted


def test_a_failing_seed_is_kept_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        soak.keep(Failure("simulation", "core all 7", "lost"), tmp_path)
    soak.keep(Failure("fuzz", "tables 9", "KeyError"), tmp_path)
    soak.keep(Failure("", "", "a service ended"), tmp_path)
    kept = {path.as_posix(): path.read_text() for path in (tmp_path / "tests").rglob("*.txt")}
    assert sorted(kept.values()) == ["core all 7\n", "tables 9\n"]
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
    text = soak_report.report(figures, totals.samples)
    assert "| Random schedules of the verbs | 4 |" in text
    assert "memory, MiB" in text
    json.dumps(figures)


def test_the_document_has_one_generated_part(tmp_path: Path) -> None:
    copy = tmp_path / "reliability.md"
    original = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    copy.write_text(original, encoding="utf-8")
    soak_report.write(copy, "of run 1")
    soak_report.write(copy, "of run \\2")
    written = copy.read_text(encoding="utf-8")
    assert f"{soak_report.BEGIN}\nof run \\2\n{soak_report.END}" in written
    assert "of run 1" not in written
    assert written.partition(soak_report.BEGIN)[0] == original.partition(soak_report.BEGIN)[0]


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
