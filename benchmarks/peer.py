"""The figures of lakeFS on the reference machine, how they scale to another machine, the verdict.

Lines bound by the processor scale with the time of a small hash.  Lines bound by writes scale with
the time of a synced write.  Both times were measured together with the figures
(docs/measured/benchmarks.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HASH_US = 0.44  # SHA-256 over 64 bytes
SYNC_MS = 0.22  # a synced write of 4 KiB
MILLION = 1_000_000


@dataclass(frozen=True)
class Figure:
    """A line of the committed layer.

    `lakefs`: its figures by number of objects.  `share`: the part of its speed that is the floor.
    """

    title: str
    unit: str
    better: str
    lakefs: Mapping[int, float] = field(default_factory=dict)
    share: float = 0.5
    scales: str = "cpu"


def _figure(
    title: str, unit: str, million: float, ten_million: float, share: float = 0.5
) -> Figure:
    better = "lower" if unit in ("ms", "MB") else "higher"
    scales = "none" if unit == "MB" else "cpu"
    peer = {MILLION: million, 10 * MILLION: ten_million}
    return Figure(title, unit, better, peer, share, scales)


# name of the figure -> the line, with lakeFS at 1 M and at 10 M objects
COMMITTED: dict[str, Figure] = {
    "bulk_load_per_s": _figure("bulk load of a sorted stream", "entries/s", 320_000, 370_000),
    "commit_1_ms": _figure("commit of 1 change", "ms", 103, 87),
    "commit_1000_adjacent_ms": _figure("commit of 1,000 adjacent changes", "ms", 100, 80),
    "commit_1000_spread_ms": _figure("commit of 1,000 spread changes", "ms", 1_700, 13_800),
    "commit_100000_adjacent_ms": _figure("commit of 100,000 adjacent changes", "ms", 540, 400),
    "commit_100000_spread_ms": _figure("commit of 100,000 spread changes", "ms", 2_100, 16_300),
    "diff_1_ms": _figure("diff after 1 change", "ms", 65, 50),
    "diff_1000_spread_ms": _figure("diff after 1,000 spread changes", "ms", 1_200, 9_500),
    "merge_1_against_1000_ms": _figure("merge of 1 against 1,000 changes", "ms", 180, 140),
    "scan_decoded_per_s": _figure("decoded scan, one process", "entries/s", 1_060_000, 1_100_000),
    "scan_decoded_both_cores_per_s": _figure(
        "decoded scan, a process for each core", "entries/s", 1_060_000, 1_100_000
    ),
    "lookups_per_s": _figure(
        "random look-ups, warm, one thread", "look-ups/s", 12_800, 13_700, share=5.0
    ),
    "lookups_batched_per_s": _figure("the same, 100 at a time", "look-ups/s", 12_800, 13_700, 5.0),
    "lookups_both_cores_per_s": _figure(
        "random look-ups, a process for each core", "look-ups/s", 17_900, 20_200, share=5.0
    ),
    "peak_memory_mb": _figure("peak memory", "MB", 1_290, 850, share=2.0),
}


def judged(line: dict[str, Any], calibration: dict[str, float], share: float) -> dict[str, Any]:
    """`line` with lakeFS's figure scaled to this machine, the verdict, the floor, and whether the
    floor holds.

    The floor is the `goal` of the line, if it has one, else `share` of lakeFS's speed.  A line
    without both has a `reason` why it has no floor.
    """
    higher, peer = line["better"] == "higher", float(line["lakefs"])
    floor, judged_line = 0.0, dict(line)
    if not peer and "goal" not in line:
        return line
    if peer:
        factor = {
            "cpu": calibration["sha256_64_bytes_us"] / HASH_US,
            "sync": calibration["synced_4_kib_ms"] / SYNC_MS,
            "none": 1.0,
        }[line.get("scales", "cpu")]
        scaled = peer / factor if higher else peer * factor
        floor = scaled * share if higher else scaled / share
        judged_line = {
            **line,
            "scaled": round(scaled, 3),
            **_verdict(line["value"], scaled, higher),
        }
    floor = float(line.get("goal", floor))
    held = line["value"] >= floor if higher else line["value"] <= floor
    return {**judged_line, "floor": round(floor, 3), "held": held}


def _verdict(value: float, scaled: float, higher: bool) -> dict[str, Any]:
    """Whether Graveler is ahead of lakeFS, and how many times its speed it has."""
    ahead = value >= scaled if higher else value <= scaled
    if not value:
        return {"verdict": "ahead" if ahead else "behind"}
    ratio = value / scaled if higher else scaled / value
    digits = 3 if abs(ratio - 1) < 0.01 else 2
    return {"verdict": "ahead" if ahead else "behind", "ratio": round(ratio, digits)}


def committed_line(
    name: str, value: float, count: int, calibration: dict[str, float]
) -> dict[str, Any]:
    """The line of a figure of the committed layer, for `count` objects.

    For a size at which lakeFS was not measured, the floor is the one of the next size at which it
    was.  100 million objects have the floor of 10 million, because nothing here should grow.
    """
    figure = COMMITTED[name]
    line: dict[str, Any] = {
        "name": f"{figure.title}, {count:,} objects",
        "value": round(value, 1 if value < 1_000 else 0),
        "unit": figure.unit,
        "better": figure.better,
        "scales": figure.scales,
    }
    near = min((size for size in figure.lakefs if size >= count), default=max(figure.lakefs))
    at_near = judged({**line, "lakefs": figure.lakefs[near]}, calibration, figure.share)
    if near == count:
        return at_near
    return {**line, "lakefs": 0.0, "floor": at_near["floor"], "held": at_near["held"]}
