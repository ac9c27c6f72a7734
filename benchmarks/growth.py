"""Growth with the number of objects: the same lines for 100 thousand to 100 million of them.

`make bench ARGS='--at 10M --at 100M'` measures the larger sizes too, and writes the section.  At
100 million the metarange is generated (huge.py), so only lines are measured that read little of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import svg_graphs
from benchmarks.peer import COMMITTED

HEADING: Final = "Growth with the number of objects"
SIZES: Final = {"10M": 10_000_000, "100M": 100_000_000}
COLD: Final = "lookups_cold_per_s"
WIDE: Final = "lookups_wide_per_s"
_NAMES: Final = {100_000: "100,000", 1_000_000: "1 M", 10_000_000: "10 M", 100_000_000: "100 M"}
_TIMES: Final = ("commit_1_ms", "diff_1_ms", "merge_1_against_1000_ms", "commit_1000_adjacent_ms")
_RATES: Final = (
    "lookups_per_s",
    "lookups_both_cores_per_s",
    "bulk_load_per_s",
    "scan_decoded_per_s",
)
Measured = Mapping[int, Mapping[str, float]]


def section(measured: Measured, lines: list[dict[str, Any]], about: str) -> str:
    """The text of the section of build/measured/benchmarks.md.

    `measured`: all figures by size.  `lines`: the same, judged beside lakeFS.  `about`: the
    machine.
    """
    sizes = sorted(measured)
    judged = {line["name"]: line for line in lines}
    rows = []
    for name, figure in COMMITTED.items():
        cells = [_cell(measured[size], name) for size in sizes]
        largest = judged.get(f"{figure.title}, 10,000,000 objects", {})
        peer = f"{largest['scaled']:,.1f}" if "scaled" in largest else ""
        rows.append(
            f"| {figure.title} | {figure.unit} | {' | '.join(cells)} | {peer} "
            f"| {verdict_of(largest)} |"
        )
    more = {
        WIDE: "look-ups of 300,000 keys, three times as many as are kept",
        COLD: "look-ups, each in a block of its own",
    }
    for name, title in more.items():
        cells = [_cell(measured[size], name) for size in sizes]
        rows.append(f"| {title} | look-ups/s | {' | '.join(cells)} |  |  |")
    return "\n".join(
        [
            "`make bench ARGS='--only committed --at 10M --at 100M'` writes this section.",
            "What reads or changes little should cost the same at every size.",
            "The metarange of 100 M is generated: one range of fifty is written, and the others",
            "are lines without a file, so only work that reads little of it is measured.",
            "lakeFS was measured with 1 M and 10 M; its figures here are those for 10 M.",
            "",
            about,
            "",
            f"| what | unit | {' | '.join(map(_name, sizes))} | lakeFS at 10 M, scaled | |",
            f"|---|---|{'---:|' * len(sizes)}---:|---|",
            *rows,
            "",
            "![Times by the number of objects](growth-times.svg)",
            "",
            "![Rates by the number of objects](growth-rates.svg)",
            "",
        ]
    )


def verdict_of(line: Mapping[str, Any]) -> str:
    """*ahead* or *behind*, and how many times lakeFS's speed; empty without its figure."""
    if "verdict" not in line:
        return ""
    ratio = f"{line['ratio']:g} × " if "ratio" in line else ""
    return f"{ratio}{line['verdict']}"


def write_graphs(measured: Measured, folder: Path) -> None:
    """Write the graphs that the section shows."""
    sizes = sorted(measured)
    graphs = {
        "growth-times.svg": ("Milliseconds by the number of objects", _TIMES),
        "growth-rates.svg": ("A second, by the number of objects", _RATES),
    }
    for name, (title, figures) in graphs.items():
        lines = []
        for each in figures:
            values = [measured[size][each] for size in sizes if each in measured[size]]
            if values:
                lines.append(svg_graphs.Line(COMMITTED[each].title, values))
        text = svg_graphs.steps(title, list(map(_name, sizes)), lines)
        (folder / name).write_text(text, encoding="utf-8")


def _cell(figures: Mapping[str, float], name: str) -> str:
    if name not in figures:
        return ""
    return f"{figures[name]:,.{1 if figures[name] < 1_000 else 0}f}"


def _name(size: int) -> str:
    return _NAMES.get(size, f"{size:,}")
