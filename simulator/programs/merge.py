"""The model's merges and differences: the published three-way rule on dictionaries.

    s = d -> d      s = b -> d      d = b -> s      else conflict        (absence is an identity)

The merge base is a best common ancestor as git defines it, found by brute force over sets of
ancestors.  If there are several, it is the one with the greatest generation, then the smallest id.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from graveler.core.errors import Conflict, Invalid, MergeConflict, NoChanges
from graveler.core.records import ABSENT, Absent, Strategy
from simulator.programs.model import (
    Blob,
    CommitKey,
    Draft,
    Model,
    ModelCommit,
    Tree,
    advance,
    branch_of,
    check_clean,
    head_tree,
    parent_number,
    resolve,
    visible,
)

Side = Blob | Literal[Absent.ABSENT]
Resolutions = tuple[
    tuple[str, Literal["source", "dest"]], ...
]  # distinct prefixes with their sides


class MergeResult(NamedTuple):
    """The result of a three-way merge: the tree (resolutions and the strategy decide conflicts),
    and the conflicts; with resolutions only those that nothing decides."""

    tree: dict[str, Blob]
    conflicts: tuple[str, ...]


class Line(NamedTuple):
    """One path on which two trees differ."""

    kind: str
    path: str
    left: Side
    right: Side


def best_common_ancestors(model: Model, one: CommitKey, other: CommitKey) -> list[CommitKey]:
    """The common ancestors that are not ancestors of another common ancestor."""
    shared = model.commits[one].ancestors & model.commits[other].ancestors
    covered: set[CommitKey] = set()
    for key in shared:
        covered |= model.commits[key].ancestors - {key}
    return sorted(shared - covered)


def merge_base(model: Model, one: CommitKey, other: CommitKey) -> CommitKey:
    """The best common ancestor that a merge uses."""
    found = best_common_ancestors(model, one, other)
    return min(found, key=lambda key: (-model.commits[key].generation, model.ids[key]))


def side_of(path: str, resolutions: Resolutions, strategy: Strategy) -> Strategy:
    """The side that decides a conflict: that of the longest prefix, else the strategy's."""
    prefixes = [(len(prefix), side) for prefix, side in resolutions if path.startswith(prefix)]
    if not prefixes:
        return strategy
    return "source-wins" if max(prefixes)[1] == "source" else "dest-wins"


def three_way(
    base: Tree,
    source: Tree,
    dest: Tree,
    strategy: Strategy = "",
    resolutions: Resolutions = (),
) -> MergeResult:
    """The rule, path by path."""
    tree: dict[str, Blob] = {}
    conflicts = []
    for path in sorted({*source, *dest}, key=str.encode):
        b, s, d = (side.get(path, ABSENT) for side in (base, source, dest))
        if s in (d, b):
            chosen = d
        elif d == b:
            chosen = s
        else:
            side = side_of(path, resolutions, strategy)
            if not side or not resolutions:
                conflicts.append(path)
            chosen = s if side == "source-wins" else d
        if chosen is not ABSENT:
            tree[path] = chosen
    return MergeResult(tree, tuple(conflicts))


def differences(left: Tree, right: Tree) -> list[Line]:
    """Two trees, path by path, in byte order."""
    lines = []
    for path in sorted({*left, *right}, key=str.encode):
        one, other = left.get(path, ABSENT), right.get(path, ABSENT)
        if one != other:
            kind = "added" if one is ABSENT else "removed" if other is ABSENT else "changed"
            lines.append(Line(kind, path, one, other))
    return lines


def merge_lines(base: Tree, source: Tree, dest: Tree) -> list[Line]:
    """What a merge of `source` into `dest` would change, including conflicts."""
    merged = three_way(base, source, dest, "source-wins")
    return [
        line._replace(kind="conflict") if line.path in merged.conflicts else line
        for line in differences(dest, merged.tree)
    ]


def diff_two_dot(model: Model, left: str, right: str) -> list[Line]:
    """The changes from commit `left` to commit `right`."""
    trees = [model.commits[resolve(model, ref).commit].content for ref in (left, right)]
    return differences(*trees)


def diff_three_dot(model: Model, left: str, right: str) -> list[Line]:
    """What a merge of `right` into `left` would change."""
    one, other = (resolve(model, ref).commit for ref in (left, right))
    base = merge_base(model, one, other)
    trees = [model.commits[key].content for key in (base, other, one)]
    return merge_lines(*trees)


def diff_uncommitted(model: Model, branch: str) -> list[Line]:
    """The staged changes that differ from the head."""
    return differences(head_tree(model, branch), visible(model, branch))


