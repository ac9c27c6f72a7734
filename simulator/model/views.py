"""The model's listings and logs: everything is sorted, then cut.  Tests may use it."""

from collections.abc import Sequence

from simulator.model.merge import is_after
from simulator.model.model import Blob, CommitKey, Model, ModelCommit, Tree, resolve

ListedLine = tuple[str, Blob | None]  # None: a common prefix


def listing(tree: Tree, prefix: str, delimiter: str, after: str) -> list[ListedLine]:
    """All lines after `after`; the first `amount` of them are a page."""
    lines: list[ListedLine] = []
    for path in sorted(tree, key=str.encode):
        if not path.startswith(prefix) or not is_after(path, prefix, delimiter, after):
            continue
        cut = path.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            lines.append((path, tree[path]))
        elif not lines or lines[-1] != (path[: cut + len(delimiter)], None):
            lines.append((path[: cut + len(delimiter)], None))
    return lines


def log(model: Model, ref: str, first_parent: bool = False) -> list[CommitKey]:
    """The ancestors, a child before its parents.  Among the commits that may come next, the newest
    comes first, then the one with the smallest id."""
    start = resolve(model, ref).commit
    if first_parent:
        line = [start]
        while model.commits[line[-1]].parents:
            line.append(model.commits[line[-1]].parents[0])
        return line
    left = set(model.commits[start].ancestors)
    order = []
    while left:
        waiting = {parent for key in left for parent in model.commits[key].parents}
        ready = left - waiting
        order.append(min(ready, key=lambda key: (-model.commits[key].created_ns, model.ids[key])))
        left.remove(order[-1])
    return order


def touches(
    model: Model, commit: ModelCommit, objects: Sequence[str], prefixes: Sequence[str]
) -> bool:
    """Whether a commit with exactly one parent changed any of these paths."""
    if len(commit.parents) != 1:
        return False
    before = model.commits[commit.parents[0]].content
    changed = {
        path for path in {*before, *commit.content} if before.get(path) != commit.content.get(path)
    }
    return any(path in objects or path.startswith(tuple(prefixes)) for path in changed)
