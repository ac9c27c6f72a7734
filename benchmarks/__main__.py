"""`make bench`: runs every benchmark beside lakeFS's figures.

The last line of the output is JSON.  QUICK=1 measures a smaller store for a shorter time (under
three minutes).  `--only GROUP` measures a group of lines; `--at 10M` measures the committed layer
with as many objects too.

A run needs up to 22 GB in the temporary folder (4 if it is quick), and says at its begin if there
is less.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import commands, committed, gateway, http, library, transfers
from benchmarks.peer import COMMITTED, MILLION, committed_line, judged

Line = dict[str, Any]


# Groups of lines that need no server of `http`.
SECTIONS = {
    "gateway": gateway,
    "cli": commands,
    "transfers": transfers,
    "library": library,
}
GROUPS = ("committed", "http", *SECTIONS)
# What the files of a group take at most in the temporary folder, which are gone before the next
# group: of a full run, of a quick one.  The store keeps what is overwritten.
_ROOM_GB = {"gateway": (22, 4), "transfers": (14, 2)}
_TEN_MILLION_GB = 8


def machine() -> dict[str, str]:
    """The machine: processor, cores, system and Python version, and the load by other programs."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": platform.system() + " " + platform.release(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def committed_lines(counts: Sequence[int], calibration: dict[str, float]) -> list[Line]:
    """The committed layer with each of these numbers of objects."""
    lines = []
    for count in counts:
        for name, value in committed.measure(count).items():
            if name in COMMITTED:
                lines.append(committed_line(name, value, count, calibration))
                _show(lines[-1])
    return lines


def http_lines(scale: http.Scale, calibration: dict[str, float]) -> list[Line]:
    """Lines of the HTTP service."""
    lines = []
    for line in http.measure(scale):
        lines.append(judged(line, calibration, 2.0 if line["unit"] == "MB" else 0.5))
        _show(lines[-1])
    return lines


def _verdict(line: Line) -> str:
    """*ahead* or *behind*, and how many times lakeFS's speed; empty without its figure."""
    if "verdict" not in line:
        return ""
    ratio = f"{line['ratio']:g} × " if "ratio" in line else ""
    return f"{ratio}{line['verdict']}"


def _show(line: Line) -> None:
    held = {True: "holds", False: "BELOW ITS FLOOR"}.get(line.get("held", ""), "")
    if "requests" in line:
        held = f"{line['requests']} KV requests {held}"
    if "p99_ms" in line:
        held = f"p50 {line['p50_ms']} p99 {line['p99_ms']} ms {held}"
    peer = f"{line['scaled']:>12,.1f}" if "scaled" in line else " " * 12
    value = f"{line['value']:>12,.1f} {line['unit']:<11}"
    print(f"{line['name']:<62} {value}{peer} {_verdict(line):<14} {held}", flush=True)


def main() -> int:
    """Measure the lines, and print them; the last one is JSON."""
    parser = argparse.ArgumentParser(description="measures speed and memory")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure this group")
    parser.add_argument(
        "--at", choices=["10M"], help="measure the committed layer with as many objects too"
    )
    arguments = parser.parse_args()
    groups = arguments.only or list(GROUPS)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    lacking = lacking_room(groups, quick, arguments.at == "10M")
    if lacking:
        parser.error(lacking)
    calibration = committed.calibration()
    found: dict[str, Any] = {"machine": machine(), "calibration": calibration, "quick": quick}
    print(f"{'':<62} {'Graveler':>12} {'':<11}{'lakeFS, here':>12}")
    lines: list[Line] = []
    if "committed" in groups:
        counts = [100_000] if quick else [100_000, MILLION]
        counts += [10 * MILLION] if arguments.at else []
        lines = committed_lines(counts, calibration)
    if "http" in groups:
        lines += http_lines(http.QUICK if quick else http.FULL, calibration)
    found["lines"] = lines
    for name in SECTIONS:
        group: Any = SECTIONS[name]
        scale = group.QUICK if quick else group.FULL
        found[name] = group.measure(scale) if name in groups else []
        for line in found[name]:
            _show(line)
    judged_lines = lines + [line for name in SECTIONS for line in found[name]]
    found["below_floor"] = sorted(
        {line["name"] for line in judged_lines if line.get("held") is False}
    )
    found["behind"] = sorted(
        {line["name"] for line in judged_lines if line.get("verdict") == "behind"}
    )
    print(json.dumps(found))
    return 0


def lacking_room(groups: Sequence[str], quick: bool, is_large: bool = False) -> str:
    """What to do if the temporary folder has too little room for the files of these groups; empty
    if it has enough, and if the files are small.  `is_large`: with 10 million objects."""
    rooms = [_ROOM_GB[name][quick] for name in groups if name in _ROOM_GB]
    if "committed" in groups and is_large:
        rooms.append(_TEN_MILLION_GB)
    needed = max(rooms, default=0)
    folder = tempfile.gettempdir()
    free = int(shutil.disk_usage(folder).free / 1e9)
    if free >= needed:
        return ""
    return (
        f"this run needs up to {needed} GB in {folder}, and {free} GB are free: delete files, or "
        "set TMPDIR to a folder on a larger disk"
    )


if __name__ == "__main__":
    sys.exit(main())
