"""The first 6,000 commits of git's own repository, and on which branch each is to be replayed.

A run takes 4,000 of them, all with GRAVELER_DRAWS=all.  Of the merges among these, 29 have several
best common ancestors.

    first child of a commit    goes on with its branch
    every other child          opens a branch at it
    a second parent            is merged by the name of the branch that stands at it, else by id
    a branch that no commit will continue or merge any more is deleted

Trees and digests are computed from the recorded changes alone.
"""

import functools
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import draws

COUNT = 6_000 if draws.ALL else 4_000
FILE = Path(__file__).parent.parent / "data" / "git-history.jsonl.xz"

Tree = Mapping[str, str]  # path -> identity
Change = tuple[str, str | None, int]  # path, identity (None: removed), size


class Recorded(NamedTuple):
    """One commit as it was recorded; `merge` is (number of conflicts, digest or "")."""

    n: int
    parents: tuple[int, ...]
    time: int
    changes: tuple[Change, ...]
    files: int
    digest: str
    bases: tuple[int, ...]
    merge: tuple[int, str] | None


class Place(NamedTuple):
    """Where a commit is made: `branch`, opened first if `opens`; then `closes` are deleted."""

    branch: str
    opens: bool
    source: str  # of a merge: the branch that stands at the second parent, or ""
    closes: tuple[str, ...]


@functools.cache
def history(count: int = COUNT) -> tuple[Recorded, ...]:
    """The first `count` commits, parents first."""
    rows = []
    with lzma.open(FILE, "rt") as lines:
        for line, _ in zip(lines, range(count), strict=False):
            row = json.loads(line)
            merge = row.get("merge")
            rows.append(
                Recorded(
                    row["n"],
                    tuple(row["parents"]),
                    row["time"],
                    tuple((path, identity, size) for path, identity, size in row["changes"]),
                    row["files"],
                    row["digest"],
                    tuple(row.get("bases", ())),
                    None if merge is None else (merge["conflicts"], merge["digest"] or ""),
                )
            )
    return tuple(rows)


@functools.cache
def trees(count: int = COUNT) -> tuple[Tree, ...]:
    """The tree of every commit, each checked against its recorded digest."""
    return _trees(history(count))


def _trees(rows: Sequence[Recorded]) -> tuple[Tree, ...]:
    result: list[Tree] = []
    for row in rows:
        tree = dict(result[row.parents[0]]) if row.parents else {}
        for path, identity, _ in row.changes:
            if identity is None:
                del tree[path]
            else:
                tree[path] = identity
        assert digest(tree) == row.digest and len(tree) == row.files, f"recorded data: {row.n=}"
        result.append(tree)
    return tuple(result)


def _changed(row: Recorded, before: Tree) -> tuple[Change, ...]:
    return tuple(change for change in row.changes if before.get(change[0]) != change[1])


@functools.cache
def sizes(count: int = COUNT) -> Mapping[str, int]:
    """The size of every identity."""
    return {
        identity: size
        for row in history(count)
        for _, identity, size in row.changes
        if identity is not None
    }


def digest(tree: Tree) -> str:
    """As recorded: SHA-256 over `path\\tidentity\\n`, paths in byte order."""
    lines = (f"{path}\t{tree[path]}\n" for path in sorted(tree, key=str.encode))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def three_way(base: Tree, source: Tree, dest: Tree) -> tuple[dict[str, str], list[str]]:
    """The merged tree, conflicts decided for the destination, and the conflicts."""
    merged, conflicts = dict(dest), []
    for path in {*base, *source, *dest}:
        b, s, d = base.get(path), source.get(path), dest.get(path)
        if s in (d, b):
            continue
        if d != b:
            conflicts.append(path)
        elif s is None:
            del merged[path]
        else:
            merged[path] = s
    return merged, sorted(conflicts, key=str.encode)


