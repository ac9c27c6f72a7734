"""What commands of benchmarks print: tables, and the lines of one group (`benchmarks.http`)."""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

ROOT: Final = Path(__file__).resolve().parent.parent
S = TypeVar("S")
Line = dict[str, Any]


def line(
    name: str,
    value: float,
    unit: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
) -> Line:
    """A line without a figure of lakeFS, and the goal that it must hold."""
    digits = 2 if value < 100 else 0
    line: Line = {"name": name, "value": round(value, digits), "unit": unit}
    if least is not None:
        line |= {"goal": f"≥ {least:g}", "held": line["value"] >= least}
    if most is not None:
        line |= {"goal": f"≤ {most:g}", "held": line["value"] <= most}
    return line


def share(name: str, pairs: Iterable[Sequence[float]], least: float | None = None) -> Line:
    """The median of the shares of rounds: pairs of our figure and the other one."""
    return line(name, statistics.median(one / other for one, other in pairs), least=least)


def print_lines(
    name: str,
    described: str | None,
    measure: Callable[[S], Iterable[Mapping[str, Any]]],
    quick: S,
    full: S,
) -> None:
    """Measure at a scale, and print a JSON object a line.  `name`: of the module; `described`: its
    docstring."""
    argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=described,
        epilog="QUICK=1 measures for a shorter time.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    for line in measure(quick if os.environ.get("QUICK") else full):
        print(json.dumps(line))


def print_table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    """A table whose first column is wide; fractions have two digits."""
    print(f"\n{title}\n{'':<62}" + "".join(f"{head:>13}" for head in heads))
    for name, *cells in rows:
        shown = (f"{cell:,.2f}" if isinstance(cell, float) else f"{cell}" for cell in cells)
        print(f"{name!s:<62}" + "".join(f"{cell:>13}" for cell in shown), flush=True)
