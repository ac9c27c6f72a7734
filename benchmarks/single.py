"""The command of one group of lines: `python -m benchmarks.http`, and its siblings."""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

S = TypeVar("S")


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
