"""`make bench`: runs every benchmark beside lakeFS's figures, writes docs/measured/benchmarks.md.

The last line of the output is JSON.  QUICK=1 measures a smaller store for a shorter time (under
five minutes) and writes no file.  `--only access`, `--only gateway` and `--only cli` measure that
group of lines, and replace its section alone; `--only committed` and `--only http` write no file.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import access, committed, gateway, http, sections, starts
from benchmarks.peer import COMMITTED, judged

REPORT = Path(__file__).parent.parent / "docs" / "measured" / "benchmarks.md"
FULL_OBJECTS = 1_000_000
GROUPS = ("committed", "http", "access", "gateway", "cli")
NO_FLOOR = "upload of 64 bytes, 64 connections"
Line = dict[str, Any]


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


def committed_lines(count: int, calibration: dict[str, float]) -> list[Line]:
    """Lines of the committed layer with `count` objects; the floors are those for a million
    objects."""
    lines = []
    for name, value in committed.measure(count).items():
        if name not in COMMITTED:
            continue
        what, unit, peer, better, share = COMMITTED[name]
        line: Line = {
            "name": f"{what}, {count:,} objects",
            "value": round(value, 1 if value < 1000 else 0),
            "unit": unit,
            "lakefs": peer if count == FULL_OBJECTS else 0.0,
            "better": better,
            "scales": "none" if unit == "MB" else "cpu",
        }
        lines.append(judged(line, calibration, share))
        _show(lines[-1])
    return lines


def http_lines(scale: http.Scale, calibration: dict[str, float]) -> list[Line]:
    """Lines of the HTTP service."""
    lines = []
    for line in http.measure(scale):
        share = 0.0 if line["name"] == NO_FLOOR else 2.0 if line["unit"] == "MB" else 0.5
        if line["unit"] == "MB":
            line = {**line, "scales": "none"}
        lines.append(judged(line, calibration, share))
        _show(lines[-1])
    return lines


def access_lines(scale: access.Scale) -> list[Line]:
    """Lines of access control, which have goals of their own."""
    lines = access.measure(scale)
    for line in lines:
        _show(line)
    return lines


def gateway_lines(scale: gateway.Scale) -> list[Line]:
    """Lines of the S3 gateway, which have goals of their own."""
    lines = gateway.measure(scale)
    for line in lines:
        _show(line)
    return lines


def cli_lines(scale: starts.Scale) -> list[Line]:
    """Lines of the command line, which have goals of their own."""
    lines = starts.measure(scale)
    for line in lines:
        _show(line)
    return lines


def _show(line: Line) -> None:
    held = {True: "holds", False: "BELOW ITS FLOOR"}.get(line.get("held", ""), "")
    if "requests" in line:
        held = f"{line['requests']} KV requests {held}"
    peer = f"{line['scaled']:>12,.1f}" if "scaled" in line else " " * 12
    print(f"{line['name']:<58} {line['value']:>12,.1f} {line['unit']:<11}{peer} {held}", flush=True)


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
    """The text of docs/measured/benchmarks.md before its first section."""
    rows = []
    for line in found["lines"]:
        scaled = f"{line['scaled']:,.1f}" if "scaled" in line else ""
        floor = f"{line['floor']:,.1f}" if "floor" in line else ""
        delays = f"{line['p50_ms']} / {line['p99_ms']}" if "p50_ms" in line else ""
        rows.append(
            f"| {line['name']} | {line['value']:,.1f} | {line['unit']} | {scaled} | {floor} "
            f"| {delays} |"
        )
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "`make bench` writes this part of the page; its figures are medians.",
            "lakeFS (July 2026, embedded store) was measured on a machine on which a SHA-256 over",
            "64 bytes took 0.44 µs and a synced write of 4 KiB took 0.22 ms.",
            "Its figures are scaled to this machine: the first time scales the lines bound by the",
            "processor, the second time the lines bound by writes.",
            "The floor is half of lakeFS's speed, five times its speed for look-ups, and half of",
            "its memory.",
            "",
            about_machine(found),
            "",
            "| what | Graveler | unit | lakeFS, scaled | floor | p50 / p99 ms |",
            "|---|---:|---|---:|---:|---|",
            *rows,
            "",
        ]
    )


def written(document: str, found: dict[str, Any], groups: Sequence[str]) -> str:
    """`document` with what these groups of lines replace in it."""
    if set(groups) == set(GROUPS):
        document = report(found) + sections.others(document)
    if "access" in groups:
        body = access.section(found["access"], about_machine(found))
        document = sections.placed(document, access.HEADING, body)
    if "gateway" in groups:
        body = gateway.section(found["gateway"], about_machine(found))
        document = sections.placed(document, gateway.HEADING, body)
    if "cli" in groups:
        body = starts.section(found["cli"], about_machine(found))
        document = sections.placed(document, starts.HEADING, body)
    return document


def main() -> int:
    """Measure the lines, write the document, print the JSON line."""
    parser = argparse.ArgumentParser(description="measures speed and memory")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure this group")
    groups = parser.parse_args().only or list(GROUPS)
    quick = os.environ.get("QUICK", "") not in ("", "0")
    calibration = committed.calibration()
    found: dict[str, Any] = {"machine": machine(), "calibration": calibration, "quick": quick}
    print(f"{'':<58} {'Graveler':>12} {'':<11}{'lakeFS, here':>12}")
    lines: list[Line] = []
    if "committed" in groups:
        for count in [100_000] if quick else [100_000, FULL_OBJECTS]:
            lines += committed_lines(count, calibration)
    if "http" in groups:
        lines += http_lines(http.QUICK if quick else http.FULL, calibration)
    rights = access_lines(access.QUICK if quick else access.FULL) if "access" in groups else []
    s3 = gateway_lines(gateway.QUICK if quick else gateway.FULL) if "gateway" in groups else []
    commands = cli_lines(starts.QUICK if quick else starts.FULL) if "cli" in groups else []
    found |= {"lines": lines, "access": rights, "gateway": s3, "cli": commands}
    judged_lines = lines + rights + s3 + commands
    found["below_floor"] = [each["name"] for each in judged_lines if each.get("held") is False]
    before = REPORT.read_text(encoding="utf-8")
    after = before if quick else written(before, found, groups)
    if after != before:
        REPORT.write_text(after, encoding="utf-8")
        print(f"wrote {REPORT.relative_to(REPORT.parent.parent)}")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
