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


def with_goals(lines: Sequence[Line]) -> list[str]:
    """The table of lines of a group: each with its figure and its goal, if it has one."""
    return [
        "| what | figure | goal |",
        "|---|---:|---:|",
        *[
            f"| {line['name']} | {line['value']:,g} {line['unit']} | {line.get('goal', '')} |"
            for line in lines
        ],
    ]


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
