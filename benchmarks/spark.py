"""`make bench-spark`: imports beside sorted Parquet, reads and diffs, by rows, cores and version;
and tables beside Spark's own Parquet.

The last line of the output is JSON.  QUICK=1 measures fewer rows.  `--only tables` and `--only
imports` measure a part.  Each line of imports runs in its own process (`spark_runs.py`), and so do
the tables of a version (`spark_tables.py`).

    python -m benchmarks.spark --environments DIR     DIR holds .venv-spark3 and .venv-spark4
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.__main__ import machine

ROOT = Path(__file__).resolve().parent.parent


class Plan(NamedTuple):
    """A line: the version of PySpark, cores, rows, and rounds for the median.

    `pairs` is 1 if the rows have metadata and a content type.
    """

    version: int
    cores: int
    rows: int
    rounds: int
    pairs: int = 0


QUICK = (
    Plan(4, 2, 2_000_000, 2),
    Plan(4, 1, 500_000, 1),
    Plan(4, 2, 500_000, 1, 1),
    Plan(3, 2, 1_000_000, 2),
)
FULL = (
    *(Plan(4, 2, *rest) for rest in ((1_000_000, 3), (2_000_000, 5), (5_000_000, 5))),
    Plan(4, 2, 20_000_000, 1),
    Plan(4, 1, 2_000_000, 3),
    Plan(4, 2, 1_000_000, 3, 1),
    Plan(3, 2, 2_000_000, 3),
)
Line = dict[str, Any]


def measured(plan: Plan, environments: Path) -> Line:
    """Measure one line in its own process."""
    return {**_ran(environments, plan.version, "spark_runs", *plan), "rounds": plan.rounds}


def tables(environments: Path, quick: bool) -> list[Line]:
    """The lines of tables, on both versions of PySpark."""
    sizes = (500_000, 2, 20) if quick else (2_000_000, 5, 600)
    lines = []
    for version in (4, 3):
        found = _ran(environments, version, "spark_tables", 2, *sizes)
        lines += [
            {**line, "name": f"{found['pyspark']}: {line['name']}"} for line in found["lines"]
        ]
    return lines


def _ran(environments: Path, version: int, module: str, *words: object) -> Line:
    """The last line printed by a benchmark in its own process: a JSON object."""
    python = environments / f".venv-spark{version}" / "bin" / "python"
    command = [str(python), "-m", f"benchmarks.{module}", *map(str, words)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr[-4_000:]}")
    found: Line = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure all lines, and print them; the last one is a JSON object of all."""
    parser = argparse.ArgumentParser(description="imports, reads, diffs and tables on Spark")
    parser.add_argument("--environments", type=Path, default=ROOT, metavar="DIR")
    parser.add_argument("--only", choices=("imports", "tables"), help="measure this part alone")
    said = parser.parse_args()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    found: Line = {"machine": machine(), "quick": quick}
    if said.only != "tables":
        found["lines"] = []
        for plan in QUICK if quick else FULL:
            found["lines"].append(measured(plan, said.environments))
            print(json.dumps(found["lines"][-1]), flush=True)
    if said.only != "imports":
        found["tables"] = tables(said.environments, quick)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
