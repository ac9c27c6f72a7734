"""The graph of commits: every commit in a lane, every edge drawn once.

    * | 3c merge          a row a commit: its lane has `*`, the others `|`
    |\\                     rows between: edges move to their lane, one column a row
    | * 2b
    |/
    * 1a

Commits come children before parents (`ordered`).  A lane expects one commit and keeps its column
until that commit comes, so only edges of the commit above cross other lanes.
Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A line of the graph.  `commit` is empty for a line between two commits."""

    drawing: str
    commit: Mapping[str, Any]


def ordered(commits: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The commits, each before its parents, else newest first, else as they came."""
    known = {commit["id"]: commit for commit in commits}
    places = {id: place for place, id in enumerate(known)}
    children = dict.fromkeys(known, 0)
    for commit in known.values():
        for parent in set(commit["parents"]) & known.keys():
            children[parent] += 1
    ready: list[tuple[int, int, str]] = []

    def push(id: str) -> None:
        heappush(ready, (-int(known[id]["creation_date"]), places[id], id))

    for id, count in children.items():
        if not count:
            push(id)
    rows = []
    while ready:
        commit = known[heappop(ready)[2]]
        rows.append(commit)
        for parent in set(commit["parents"]) & known.keys():
            children[parent] -= 1
            if not children[parent]:
                push(parent)
    return rows


def draw(commits: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The lines of the graph of `ordered` commits."""
    lanes: list[str] = []  # the commit that each column expects; empty: the column is free
    for commit in commits:
        id, parents = commit["id"], list(dict.fromkeys(commit["parents"]))
        place = _column(lanes, id)
        marks = ["*" if each == id else "|" if each else " " for each in lanes]
        yield Row(" ".join(marks).rstrip(), commit)
        fresh = [parent for parent in parents if parent not in lanes]
        lanes[place] = fresh[0] if fresh else ""
        old = {column for column, lane in enumerate(lanes) if lane}
        goals = [_column(lanes, parent) for parent in parents]
        moves = [goal for goal in goals if goal != place]
        yield from (Row(line, {}) for line in _moves(old, place, moves))
        while lanes and not lanes[-1]:
            lanes.pop()


def _column(lanes: list[str], id: str) -> int:
    """The column that expects a commit, else the first free one, which now does."""
    if id not in lanes:
        if "" not in lanes:
            lanes.append("")
        lanes[lanes.index("")] = id
    return lanes.index(id)


def _moves(columns: set[int], place: int, goals: Sequence[int]) -> Iterator[str]:
    """Lines in which edges leave the column `place`, one to each side a line.

    `columns`: those that are there before; the goals are there after their line.

        |_|/      from the third column to the first        |\\_|      and back
    """
    left, right = [goal for goal in goals if goal < place], [goal for goal in goals if goal > place]
    shown = set(columns)
    for row in range(max(len(left), len(right))):
        is_last = row + 1 == max(len(left), len(right))
        line = [" "] * (2 * max({*columns, *goals, place}) + 1)
        for column in shown if is_last else {*shown, place}:
            line[2 * column] = "|"
        for goal in left[row : row + 1]:
            line[2 * place - 1] = "/"
            line[2 * goal + 1 : 2 * place - 1 : 2] = "_" * (place - goal - 1)
            shown.add(goal)
        for goal in right[row : row + 1]:
            line[2 * place + 1] = "\\"
            line[2 * place + 3 : 2 * goal : 2] = "_" * (goal - place - 1)
            shown.add(goal)
        yield "".join(line).rstrip()
