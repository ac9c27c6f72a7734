"""The figures of lakeFS on the reference machine, and how they scale to another machine.

Lines bound by the processor scale with the time of a small hash.  Lines bound by writes scale with
the time of a synced write.  Both times were measured together with the figures
(docs/measured/benchmarks.md).
"""

from typing import Any

HASH_US = 0.44  # SHA-256 over 64 bytes
SYNC_MS = 0.22  # a synced write of 4 KiB

# figure of Graveler -> (title, unit, lakeFS at 1 M objects, better, minimum share of its speed)
COMMITTED: dict[str, tuple[str, str, float, str, float]] = {
    "bulk_load_per_s": ("bulk load of a sorted stream", "entries/s", 320_000, "higher", 0.5),
    "commit_1_ms": ("commit of 1 change", "ms", 103, "lower", 0.5),
    "commit_1000_adjacent_ms": ("commit of 1,000 adjacent changes", "ms", 100, "lower", 0.5),
    "commit_1000_spread_ms": ("commit of 1,000 spread changes", "ms", 1_700, "lower", 0.5),
    "commit_100000_adjacent_ms": ("commit of 100,000 adjacent changes", "ms", 540, "lower", 0.5),
    "commit_100000_spread_ms": ("commit of 100,000 spread changes", "ms", 2_100, "lower", 0.5),
    "diff_1_ms": ("diff after 1 change", "ms", 65, "lower", 0.5),
    "diff_1000_spread_ms": ("diff after 1,000 spread changes", "ms", 1_200, "lower", 0.5),
    "merge_1_against_1000_ms": ("merge of 1 against 1,000 changes", "ms", 180, "lower", 0.5),
    "scan_decoded_per_s": ("decoded scan, one process", "entries/s", 1_060_000, "higher", 0),
    "scan_decoded_both_cores_per_s": (
        "decoded scan, a process for each core",
        "entries/s",
        1_060_000,
        "higher",
        0.5,
    ),
    "lookups_per_s": ("random look-ups, warm, one thread", "look-ups/s", 12_800, "higher", 5.0),
    "lookups_batched_per_s": ("the same, 100 at a time", "look-ups/s", 12_800, "higher", 5.0),
    "peak_memory_mb": ("peak memory", "MB", 1_290, "lower", 2.0),
}


def judged(line: dict[str, Any], calibration: dict[str, float], share: float) -> dict[str, Any]:
    """`line` with lakeFS's figure scaled to this machine, the floor, and whether the floor holds.

    `share`: the minimum part of lakeFS's speed that Graveler must reach; 0 for no floor.
    """
    factor = calibration["sha256_64_bytes_us"] / HASH_US
    if line.get("scales") == "sync":
        factor = calibration["synced_4_kib_ms"] / SYNC_MS
    if line.get("scales") == "none":
        factor = 1.0
    peer = float(line["lakefs"])
    if not peer:
        return line
    higher = line["better"] == "higher"
    scaled = peer / factor if higher else peer * factor
    judged_line = {**line, "scaled": round(scaled, 3)}
    if share:
        floor = scaled * share if higher else scaled / share
        held = line["value"] >= floor if higher else line["value"] <= floor
        judged_line |= {"floor": round(floor, 3), "held": held}
    return judged_line
