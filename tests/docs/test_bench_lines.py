"""The lines of `make bench`: each has a floor or a reason, and says ahead or behind."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    committed,
    contention,
    distance,
    floors,
    growth,
    http,
    huge,
    pairs,
    report,
    served,
)
from benchmarks.__main__ import SECTIONS
from benchmarks.load import Load
from benchmarks.peer import COMMITTED, committed_line, judged
from graveler.committed import reader

SAME = {"sha256_64_bytes_us": 0.44, "synced_4_kib_ms": 0.22}  # a machine like lakeFS's
TWICE_AS_FAST = {"sha256_64_bytes_us": 0.22, "synced_4_kib_ms": 0.055}
MACHINE = {"processor": "P", "cores": "2", "system": "S", "python": "3", "load": "0.5"}


def line(value: float, better: str = "higher", **more: Any) -> dict[str, Any]:
    return {"name": "n", "value": value, "unit": "u", "lakefs": 100.0, "better": better, **more}


@pytest.mark.parametrize(
    ("value", "better", "verdict", "ratio", "floor", "held"),
    [
        (150.0, "higher", "ahead", 1.5, 50.0, True),
        (49.0, "higher", "behind", 0.49, 50.0, False),
        (50.0, "lower", "ahead", 2.0, 200.0, True),
        (150.0, "lower", "behind", 0.67, 200.0, True),
        (0.0, "lower", "ahead", None, 200.0, True),
    ],
)
def test_a_line_is_ahead_or_behind(
    value: float, better: str, verdict: str, ratio: float | None, floor: float, held: bool
) -> None:
    found = judged(line(value, better), SAME, 0.5)
    assert found["verdict"] == verdict and found.get("ratio") == ratio
    assert found["floor"] == floor and found["held"] is held


def test_figures_are_scaled_by_what_bounds_them() -> None:
    assert judged(line(1.0), TWICE_AS_FAST, 0.5)["scaled"] == 200
    assert judged(line(1.0, scales="sync"), TWICE_AS_FAST, 0.5)["scaled"] == 400
    assert judged(line(1.0, "lower", scales="none"), TWICE_AS_FAST, 0.5)["scaled"] == 100


def test_a_line_that_lakefs_lacks_has_a_goal_or_a_reason() -> None:
    own = judged(line(4.0, "lower", goal=5.0) | {"lakefs": 0.0}, SAME, 0.5)
    assert own["held"] is True and own["floor"] == 5.0 and "verdict" not in own
    assert judged(line(6.0, "lower", goal=5.0) | {"lakefs": 0.0}, SAME, 0.5)["held"] is False
    assert "floor" not in judged(line(6.0, reason="r") | {"lakefs": 0.0}, SAME, 0.5)


def test_a_goal_is_the_floor_of_a_line_that_is_ahead() -> None:
    found = judged(line(150.0, goal=200.0), SAME, 0.5)
    assert (found["verdict"], found["floor"], found["held"]) == ("ahead", 200.0, False)
    none = judged(line(0.0, "lower", goal=0.0), SAME, 0.5)
    assert (none["floor"], none["held"]) == (0.0, True)


def test_a_figure_near_that_of_lakefs_is_not_rounded_to_it() -> None:
    found = judged(line(99.6), SAME, 0.5)
    assert (found["verdict"], found["ratio"]) == ("behind", 0.996)
    assert [report.shown(value) for value in (0.3561, 12.34, 1_234.5)] == [
        "0.356",
        "12.3",
        "1,234.5",
    ]


def test_every_figure_of_the_committed_layer_has_a_floor_at_every_size() -> None:
    for name in COMMITTED:
        for count in (100_000, 1_000_000, *growth.SIZES.values()):
            found = committed_line(name, 1.0, count, SAME)
            assert found["floor"] > 0
            assert ("verdict" in found) == (count in (1_000_000, 10_000_000))


def test_every_round_of_the_committed_layer_writes_new_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A put that finds its file there is cheaper than one that stores it."""
    space = committed.open_space(tmp_path)
    seen: list[str] = []
    write = type(space.store).splice_range

    def counted(store: Any, namespace: str, run: Any) -> Any:
        ref = write(store, namespace, run)
        seen.append(ref.id)
        return ref

    monkeypatch.setattr(type(space.store), "splice_range", counted)
    records = [(committed.key(n), committed.value(n)) for n in range(3_000)]
    base = space.store.write_metarange(
        space.namespace, [space.store.write_range(space.namespace, records)]
    )
    found = committed._commits(space, base, 3_000)
    commits = 3 * sum(name.startswith("commit_") for name in found)
    assert len(seen) == len(set(seen)) >= commits


def test_a_generated_metarange_holds_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huge, "IN_A_RANGE", 100)
    space = committed.open_space(tmp_path)
    base = huge.generated(space, 100 * 120)
    refs = reader.ranges(space, base)
    assert sum(ref.count for ref in refs) == 12_000 and len(refs) == 120
    assert reader.get(space, base, huge.key(5_050)) == committed.value(5_050)
    numbers = range(0, huge.OBJECTS, 499_979)
    assert [*map(huge.key, numbers)] == sorted(map(huge.key, numbers))


