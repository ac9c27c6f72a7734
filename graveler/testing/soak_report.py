"""What a soak prints and, if asked, writes into the document: a table and graphs in characters.

Figures come from a run and from nowhere else.  For soak.py.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from graveler.testing.steady_load import Sample

BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 60
_LABELS = {
    "minutes": "Minutes",
    "cores": "Cores",
    "schedules": "Random schedules of the verbs",
    "distinct_interleavings": "Distinct interleavings (estimated, ± 1 %)",
    "faults": "Faults injected into them",
    "malformed_inputs": "Malformed tables, blocks, records, framed values, refs",
    "api_requests": "Drawn API requests",
    "kills": "SIGKILLs of the real service",
    "acknowledged_commits": "Commits acknowledged before a kill",
    "load_requests": "Requests of the mixed load",
    "violations": "Violations",
}
_GRAPHS = {
    "memory_mib": "memory, MiB",
    "open_files": "open files",
    "disk_mib": "disk, MiB",
    "median_ms": "median latency, ms",
    "high_ms": "99th percentile, ms",
}


def report(figures: Mapping[str, object], samples: Sequence[Sample]) -> str:
    """The table and the graphs, as Markdown."""
    lines = ["| | |", "|---|---:|"]
    for name, label in _LABELS.items():
        value = figures.get(name, 0)
        lines.append(
            f"| {label} | {value:,} |" if isinstance(value, int) else f"| {label} | {value} |"
        )
    if samples:
        spread = f"{len(samples)} intervals of {samples[-1].seconds / len(samples):.0f} s"
        lines += ["", f"The served store under the mixed load, {spread}, oldest first:", "", "```"]
        lines += [graph(label, _column(samples, name)) for name, label in _GRAPHS.items()]
        lines.append("```")
    return "\n".join(lines)


def graph(label: str, values: Sequence[float]) -> str:
    """One line: bars from 0 to the greatest value, and the least and the greatest in figures."""
    shown = [max(part) for part in _parts(values)]
    top = max(shown) or 1.0
    bars = "".join(_BARS[min(len(_BARS) - 1, int(each / top * len(_BARS)))] for each in shown)
    return f"{label:20} {bars}  {min(values):.1f} to {max(values):.1f}"


def write(document: Path, text: str) -> None:
    """Replace what stands between the marks of the document."""
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
