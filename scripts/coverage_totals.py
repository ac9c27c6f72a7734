"""Prints the branch coverage of each folder of the package, from coverage's JSON report ($1).

Exits with 1 if a folder, or the total, is below its minimum.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

LEAST = {"engine": 100.0, "staging": 100.0, "refs": 100.0, "all": 95.0}


def main(report: Path) -> int:
    """Print the table.  Returns the exit code."""
    parts: dict[str, Counter[str]] = {}
    for name, file in json.loads(report.read_text())["files"].items():
        below = Path(name).parts[Path(name).parts.index("graveler") + 1 :]
        folder = below[0] if len(below) > 1 else "(top)"
        counts = {key: file["summary"][key] for key in KEYS}
        for part in (folder, "all"):
            parts.setdefault(part, Counter()).update(counts)
    wrong = 0
    sys.stdout.write(f"{'folder':12}{'lines':>8}{'branches':>10}{'covered':>10}{'least':>8}\n")
    for part, count in sorted(parts.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        share, least = percent(count), LEAST.get(part, 0.0)
        wrong += share < least
        bound = f"{least:.0f}" if least else ""
        line = f"{part:12}{count['num_statements']:8}{count['num_branches']:10}"
        sys.stdout.write(f"{line}{share:9.2f}%{bound:>8}{'  MISSED' if share < least else ''}\n")
    return 1 if wrong else 0


KEYS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def percent(count: Counter[str]) -> float:
    """The percentage of covered lines and branches together, as coverage counts them."""
    whole = count["num_statements"] + count["num_branches"]
    return 100.0 * (count["covered_lines"] + count["covered_branches"]) / max(whole, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="coverage's JSON")
    sys.exit(main(parser.parse_args().report))
