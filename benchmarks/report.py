"""The text of build/measured/benchmarks.md before its first section, and the graph of the load."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import svg_graphs
from benchmarks.contention import SHOWN
from benchmarks.growth import verdict_of

_LOAD: Final = "latency-under-load.svg"
Line = dict[str, Any]


def about_machine(found: dict[str, Any]) -> str:
    """The machine and its two times, as sentences."""
    about, times = found["machine"], found["calibration"]
    return (
        f"{about['processor']}, {about['cores']} cores, {about['system']}, Python "
        f"{about['python']}.\n"
        f"The two times here: {times['sha256_64_bytes_us']:.2f} µs and "
        f"{times['synced_4_kib_ms']:.2f} ms.\n"
        f"The load by other programs when the run began: {about['load']}."
    )


def report(found: dict[str, Any]) -> str:
    """The text before the first section."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "`make bench` writes this part of the page; its figures are medians.",
            "Each round writes content that no round before it wrote.",
            "docs/explanation/performance.md says what each line does.",
            "",
            "lakeFS (July 2026, embedded store) was measured on a machine on which a SHA-256 over",
            "64 bytes took 0.44 µs and a synced write of 4 KiB took 0.22 ms.",
            "Its figures are scaled to this machine: the first time scales the lines bound by the",
            "processor, the second time the lines bound by writes.",
            "*Ahead* and *behind* say how many times its speed Graveler has.",
            "",
            "The floor is a goal of our own; else half of lakeFS's speed, five times its speed for",
            "look-ups, and half of its memory; else the reason why there is none.",
            "With 100,000 objects lakeFS was not measured, and the floor is that of 1,000,000.",
            "*Client* is the share of a core that the client of the measurement took.",
            "",
            about_machine(found),
            "",
            "| what | Graveler | unit | lakeFS, scaled | | floor | p50 / p99 ms | client |",
            "|---|---:|---|---:|---|---:|---|---:|",
            *map(_row, found["lines"]),
            "",
            *_graph_of(found["lines"]),
        ]
    )


def section(text: str, machine: str, lines: Sequence[Line]) -> str:
    """A section: what is measured, on what, and the figure and the goal of each line, if it has
    one; for lines that count requests to the key-value store, those too."""
    heads = ["what", "figure", "goal"]
    kinds = "|---|---:|---:|"
    if has_requests := any("requests" in line for line in lines):
        heads += ["KV requests", "goal"]
        kinds += "---:|---:|"

    def row(line: Line) -> str:
        cells = [line["name"], f"{line['value']:,g} {line['unit']}", _goal(line, "goal")]
        if has_requests:
            cells += [str(line.get("requests", "")), _goal(line, "requests_goal")]
        return f"| {' | '.join(cells)} |"

    table = [f"| {' | '.join(heads)} |", kinds, *map(row, lines)]
    return "\n".join([text, "", machine, "", *table, ""])


def _goal(line: Line, name: str) -> str:
    goal = line.get(name, "")
    return goal if isinstance(goal, str) else f"≤ {goal:g}"


def shown(value: float) -> str:
    """A figure with one digit behind the point, and three if it is small."""
    return f"{value:,.{1 if value >= 10 else 3}f}"


def _row(line: Line) -> str:
    scaled = shown(line["scaled"]) if "scaled" in line else ""
    floor = shown(line["floor"]) if "floor" in line else line.get("reason", "")
    delays = f"{line['p50_ms']} / {line['p99_ms']}" if "p50_ms" in line else ""
    return (
        f"| {line['name']} | {shown(line['value'])} | {line['unit']} | {scaled} | "
        f"{verdict_of(line)} | {floor} | {delays} | {line.get('client', '')} |"
    )


def _graph_of(lines: Sequence[Line]) -> list[str]:
    if not _loaded(lines):
        return []
    return [f"![Latencies under a mixed load]({_LOAD})", ""]


def _loaded(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if "percentiles_ms" in line]


def write_graph(lines: Sequence[Line], folder: Path) -> None:
    """Write the graph of latencies under load, if it was measured."""
    loaded = _loaded(lines)
    if loaded:
        names = [f"{share * 100:g} %" for share in SHOWN]
        title = "Milliseconds within which a share of the answers arrived"
        drawn = [
            svg_graphs.Line(line["name"].rpartition(": ")[2], line["percentiles_ms"])
            for line in loaded
        ]
        (folder / _LOAD).write_text(svg_graphs.steps(title, names, drawn), encoding="utf-8")
