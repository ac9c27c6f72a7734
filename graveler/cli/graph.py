"""The graph of `graveler log --graph`: every commit in a lane, every edge drawn once.

    * │ 3c merge          a row a commit: its lane has `*`, the others `|`
    |\\                     rows between: edges move to their lane, one column a row
    | * 2b
    |/
    * 1a

Commits come children before parents (`ordered`).  Lanes hold the commits that are expected next.
Pure.  For this folder.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A line of the graph.  `commit` is empty for a line between two commits."""

    drawing: str
    commit: Mapping[str, Any]


def ordered(commits: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The commits, each before its parents, else newest first."""
    known = {commit["id"]: commit for commit in commits}
    children = dict.fromkeys(known, 0)
    for commit in known.values():
        for parent in set(commit["parents"]) & known.keys():
            children[parent] += 1
    ready: list[tuple[int, int, str]] = []
    for id, count in children.items():
        if not count:
            _push(ready, known[id])
    rows = []
    while ready:
        commit = known[heappop(ready)[2]]
        rows.append(commit)
        for parent in set(commit["parents"]) & known.keys():
            children[parent] -= 1
            if not children[parent]:
                _push(ready, known[parent])
    return rows


def draw(commits: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The lines of the graph of `ordered` commits."""
    lanes: list[str] = []
    for commit in commits:
        id, parents = commit["id"], list(dict.fromkeys(commit["parents"]))
        if id not in lanes:
            lanes.append(id)
        place = lanes.index(id)
        yield Row(" ".join("*" if each == id else "|" for each in lanes), commit)
        after: list[str] = []
        for lane in lanes:
            after += [each for each in (parents if lane == id else [lane]) if each not in after]
        edges = [(index, after.index(lane)) for index, lane in enumerate(lanes) if index != place]
        edges += [(place, after.index(parent)) for parent in parents]
        yield from (Row(line, {}) for line in _moves(edges))
        lanes = after


def _moves(edges: list[tuple[int, int]]) -> Iterator[str]:
    """The lines in which edges reach their lanes; none if all stay."""
    while any(column != goal for column, goal in edges):
        width = 2 * max(max(edge) for edge in edges) + 1
        line, moved = [" "] * width, []
        for column, goal in edges:
            if column == goal:
                line[2 * column] = "|"
                moved.append((column, goal))
                continue
            step = 1 if goal > column else -1
            between, mark = 2 * column + step, "\\" if step > 0 else "/"
            line[between] = mark if line[between] in (" ", mark) else "X"
            moved.append((column + step, goal))
        yield "".join(line).rstrip()
        edges = list(dict.fromkeys(moved))


def _push(ready: list[tuple[int, int, str]], commit: Mapping[str, Any]) -> None:
    generation = int(commit.get("generation", 0))
    heappush(ready, (-int(commit["creation_date"]), -generation, commit["id"]))
