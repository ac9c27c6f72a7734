"""The recorded history made again by the engine; what the engine answered on the way is kept.

A merge whose result differs from the plain three-way merge (conflicts, changes by hand, several
bases) is put right by a fix-up commit, which then stands for it; a commit with more than two
parents is made from the changes to its first parent, and then gets a commit record with all of
them.  Roots are children of the repository's empty first commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from graveler import identity
from graveler.engine import names
from graveler.engine.commits import adopt, commit, diff, log, merge, reset
from graveler.engine.objects import read, write
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.errors import MergeConflict
from graveler.records import BreakParameters, Commit, Entry, Repository
from tests.replay.recorded import Place, Recorded, Tree, changed, plan, sizes, trees
from tests.replay.recorded import history as recorded_history

SECOND_NS = 1_000_000_000
PAGE = 1_000


class Merged(NamedTuple):
    """What the engine said of one merge."""

    bases: tuple[str, str, str]  # source, destination, base
    conflicts: tuple[str, ...]
    refused: tuple[str, ...]  # conflicts named by the refusal of a merge without strategy
    tree: Tree  # right after


@dataclass
class Replayed:
    """The engine's answers.  `ids[n]` is the commit that stands for the recorded commit n."""

    ports: Ports
    repo: Repository
    first: str
    ids: list[str] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    diffs: list[tuple[tuple[str, str | None], ...]] = field(default_factory=list)
    merges: dict[int, Merged] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    created_ns: dict[str, int] = field(default_factory=dict)

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)


def replay(ports: Ports, count: int) -> Replayed:
    """Make the first `count` commits again."""
    new = repository.NewRepository(
        "history", "mem://lake/history", breaks=BreakParameters(raggedness=60, salt=b"replay")
    )
    repo = repository.create(ports, new)
    first = names.get_branch(open_repository(ports, repo), "main").branch.commit
    done = Replayed(ports, repo, first)
    done.parents[first] = ()
    done.created_ns[first] = 0
    for row, place in zip(recorded_history(count), plan(count), strict=True):
        _make(done, row, place)
        for name in place.closes:
            names.delete_branch(open_repository(ports, repo), name)
    return done


def _make(done: Replayed, row: Recorded, place: Place) -> None:
    parent = done.ids[row.parents[0]] if row.parents else done.first
    if place.opens:
        names.create_branch(done.opened, place.branch, parent)
    if len(row.parents) == 2:
        made = _merge(done, row, place)
    else:
        made = _commit(done, row, place.branch, row.changes, empty=not changed(row))
    if len(row.parents) > 2:
        made = _give_all_parents(done, row, place.branch, made)
    done.ids.append(made)
    done.trees.append(tree(done, made))
    done.diffs.append(difference(done, parent, made))


def _remember(done: Replayed, commit_id: str, parents: tuple[str, ...], created_ns: int) -> None:
    done.parents[commit_id] = parents
    done.created_ns[commit_id] = created_ns


def _commit(
    done: Replayed,
    row: Recorded,
    branch: str,
    changes: tuple[tuple[str, str | None, int], ...],
    *,
    after_ns: int = 0,
    empty: bool = False,
) -> str:
    for path, blob, size in changes:
        if blob is None:
            write.delete(done.opened, branch, path)
        else:
            entry = Entry(f"data/{blob}", size, blob, row.time * SECOND_NS)
            write.stage(done.opened, branch, path, entry)
    created_ns = row.time * SECOND_NS + 2 * row.n + after_ns
    request = commit.CommitRequest(
        f"commit {row.n}", "git", allow_empty=empty, created_ns=created_ns
    )
    entry_made = commit.commit(done.opened, branch, request)
    _remember(done, entry_made.id, entry_made.commit.parents, created_ns)
    return entry_made.id


def _merge(done: Replayed, row: Recorded, place: Place) -> str:
    repo, branch = done.opened, place.branch
    source = place.source or done.ids[row.parents[1]]
    bases = log.merge_base(repo, source, branch)
    conflicts = merge.conflicts(repo, source, branch, diff.DiffQuery(amount=PAGE))
    assert not conflicts.more, "no merge of this history has more conflicts than a page"
    created_ns = row.time * SECOND_NS + 2 * row.n
    request = merge.MergeRequest("git", f"merge {row.n}", allow_empty=True, created_ns=created_ns)
    refused: tuple[str, ...] = ()
    head = names.get_branch(repo, branch).branch.commit
    try:
        made: str = merge.merge(repo, source, branch, request)
    except MergeConflict as error:
        refused = error.paths
        request = replace(request, strategy="dest-wins")
        made = merge.merge(repo, source, branch, request)
    _remember(done, made, (head, done.ids[row.parents[1]]), created_ns)
    result = tree(done, made)
    paths = tuple(line.path for line in conflicts.lines)
    done.merges[row.n] = Merged(tuple(bases), paths, refused, result)
    wanted = trees(len(plan()))[row.n]
    fixes = _changes(result, wanted)
    return _commit(done, row, branch, fixes, after_ns=1) if fixes else made


def _changes(before: Tree, after: Tree) -> tuple[tuple[str, str | None, int], ...]:
    known = sizes()
    paths = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    return tuple(
        (path, after.get(path), known[after[path]] if path in after else 0)
        for path in sorted(paths)
    )


def _give_all_parents(done: Replayed, row: Recorded, branch: str, made: str) -> str:
    repo = done.opened
    simple = log.get_commit(repo, made).commit
    parents = tuple(done.ids[parent] for parent in row.parents)
    above = [log.get_commit(repo, parent).commit for parent in parents]
    record = Commit(
        "git",
        f"commit {row.n} with all parents",
        simple.created_ns,
        simple.metarange,
        parents=parents,
        generation=1 + max(parent.generation for parent in above),
    )
    commit_id = identity.commit_id(record)
    adopt.add_record(repo, adopt.NewCommitRecord(commit_id, record))
    reset.hard_reset(repo, branch, commit_id)
    _remember(done, commit_id, parents, simple.created_ns)
    return commit_id


def tree(done: Replayed, ref: str) -> Mapping[str, str]:
    """The whole listing of a ref, as the engine gives it."""
    found: dict[str, str] = {}
    after = ""
    while True:
        query = read.ListQuery(after=after, amount=PAGE)
        page = read.list_objects(done.opened, ref, query)
        for path, entry in page.lines:
            assert isinstance(entry, Entry)
            found[path] = entry.checksum
            after = path
        if not page.more:
            return found


def difference(done: Replayed, left: str, right: str) -> tuple[tuple[str, str | None], ...]:
    """(path, new identity) of a two-dot diff; no identity: removed."""
    found: list[tuple[str, str | None]] = []
    query = diff.DiffQuery(amount=PAGE)
    while True:
        page = diff.diff_refs(done.opened, left, right, query, three_dot=False)
        for line in page.lines:
            new = line.right.checksum if isinstance(line.right, Entry) else None
            assert (line.kind == "removed") == (new is None)
            found.append((line.path, new))
        if not page.more:
            return tuple(found)
        query = replace(query, after=page.lines[-1].path)
