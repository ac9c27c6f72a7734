"""What a soak prints, and on request writes into the document: a table, trends and graphs.

All figures come from a run.  For run.py.
"""

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from simulator.soak.growth import Sample, trends
from simulator.soak.svg_graphs import Line
from simulator.soak.svg_graphs import graph as drawn

BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 60
_LABELS = {
    "minutes": "Minutes",
    "cores": "Cores",
    "schedules": "Random schedules of the verbs",
    "compiled_schedules": "Of them by compiled flows (same sources, same runs)",
    "collection_schedules": "Of them with garbage collection",
    "distinct_interleavings": "Distinct interleavings (estimated, ± 1 %)",
    "faults": "Faults injected into them",
    "exhaustive_schedules": "Schedules of the exhaustive search beyond the tests' bounds",
    "exhausted_3_preemptions_0_faults": "Programs of 32 exhausted: 3 preemptions",
    "exhausted_2_preemptions_1_faults": "Programs of 32 exhausted: 2 preemptions, 1 fault",
    "programs": "Random programs held against the model",
    "malformed_inputs": "Malformed tables, blocks, records, framed values, refs",
    "api_requests": "Drawn API requests",
    "schemathesis_requests": "API requests drawn by schemathesis",
    "kills": "SIGKILLs of the real service",
    "acknowledged_commits": "Commits acknowledged before a kill",
    "load_requests": "Requests of the mixed load",
    "collected_mib_before": "Disk after 30 s of such a load, MiB",
    "collected_mib_after": "The same after collection, days later by the clock",
    "violations": "Violations",
}
_GRAPHS = {
    "memory_mib": "memory, MiB",
    "file_mib": "of files, MiB",
    "free_mib": "free in the heap, MiB",
    "open_files": "open files",
    "disk_mib": "disk, MiB",
    "median_ms": "median latency, ms",
    "high_ms": "99th percentile, ms",
    "fixed_work_ms": "fixed work, ms",
}
_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "memory": ("Memory of the served store, MiB", ("memory_mib", "file_mib", "free_mib")),
    "open-files": ("Open files of the served store", ("open_files",)),
    "disk": ("Disk of the served store, MiB (history is kept)", ("disk_mib",)),
    "latency": ("Latency of the mixed load, ms", ("median_ms", "high_ms")),
    "fixed-work": ("Fixed work at the same instants, ms", ("fixed_work_ms",)),
}
_FOLDER = "graphs"


def report(figures: Mapping[str, object], samples: Sequence[Sample]) -> str:
    """The table and text graphs, as Markdown."""
    lines = [_table(figures)]
    if samples:
        spread = f"{len(samples)} intervals of {samples[-1].seconds / len(samples):.0f} s"
        lines += ["", f"The served store under the mixed load, {spread}, oldest first:", "", "```"]
        lines += [graph(label, _column(samples, name)) for name, label in _GRAPHS.items()]
        lines += ["```", *_trends(samples)]
    return "\n".join(lines)


def _table(figures: Mapping[str, object]) -> str:
    lines = ["| | |", "|---|---:|"]
    for name, label in _LABELS.items():
        value = figures.get(name, 0)
        text = f"{value:,}" if isinstance(value, int) else str(value)
        lines.append(f"| {label} | {text} |")
    return "\n".join(lines)


def _trends(samples: Sequence[Sample]) -> list[str]:
    found = trends(samples)
    if not found:
        return []
    lines = ["", "| Blocks of the whole run | Level | An hour | As measured | Allowed | z | |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for each in found:
        lines.append(
            f"| {each.name}, {each.unit} | {each.level:.4g} | {each.per_hour:+.3g} "
            f"| {each.raw_per_hour:+.3g} | {each.allowed_per_hour:.3g} | {each.z:.1f} "
            f"| {each.verdict} |"
        )
    return lines


def graph(label: str, values: Sequence[float]) -> str:
    """One line: bars from 0 to the greatest value, then the least and the greatest value."""
    shown = [max(part) for part in _parts(values)]
    top = max(shown) or 1.0
    bars = "".join(_BARS[min(len(_BARS) - 1, int(each / top * len(_BARS)))] for each in shown)
    return f"{label:20} {bars}  {min(values):.1f} to {max(values):.1f}"


def write(
    document: Path, command: str, figures: Mapping[str, object], samples: Sequence[Sample]
) -> None:
    """Replace the generated part of the document, and the graphs beside it."""
    said = f"`{command}` on {_machine()}, {datetime.now(UTC):%Y-%m-%d}:"
    lines = [said, "", _table(figures)]
    if samples:
        lines += _trends(samples)
        folder = document.parent / _FOLDER
        folder.mkdir(exist_ok=True)
        minutes = [each.seconds / 60 for each in samples]
        for name, (title, columns) in _FILES.items():
            drawing = drawn(
                title, minutes, [Line(_GRAPHS[each], _column(samples, each)) for each in columns]
            )
            (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")
            lines += ["", f"![{title}]({_FOLDER}/{name}.svg)"]
    _replace(document, "\n".join(lines))


def _machine() -> str:
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{platform.system()} {platform.machine()}, Python {python}"


def _replace(document: Path, text: str) -> None:
    before = document.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if len(pattern.findall(before)) != 1:
        raise ValueError(f"document must have one generated part: document={document}")
    after = pattern.sub(lambda _: f"{BEGIN}\n{text}\n{END}", before)
    document.write_text(after, encoding="utf-8")


def _column(samples: Sequence[Sample], name: str) -> list[float]:
    return [float(getattr(sample, name)) for sample in samples]


def _parts(values: Sequence[float]) -> list[Sequence[float]]:
    count = min(_COLUMNS, len(values))
    edges = [at * len(values) // count for at in range(count + 1)]
    return [values[left:right] for left, right in pairwise(edges)]
