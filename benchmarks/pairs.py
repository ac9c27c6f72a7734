"""Two versions of the service, measured by turns: this checkout and another one.

A machine may be twice as fast a minute later, so the figures of two runs say little about a change.
Here both versions serve at once, each a fresh store.  Each group of lines of `http` is measured on
one and directly afterwards on the other, and the order changes with each round.

    python -m benchmarks.pairs ../before --rounds 6

The other checkout needs its environment (`make setup`).
A line of the output: how many times the speed of the other one this checkout has, as the median of
the rounds and between the best rounds; then the name of the line and the median figures of both.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks import http, served
from benchmarks.load import Target
from benchmarks.served import Line

NEED: dict[str, str] = {"beside": "bulk"}  # a group, and the group that must run before it
Figures = dict[str, list[tuple[Line, Line]]]  # by name: the lines of both in each round


def measured(other: Path, rounds: int, groups: Sequence[str]) -> Figures:
    """The lines of both versions, by name and round.  Names that only one of them has are left
    out."""
    figures: Figures = defaultdict(list)
    for number in range(rounds):
        for mine, theirs in _round(other, groups, is_reversed=number % 2 == 1):
            figures[mine["name"]].append((mine, theirs))
        print(f"round {number + 1} of {rounds} is over", file=sys.stderr, flush=True)
    return figures


def _round(other: Path, groups: Sequence[str], *, is_reversed: bool) -> Iterator[tuple[Line, Line]]:
    with (
        tempfile.TemporaryDirectory() as mine,
        tempfile.TemporaryDirectory() as theirs,
        served.serving(Path(mine)) as (here, _),
        served.serving(Path(theirs), checkout=other) as (there, _),
    ):
        both: list[tuple[Target, Path]] = [(here, Path(mine)), (there, Path(theirs))]
        for target, _folder in both:
            served.prepare(target)
        for name in groups:
            measure = http.GROUPS[name]
            turns = reversed(both) if is_reversed else both
            found = {target: measure(target, http.QUICK, folder) for target, folder in turns}
            named = {line["name"]: line for line in found[there]}
            yield from (
                (line, named[line["name"]]) for line in found[here] if line["name"] in named
            )


def told(figures: Figures) -> Iterator[str]:
    """The lines of the output."""
    yield "median   best  line: this checkout, the other one"
    for name, rounds in figures.items():
        pairs = [(mine, theirs) for mine, theirs in rounds if _times(mine, theirs)]
        if not pairs:  # as of failures, when there are none
            continue
        quotients = [_times(mine, theirs) for mine, theirs in pairs]
        best = min if pairs[0][0]["better"] == "lower" else max
        mine, theirs = ([side[at]["value"] for side in pairs] for at in (0, 1))
        of_best = _times(*(pairs[0][0] | {"value": best(values)} for values in (mine, theirs)))
        unit = pairs[0][0]["unit"]
        yield (
            f"{median(quotients):6.2f} {of_best:6.2f}  {name}: "
            f"{median(mine):,.4g}, {median(theirs):,.4g} {unit}"
        )


def _times(mine: Line, theirs: Line) -> float:
    """How many times the other's speed; 0 if one of them has no figure."""
    if not mine["value"] or not theirs["value"]:
        return 0.0
    quotient: float = mine["value"] / theirs["value"]
    return 1 / quotient if mine["better"] == "lower" else quotient


def main() -> None:
    """Measure, and print the quotients."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("other", type=Path, metavar="CHECKOUT", help="the other version")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", action="append", choices=[*http.GROUPS], help="a group of lines")
    arguments = parser.parse_args()
    if not (arguments.other / ".venv" / "bin" / "python").exists():
        parser.error(f"{arguments.other} has no environment: run `make setup` there")
    wanted = set(arguments.only or http.GROUPS)
    wanted |= {NEED[name] for name in wanted if name in NEED}
    groups = [name for name in http.GROUPS if name in wanted]
    for line in told(measured(arguments.other.resolve(), arguments.rounds, groups)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
