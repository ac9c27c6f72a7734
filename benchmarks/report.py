"""The text of build/measured/benchmarks.md before its first section."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def verdict_of(line: Mapping[str, Any]) -> str:
    """*ahead* or *behind*, and how many times lakeFS's speed; empty without its figure."""
    if "verdict" not in line:
        return ""
    ratio = f"{line['ratio']:g} × " if "ratio" in line else ""
    return f"{ratio}{line['verdict']}"