@pytest.mark.slow
def test_a_load_tells_kinds_apart(tmp_path: Path) -> None:
    with served.serving(tmp_path) as (target, pid):
        served.prepare(target)
        scale = http.Scale(
            seconds=0.1, rounds=1, verbs=2, objects=20, files=20, mixed=0.5, hot=5, million=30
        )
        lines = http.rates(target, scale) + http.verbs(target, scale)
        lines += contention.measure(target, scale.seconds, 1, scale.hot)
        mixed = contention.mixed(target, scale.mixed)
        lines += mixed + http.bulk(target, scale, tmp_path) + http.crowded_million(scale)
        assert served.memory_mb(pid, "VmHWM") >= served.memory_mb(pid) > 1
        assert served.processor_seconds(pid) > 0
    for each in lines:
        found = judged(each, SAME, 0.5)
        assert "floor" in found or "reason" in found, found
    by_name = {each["name"].rpartition(": ")[2]: each for each in mixed}
    assert by_name["failed"]["value"] == 0
    kinds = [by_name[kind]["value"] for kind in contention.SHARES]
    assert sum(kinds) == pytest.approx(by_name["all"]["value"], rel=0.02)
    assert all("percentiles_ms" in by_name[kind] for kind in contention.SHARES)
    text = report.report({"machine": MACHINE, "calibration": SAME, "lines": lines})
    report.write_graph(lines, tmp_path)
    assert "graphs/latency-under-load.svg" in text
    assert "99.9 %" in (tmp_path / "latency-under-load.svg").read_text(encoding="utf-8")


def test_growth_is_drawn_and_written(tmp_path: Path) -> None:
    measured = {
        100_000: {
            "commit_1_ms": 20.0,
            "diff_1_ms": 2.0,
            "lookups_per_s": 200_000.0,
            "lookups_wide_per_s": 150_000.0,
        },
        10_000_000: {
            "commit_1_ms": 22.0,
            "diff_1_ms": 2.5,
            "lookups_per_s": 100_000.0,
            "lookups_wide_per_s": 90_000.0,
        },
        100_000_000: {"commit_1_ms": 40.0, "lookups_cold_per_s": 5_000.0},
    }
    lines = [committed_line("commit_1_ms", 22.0, 10_000_000, SAME)]
    text = growth.section(measured, lines, "a machine")
    assert "| commit of 1 change | ms | 20.0 | 22.0 | 40.0 | 87.0 | 3.95 × ahead |" in text
    assert "| look-ups, each in a block of its own | look-ups/s |  |  | 5,000 |  |  |" in text
    assert "three times as many as are kept | look-ups/s | 150,000 | 90,000 |  |  |  |" in text
    growth.write_graphs(measured, tmp_path)
    drawn = (tmp_path / "growth-times.svg").read_text(encoding="utf-8")
    assert drawn.count("<polyline") == 2 and drawn.count("<circle") == 5


def test_the_machine_is_measured_without_graveler() -> None:
    names = floors.measure(0.05)
    assert all(each["value"] > 0 for each in names)
    text = SECTIONS["floors"].section(names, "a machine")
    assert text.count("\n| ") == len(names) + 1
    lines = [line(1_000.0, name=name) for name in distance.LIMITS]
    near = distance.section([*lines, line(1.0)], names, "a machine")
    assert near.count("\n| ") == len(distance.LIMITS) + 1


def test_a_limit_is_the_sum_of_its_parts() -> None:
    units = dict.fromkeys(re.findall(r'by_name\[f?"([^"]+)"\]', inspect.getsource(distance)), 10.0)
    units |= {f"the smallest server, {count} connections": 5_000.0 for count in (8, 64)}
    parts = distance.Parts([{"name": name, "value": value} for name, value in units.items()])
    assert distance.LIMITS["stat, 64 connections"].value(parts) == 5_000
    assert distance.LIMITS["create branch, p50"].value(parts) == (200 + 10) / 1e3
    assert distance.LIMITS["commit one, p50"].value(parts) == (200 + 50) / 1e3
    assert distance.LIMITS["get object, 8 connections"].value(parts) == 1e6 / 210
    assert distance.LIMITS["upload of 64 bytes, 8 connections"].value(parts) == 5_000
    few, many = "1 change", "1,000 spread changes"
    one, spread = (
        distance.LIMITS[f"commit of {changes}, 1,000,000 objects"].value(parts)
        for changes in (few, many)
    )
    assert spread == pytest.approx(101 * one - 100 * 10 / 1e3)


def test_percentiles_of_a_load() -> None:
    load = Load(seconds=[number / 1_000 for number in range(1, 101)])
    assert contention.percentiles(load, (0.5, 0.99)) == [51.0, 100.0]


def test_two_versions_are_told_as_quotients_of_their_speeds() -> None:
    rates = [(line(200.0), line(100.0)), (line(90.0), line(100.0)), (line(120.0), line(100.0))]
    times = [(line(2.0, "lower"), line(1.0, "lower")), (line(4.0, "lower"), line(8.0, "lower"))]
    failed = [(line(0.0, "lower"), line(0.0, "lower"))]
    title, *told = pairs.told({"rate": rates, "time": times, "failed": failed})
    assert "median" in title and "best" in title
    assert told == ["  1.20   2.00  rate: 120, 100 u", "  1.25   0.50  time: 3, 4.5 u"]
    assert set(pairs.NEED) | set(pairs.NEED.values()) <= set(http.GROUPS)
