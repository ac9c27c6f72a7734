"""`make bench`: runs every benchmark beside lakeFS's figures, writes build/measured/benchmarks.md.

The last line of the output is JSON.  QUICK=1 measures a smaller store for a shorter time (under
three minutes) and writes no file.  `--only access`, `gateway`, `cli`, `transfers`, `library`,
`local` or `floors` measures that group of lines, and replaces its section alone; `--only
committed` and `--only http` write no file.  `--at 10M` and `--at 100M` measure the committed layer
with as many objects too, and write the section and the graphs of growth.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import (
    access,
    committed,
    floors,
    folders,
    gateway,
    growth,
    http,
    huge,
    library,
    sections,
    starts,
    transfers,
)
from benchmarks.growth import verdict_of
from benchmarks.peer import COMMITTED, MILLION, committed_line, judged
from benchmarks.report import about_machine, report, section, write_graph
from benchmarks.written import MEASURED, write

REPORT = MEASURED / "benchmarks.md"
Line = dict[str, Any]


# Groups of lines with a section of their own.
SECTIONS = {
    "access": access,
    "gateway": gateway,
    "cli": starts,
    "transfers": transfers,
    "library": library,
    "local": folders,
    "floors": floors,
}
GROUPS = ("committed", "http", *SECTIONS)
# What the files of a group take at most in the temporary folder, which are gone before the next
# group: of a full run, of a quick one.  The store keeps what is overwritten.
_ROOM_GB = {"gateway": (22, 4), "transfers": (14, 2)}
_ROOM_GB_AT = {"10M": 8, "100M": 2}


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


@dataclass
class Sizes:
    """What was measured of the committed layer: figures by number of objects, and their lines."""

    figures: dict[int, dict[str, float]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)


def committed_sizes(counts: Sequence[int], calibration: dict[str, float]) -> Sizes:
    """The committed layer with each of these numbers of objects."""
    sizes = Sizes()
    for count in counts:
        figures = huge.measure() if count == huge.OBJECTS else committed.measure(count)
        sizes.figures[count] = figures
        for name in figures:
            if name in COMMITTED:
                sizes.lines.append(committed_line(name, figures[name], count, calibration))
                _show(sizes.lines[-1])
    return sizes


def http_lines(scale: http.Scale, calibration: dict[str, float]) -> list[Line]:
    """Lines of the HTTP service."""
    lines = []
    for line in http.measure(scale):
        lines.append(judged(line, calibration, 2.0 if line["unit"] == "MB" else 0.5))
        _show(lines[-1])
    return lines


def _show(line: Line) -> None:
    held = {True: "holds", False: "BELOW ITS FLOOR"}.get(line.get("held", ""), "")
    if "requests" in line:
        held = f"{line['requests']} KV requests {held}"
    if "p99_ms" in line:
        held = f"p50 {line['p50_ms']} p99 {line['p99_ms']} ms {held}"
    peer = f"{line['scaled']:>12,.1f}" if "scaled" in line else " " * 12
    value = f"{line['value']:>12,.1f} {line['unit']:<11}"
    print(f"{line['name']:<62} {value}{peer} {verdict_of(line):<14} {held}", flush=True)


def written(document: str, found: dict[str, Any], groups: Sequence[str]) -> str:
    """`document` with what these groups of lines replace in it."""
    if set(groups) == set(GROUPS):
        document = report(found) + sections.others(document)
    for name in SECTIONS:
        if name in groups:
            group = SECTIONS[name]
            body = section(group.ABOUT, about_machine(found), found[name])
            document = sections.placed(document, group.HEADING, body)
    return document


def main() -> int:
    """Measure the lines, write the document, print the JSON line."""
    parser = argparse.ArgumentParser(description="measures speed and memory")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure this group")
    parser.add_argument(
        "--at",
        choices=growth.SIZES,
        action="append",
        default=[],
        help="measure the committed layer with as many objects too",
    )
    arguments = parser.parse_args()
    groups = arguments.only or list(GROUPS)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    lacking = lacking_room(groups, quick, arguments.at)
    if lacking:
        parser.error(lacking)
    calibration = committed.calibration()
    found: dict[str, Any] = {"machine": machine(), "calibration": calibration, "quick": quick}
    print(f"{'':<62} {'Graveler':>12} {'':<11}{'lakeFS, here':>12}")
    sizes = Sizes()
    if "committed" in groups:
        counts = [100_000] if quick else [100_000, MILLION]
        counts += sorted(growth.SIZES[name] for name in arguments.at)
        sizes = committed_sizes(counts, calibration)
    lines = [line for line in sizes.lines if not arguments.at or _is_usual(line)]
    if "http" in groups:
        lines += http_lines(http.QUICK if quick else http.FULL, calibration)
    found |= {"lines": lines, "growth": sizes.figures}
    for name in SECTIONS:
        group: Any = SECTIONS[name]
        scale = group.QUICK if quick else group.FULL
        found[name] = group.measure(scale) if name in groups else []
        for line in found[name]:
            _show(line)
    judged_lines = sizes.lines + lines + [line for name in SECTIONS for line in found[name]]
    found["below_floor"] = sorted(
        {line["name"] for line in judged_lines if line.get("held") is False}
    )
    found["behind"] = sorted(
        {line["name"] for line in judged_lines if line.get("verdict") == "behind"}
    )
    if not quick:
        _write(found, groups, sizes, bool(arguments.at))
    print(json.dumps(found))
    return 0


def lacking_room(groups: Sequence[str], quick: bool, sizes: Sequence[str] = ()) -> str:
    """What to do if the temporary folder has too little room for the files of these groups, and of
    these sizes of the committed layer; empty if it has enough, and if the files are small."""
    rooms = [_ROOM_GB[name][quick] for name in groups if name in _ROOM_GB]
    if "committed" in groups:
        rooms += [_ROOM_GB_AT[size] for size in sizes]
    needed = max(rooms, default=0)
    folder = tempfile.gettempdir()
    free = int(shutil.disk_usage(folder).free / 1e9)
    if free >= needed:
        return ""
    return (
        f"this run needs up to {needed} GB in {folder}, and {free} GB are free: delete files, or "
        "set TMPDIR to a folder on a larger disk"
    )


def _is_usual(line: Line) -> bool:
    """Whether the line belongs to the table of every run, not to the section of growth."""
    return not any(f", {size:,} objects" in line["name"] for size in growth.SIZES.values())


def _write(found: dict[str, Any], groups: Sequence[str], sizes: Sizes, is_large: bool) -> None:
    """Write the document, and the graphs that belong to what was measured."""
    MEASURED.mkdir(parents=True, exist_ok=True)
    before = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
    after = written(before, found, groups)
    if set(groups) == set(GROUPS):
        write_graph(found["lines"], MEASURED)
    if is_large and sizes.figures:
        body = growth.section(sizes.figures, sizes.lines, about_machine(found))
        after = sections.placed(after, growth.HEADING, body)
        growth.write_graphs(sizes.figures, MEASURED)
    if after != before:
        write(REPORT, after)
        print(f"wrote {REPORT}")


if __name__ == "__main__":
    sys.exit(main())