def shown(lines: list[Line], prefix: str, delimiter: str, after: str) -> list[Line]:
    """The lines below `prefix` and after `after`; lines that share a stem up to `delimiter` become
    one."""
    result: list[Line] = []
    for line in lines:
        if not line.path.startswith(prefix) or not is_after(line.path, prefix, delimiter, after):
            continue
        cut = line.path.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            result.append(line)
            continue
        stem = line.path[: cut + len(delimiter)]
        if not result or result[-1].path != stem or result[-1].kind != "prefix_changed":
            result.append(Line("prefix_changed", stem, ABSENT, ABSENT))
    return result


def is_after(path: str, prefix: str, delimiter: str, after: str) -> bool:
    """Whether `path` belongs to the pages that follow the line `after`."""
    if not after:
        return True
    collapsed = (
        bool(delimiter)
        and after.startswith(prefix)
        and after.endswith(delimiter)
        and len(after) > len(prefix)
    )
    return path.encode() > after.encode() and not (collapsed and path.startswith(after))


class Options(NamedTuple):
    """How to merge."""

    strategy: Strategy = ""
    squash: bool = False
    parent_number: int = 0
    resolutions: Resolutions = ()


PLAIN: Final = Options()


def merge(
    model: Model, source: str, dest: str, draft: Draft, options: Options = PLAIN
) -> CommitKey:
    """Make a commit with the parents (destination, source), or with one parent if squashed."""
    meant = resolve(model, source)
    if meant.branch == dest:
        raise Invalid("model: a branch into itself")
    theirs = meant.commit
    check_clean(model, dest)
    ours = branch_of(model, dest).head
    base = merge_base(model, ours, theirs)
    sides = _Sides(*(model.commits[key] for key in (base, theirs, ours)))
    if _same(sides.base, sides.source) and not draft.allow_empty:
        raise NoChanges("model: merge: no changes")
    merged = sides.merged(options.strategy, options.resolutions)
    _refuse_conflicts(merged, options.strategy)
    parents = (ours,) if options.squash else (ours, theirs)
    has_table = sides.has_table(merged.tree)
    return advance(model, dest, parents, merged.tree, draft, has_table=has_table)


class _Sides(NamedTuple):
    base: ModelCommit
    source: ModelCommit
    dest: ModelCommit

    def merged(self, strategy: Strategy = "", resolutions: Resolutions = ()) -> MergeResult:
        base, source, dest = (side.content for side in self)
        return three_way(base, source, dest, strategy, resolutions)

    def has_table(self, tree: Tree) -> bool:
        """Whether the merge has a table.  It takes the side that equals the result; if both do, the
        destination, unless only the source changed."""
        takes_source = self.dest.content or _same(self.base, self.dest)
        return bool(tree) or (self.source if takes_source else self.dest).has_table


def _same(one: ModelCommit, other: ModelCommit) -> bool:
    return (one.content, one.has_table) == (other.content, other.has_table)


def revert(
    model: Model, branch: str, ref: str, draft: Draft, options: Options = PLAIN
) -> CommitKey:
    """Undo the changes of `ref` against its parent."""
    target = resolve(model, ref).commit
    if len(model.commits[target].parents) > 1 and not options.parent_number:
        raise Conflict("model: revert of a merge needs a parent number")
    parent = parent_number(model, target, options.parent_number or 1)
    return _apply(model, branch, (target, parent), draft)


def cherry_pick(
    model: Model, branch: str, ref: str, draft: Draft, options: Options = PLAIN
) -> CommitKey:
    """Apply the changes of `ref` against its parent again."""
    target = resolve(model, ref).commit
    if len(model.commits[target].parents) > 1 and not options.parent_number:
        raise Invalid("model: cherry-pick of a merge needs a parent number")
    parent = parent_number(model, target, options.parent_number or 1)
    return _apply(model, branch, (parent, target), draft)


def _apply(model: Model, branch: str, step: tuple[CommitKey, CommitKey], draft: Draft) -> CommitKey:
    check_clean(model, branch)
    head = branch_of(model, branch).head
    sides = _Sides(*(model.commits[key] for key in (*step, head)))
    merged = sides.merged()
    _refuse_conflicts(merged, "")
    if merged.tree == sides.dest.content and not draft.allow_empty:
        raise NoChanges("model: no changes")
    has_table = sides.has_table(merged.tree)
    return advance(model, branch, (head,), merged.tree, draft, has_table=has_table)


def _refuse_conflicts(merged: MergeResult, strategy: Strategy) -> None:
    if merged.conflicts and not strategy:
        raise MergeConflict("model: both sides changed", merged.conflicts)


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
    """The ancestors by the latest time of a commit and its ancestors, then by generation, greatest
    first, then by id."""
    start = resolve(model, ref).commit
    commits = model.commits
    if first_parent:
        line = [start]
        while commits[line[-1]].parents:
            line.append(commits[line[-1]].parents[0])
        return line

    def place(key: CommitKey) -> tuple[int, int, str]:
        latest = max(commits[each].created_ns for each in commits[key].ancestors)
        return -latest, -commits[key].generation, model.ids[key]

    return sorted(commits[start].ancestors, key=place)


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