def best_common_ancestors(rows: tuple[Recorded, ...], octopus: bool) -> list[tuple[int, ...]]:
    """For each two-parent merge all best common ancestors; without `octopus`, commits with more
    than two parents count with their first alone."""
    ancestors: list[int] = []  # bit n: commit n
    found: list[tuple[int, ...]] = []
    for row in rows:
        parents = row.parents if octopus or len(row.parents) < 3 else row.parents[:1]
        shared = ancestors[parents[0]] & ancestors[parents[1]] if len(parents) == 2 else 0
        best = []
        while shared:  # parents come first, so the greatest number that is left is no ancestor
            best.append(shared.bit_length() - 1)
            shared &= ~ancestors[best[-1]]
        found.append(tuple(sorted(best)))
        ancestors.append(functools.reduce(int.__or__, (ancestors[p] for p in parents), 1 << row.n))
    return found


class Story(NamedTuple):
    """A history to replay: commits, parents first; the tree of each; where each is made."""

    rows: tuple[Recorded, ...]
    trees: tuple[Tree, ...]
    places: tuple[Place, ...]

    def changed(self, row: Recorded) -> tuple[Change, ...]:
        """The recorded changes but for those of a file's mode alone, which no path's identity
        knows."""
        return _changed(row, self.trees[row.parents[0]] if row.parents else {})


def story(count: int) -> Story:
    """The first `count` commits."""
    return Story(history(count), trees(count), _plan(history(count)))


def condensed(count: int, length: int) -> Story:
    """The first `count` commits, with one in the place of up to `length` that follow each other.

    Every merge is there, and so are its parents, every fork, and the ends of all lines."""
    rows, known = history(count), trees(count)
    children = Counter(parent for row in rows for parent in row.parents)
    meeting = {parent for row in rows if len(row.parents) > 1 for parent in row.parents}
    kept: list[Recorded] = []
    numbers: dict[int, int] = {}  # of what is kept
    begun: dict[int, tuple[int, int]] = {}  # left out -> the parent of what is begun, its length
    for row in rows:
        parent, so_far = begun.pop(row.parents[0], (row.parents[0], 0)) if row.parents else (-1, 0)
        is_joint = len(row.parents) != 1 or children[row.n] != 1 or row.n in meeting
        if not is_joint and so_far + 1 < length:
            begun[row.n] = parent, so_far + 1
            continue
        parents = (parent, *row.parents[1:]) if row.parents else ()
        changes = row.changes if not so_far else between(known[parent], known[row.n])
        numbers[row.n] = len(kept)
        kept.append(
            row._replace(
                n=len(kept),
                parents=tuple(numbers[each] for each in parents),
                changes=changes,
                bases=tuple(numbers[each] for each in row.bases),
            )
        )
    made = tuple(kept)
    return Story(made, _trees(made), _plan(made))


def between(before: Tree, after: Tree) -> tuple[Change, ...]:
    """What changes one tree into the other."""
    known = sizes()
    paths = sorted({*before, *after}, key=str.encode)
    return tuple(
        (path, after.get(path), known[after[path]] if path in after else 0)
        for path in paths
        if before.get(path) != after.get(path)
    )


def _plan(rows: Sequence[Recorded]) -> tuple[Place, ...]:
    uses = [0] * len(rows)
    for row in rows:
        for parent in row.parents:
            uses[parent] += 1
    at: dict[int, str] = {}  # commit -> the branch that stands at it
    places = []
    for row in rows:
        source = at.get(row.parents[1], "") if len(row.parents) > 1 else ""
        branch = "main" if row.n == 0 else at.pop(row.parents[0], "") if row.parents else ""
        opens = not branch
        if opens:
            branch = f"line-{row.n}"
        closes = []
        for parent in row.parents:
            uses[parent] -= 1
            if not uses[parent] and at.get(parent, "main") != "main":
                closes.append(at.pop(parent))
        at[row.n] = branch
        places.append(Place(branch, opens, source, tuple(closes)))
    return tuple(places)
