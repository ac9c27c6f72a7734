"""`make bench-spark`: imports beside sorted Parquet, reads and diffs, by rows, cores and version;
and tables beside Spark's own Parquet.

Writes its sections of build/measured/benchmarks.md; the last line of the output is JSON.  QUICK=1
measures fewer rows and writes no file.  `--only tables` and `--only imports` measure a part.  Each
line of imports runs in its own process (`spark_runs.py`), and so do the tables of a version
(`spark_tables.py`).

    python -m benchmarks.spark --environments DIR     DIR holds .venv-spark3 and .venv-spark4
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import sections
from benchmarks.__main__ import REPORT, machine
from benchmarks.report import section
from benchmarks.written import write

ROOT = Path(__file__).resolve().parent.parent
HEADING = "On Spark"
TABLES = "Tables on Spark"
ABOUT_TABLES = (
    "`make bench-spark ARGS='--only tables'` measures this section alone. Both sides of a pair\n"
    "run in turn in one warm session on two cores. A ratio is the median of those of the rounds;\n"
    "above 1, Graveler is faster. Tables have 30 partitions by day; the plain side is\n"
    "`df.write.partitionBy(…).parquet(…)` and `spark.read.parquet`."
)


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
STEPS = {
    "import_buckets_s": "import: the plan that assigns rows to tasks, applied to 100,000 rows",
    "import_join_s": "import: join the ranges of all tasks",
    "import_metarange_s": "import: write the metarange",
    "read_metarange_s": "read, diff: read a metarange",
    "read_plan_s": "read: create tasks for all its ranges",
    "read_plan_of_one_prefix_s": "read: create tasks for a prefix within one range",
    "diff_plan_s": "diff: create tasks for two metaranges that differ in a tenth of their ranges",
}
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


def body(about: dict[str, str], lines: list[Line], ranges: Line, note: str = "") -> str:
    """The section of the document.  `ranges`: the results of `spark_ranges`."""
    rows = [
        f"| {line['pyspark']} | {line['cores']} "
        f"| {line['rows']:,}{' *' if line['pairs'] else ''} | {line['rounds']} "
        f"| {line['import_rps']:,} "
        f"| {line['parquet_rps']:,} | {line['import_ratio']:.2f} | {line['merge_rps']:,} "
        f"| {line['merge_ratio']:.2f} | {line['read_rps']:,} "
        f"| {line['read_path_size_rps']:,} | {line['diff_s']:.1f} |"
        for line in lines
    ]
    return "\n".join(
        [
            "`make bench-spark` writes this section.",
            "Figures are rows per second, medians of alternating rounds in a warm session:",
            "",
            "- *import*: an import through the API into a fresh repository;",
            "- *Parquet*: the same rows sorted by path and written as Parquet (Snappy);",
            "- *merge*: the same rows imported onto a commit that has half of their paths with",
            "  other sizes; a ratio is to *Parquet*;",
            "- *read*: a read of all entries;",
            "- *path, size*: a read of only their paths and sizes;",
            "- *diff*: seconds for the diff of two commits that differ in 1 % of the rows, spread",
            "  over all ranges.",
            "",
            "The rows have the columns of an inventory.",
            "Each row of a line marked * also has a content type and two pairs of metadata.",
            "",
            f"{about['processor']}, {about['cores']} cores, {about['system']}.{note}",
            "",
            "| PySpark | cores | rows | rounds | import | Parquet | ratio | merge | ratio | read "
            "| path, size | diff, s |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
            "The work of the driver grows with the number of ranges.",
            f"It takes seconds for {ranges['ranges']:,} ranges of "
            f"{ranges['records'] // ranges['ranges']:,} records, which hold "
            f"{ranges['records']:,} entries.",
            "Tasks do all other work.",
            "",
            "| step of the driver | s |",
            "|---|---:|",
            *(f"| {text} | {ranges[name]:.2f} |" for name, text in STEPS.items()),
            "",
        ]
    )


def main() -> int:
    """Measure all lines, write the sections, print the JSON line."""
    parser = argparse.ArgumentParser(description="imports, reads, diffs and tables on Spark")
    parser.add_argument("--environments", type=Path, default=ROOT, metavar="DIR")
    parser.add_argument("--note", default="", help="circumstances of the run, for the document")
    parser.add_argument("--only", choices=("imports", "tables"), help="measure this part alone")
    parser.add_argument("--write", action="store_true", help="also when QUICK is set")
    said = parser.parse_args()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    found: Line = {"machine": machine(), "quick": quick}
    texts = {}
    if said.only != "tables":
        lines = []
        for plan in QUICK if quick else FULL:
            lines.append(measured(plan, said.environments))
            print(json.dumps(lines[-1]), flush=True)
        found |= {"lines": lines, "ranges": _ran(said.environments, 4, "spark_ranges")}
        note = f"  {said.note}" if said.note else ""
        texts[HEADING] = body(found["machine"], lines, found["ranges"], note)
    if said.only != "imports":
        found["tables"] = tables(said.environments, quick)
        about = found["machine"]
        where = f"{about['processor']}, {about['cores']} cores, {about['system']}. {said.note}"
        texts[TABLES] = section(ABOUT_TABLES, where.rstrip(), found["tables"])
    if said.write or not quick:
        document = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
        for heading, text in texts.items():
            document = sections.placed(document, heading, text)
        write(REPORT, document)
        print(f"wrote {REPORT.relative_to(ROOT)}")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
