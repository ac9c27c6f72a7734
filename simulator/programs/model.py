"""The dictionary model of one repository: the right answer of every verb, as simply as possible.

A commit holds the whole keyspace as a dictionary path -> blob; a branch holds its head and a
dictionary of what is staged.  Nothing here is fast, shared or stored, so the model cannot have the
kinds of bugs that the product could have.  Always: the content of a commit never changes.  The
verbs mirror those of the engine and raise the same kinds of error.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from graveler.block.adapter import CREATE, OVERWRITE, Mode, Update
from graveler.core.errors import (
    AlreadyExists,
    DirtyBranch,
    Invalid,
    NoChanges,
    NotFound,
    PreconditionFailed,
    Refused,
)
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Tombstone


class Blob(NamedTuple):
    """What decides whether two entries are equal: neither address nor time."""

    checksum: str
    size: int
    metadata: tuple[tuple[str, str], ...] = ()
    content_type: str = ""


Tree = Mapping[str, Blob]
CommitKey = int  # the model's own name of a commit: its number in the order of creation

ROOT: Final[CommitKey] = 0


@dataclass(frozen=True)
class ModelCommit:
    """A commit; `ancestors` includes itself."""

    key: CommitKey
    parents: tuple[CommitKey, ...]
    content: Tree
    created_ns: int
    generation: int
    ancestors: frozenset[CommitKey]
    message: str = ""
    has_table: bool = True  # a fresh repository's first commit has none; an emptied branch has one


@dataclass
class ModelBranch:
    """A branch: the key of its head, and its staged rows."""

    head: CommitKey
    staged: dict[str, Blob | Literal[Tombstone.TOMBSTONE]] = field(default_factory=dict)
    hidden: bool = False


class Ref(NamedTuple):
    """The target of a ref expression: a commit, or a branch with its staged rows."""

    commit: CommitKey
    branch: str = ""


@dataclass
class Model:
    """A repository.  `ids` maps commits to their ids in the system under test."""

    default_branch: str = "main"
    commits: list[ModelCommit] = field(default_factory=list)
    branches: dict[str, ModelBranch] = field(default_factory=dict)
    tags: dict[str, CommitKey] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)


def new_model(first_commit_id: str, created_ns: int, default_branch: str = "main") -> Model:
    """A fresh repository: one empty commit without parents, one branch."""
    model = Model(default_branch)
    record(model, (), {}, created_ns, "Repository created", has_table=False)
    model.ids.append(first_commit_id)
    model.branches[default_branch] = ModelBranch(ROOT)
    return model


def record(
    model: Model,
    parents: tuple[CommitKey, ...],
    content: Tree,
    created_ns: int,
    message: str,
    *,
    has_table: bool = True,
) -> CommitKey:
    """Add a commit.  The caller names it (`named`) after the system under test has answered."""
    key = len(model.commits)
    above = [model.commits[parent] for parent in parents]
    ancestors = frozenset({key}).union(*(parent.ancestors for parent in above))
    generation = 1 + max((parent.generation for parent in above), default=0)
    model.commits.append(
        ModelCommit(
            key, parents, dict(content), created_ns, generation, ancestors, message, has_table
        )
    )
    return key


def named(model: Model, commit_id: str) -> None:
    """Give the newest commit the id that the system under test answered."""
    assert len(model.ids) == len(model.commits) - 1, "each commit is named once, when it is made"
    model.ids.append(commit_id)


# --- what there is ----------------------------------------------------------


def branch_of(model: Model, name: str) -> ModelBranch:
    """The branch.  Raises `NotFound` if there is none."""
    if name not in model.branches:
        raise NotFound(f"model: branch not found: branch={name}")
    return model.branches[name]


def head_of(model: Model, name: str) -> ModelCommit:
    """The head of a branch."""
    return model.commits[branch_of(model, name).head]


def head_tree(model: Model, name: str) -> Tree:
    """The content of the head of a branch."""
    return head_of(model, name).content


def visible(model: Model, name: str) -> dict[str, Blob]:
    """What a reader of a branch sees: the head with the staged rows over it."""
    branch = branch_of(model, name)
    tree = dict(model.commits[branch.head].content)
    for path, blob in branch.staged.items():
        if blob is TOMBSTONE:
            tree.pop(path, None)
        else:
            tree[path] = blob
    return tree


def is_dirty(model: Model, name: str) -> bool:
    """Whether a staged row differs from the head; a staged row equal to the head does not count."""
    return visible(model, name) != head_tree(model, name)


def resolve(model: Model, ref: str) -> Ref:
    """Resolve a ref expression: full id, branch, tag or unique prefix of an id, then modifiers."""
    cut = min((ref.index(mark) for mark in "~^@$" if mark in ref), default=len(ref))
    name, modifiers = ref[:cut], ref[cut:]
    if name in model.ids:
        start = Ref(model.ids.index(name))
    elif name in model.branches:
        start = Ref(model.branches[name].head, name)
    elif name in model.tags:
        start = Ref(model.tags[name])
    else:
        matching = [key for key, known in enumerate(model.ids) if known.startswith(name)]
        if len(matching) != 1:
            raise NotFound(f"model: ref not found: ref={ref}")
        start = Ref(matching[0])
    return _modified(model, start, modifiers)


def _modified(model: Model, start: Ref, modifiers: str) -> Ref:
    ref = start
    while modifiers:
        mark, modifiers = modifiers[0], modifiers[1:]
        digits = len(modifiers) - len(modifiers.lstrip("0123456789"))
        number = int(modifiers[:digits] or 1)
        modifiers = modifiers[digits:]
        if mark == "~":
            ref = Ref(ref.commit)
            for _ in range(number):
                ref = Ref(_parent(model, ref.commit, 1))
        elif mark == "^" and number:
            ref = Ref(_parent(model, ref.commit, number))
        elif mark in "^@":
            ref = Ref(ref.commit)
    return ref


def _parent(model: Model, commit: CommitKey, number: int) -> CommitKey:
    parents = model.commits[commit].parents
    if number > len(parents):
        raise NotFound(f"model: commit has no such parent: {number=}")
    return parents[number - 1]


def tree_of(model: Model, ref: str) -> Tree:
    """What a reader of `ref` sees: with staged rows for a branch, without them for any other
    ref."""
    found = resolve(model, ref)
    return visible(model, found.branch) if found.branch else model.commits[found.commit].content


# --- branches and tags ------------------------------------------------------


def _check_free(model: Model, name: str) -> None:
    if name in model.branches or name in model.tags or name in model.ids:
        raise AlreadyExists(f"model: the name is taken: name={name}")


def create_branch(model: Model, name: str, source: str, hidden: bool = False) -> CommitKey:
    """Create a branch whose head is the commit to which `source` resolves."""
    _check_free(model, name)
    commit = resolve(model, source).commit
    model.branches[name] = ModelBranch(commit, hidden=hidden)
    return commit


def delete_branch(model: Model, name: str) -> None:
    """Delete a branch and its staged rows; the default branch cannot be deleted."""
    if name == model.default_branch:
        raise Refused("model: the default branch stays")
    branch_of(model, name)
    del model.branches[name]


def create_tag(model: Model, name: str, ref: str) -> CommitKey:
    """Create a name that never moves."""
    _check_free(model, name)
    commit = resolve(model, ref).commit
    model.tags[name] = commit
    return commit


def delete_tag(model: Model, name: str) -> None:
    """Delete a tag.  Raises `NotFound` if there is none."""
    if name not in model.tags:
        raise NotFound(f"model: tag not found: tag={name}")
    del model.tags[name]


# --- staging ----------------------------------------------------------------


def stage(model: Model, branch: str, path: str, blob: Blob, mode: Mode = OVERWRITE) -> None:
    """Put `blob` at `path`, under the condition of `mode`."""
    staged = branch_of(model, branch).staged
    tree = visible(model, branch)
    if mode is CREATE and path in tree:
        raise PreconditionFailed(f"model: path already exists: path={path}")
    if isinstance(mode, Update):
        if path not in tree:
            raise NotFound(f"model: path not found: path={path}")
        if tree[path].checksum != mode.etag:
            raise PreconditionFailed(f"model: path has another checksum: path={path}")
    staged[path] = blob


def delete(model: Model, branch: str, paths: Iterable[str]) -> None:
    """Remove paths; an absent path is no error."""
    staged = branch_of(model, branch).staged
    for path in paths:
        staged[path] = TOMBSTONE


def stat(model: Model, ref: str, path: str) -> Blob:
    """The blob at `path`.  Raises `NotFound` if there is none."""
    tree = tree_of(model, ref)
    if path not in tree:
        raise NotFound(f"model: path not found: path={path}")
    return tree[path]


def copy(model: Model, branch: str, path: str, source_ref: str, source_path: str) -> Blob:
    """Stage at `path` the blob that `source_ref` has at `source_path`."""
    branch_of(model, branch)
    blob = stat(model, source_ref, source_path)
    stage(model, branch, path, blob)
    return blob


def set_user_metadata(model: Model, branch: str, path: str, metadata: Mapping[str, str]) -> None:
    """Replace the metadata of the visible blob at `path`."""
    branch_of(model, branch)
    blob = stat(model, branch, path)
    stage(model, branch, path, blob._replace(metadata=tuple(sorted(metadata.items()))))


def reset(model: Model, branch: str, of: Callable[[str], bool] = lambda path: True) -> None:
    """Drop the staged rows at the paths that `of` accepts."""
    staged = branch_of(model, branch).staged
    for path in [path for path in staged if of(path)]:
        del staged[path]


# --- commits ----------------------------------------------------------------


class Draft(NamedTuple):
    """The message and the time of a commit, and whether it may be empty."""

    message: str
    created_ns: int
    allow_empty: bool = False


def commit(model: Model, branch: str, draft: Draft) -> CommitKey:
    """Make the visible content the new head; no row stays staged."""
    target = branch_of(model, branch)
    content = visible(model, branch)
    if content == head_tree(model, branch) and not draft.allow_empty:
        raise NoChanges("model: commit: no changes")
    return advance(
        model, branch, (target.head,), content, draft, has_table=_has_table(model, branch, content)
    )


def _has_table(model: Model, branch: str, content: Tree) -> bool:
    """Whether a commit of `content` has a table: a commit that changes nothing keeps the head's."""
    return content != head_tree(model, branch) or head_of(model, branch).has_table


def advance(
    model: Model,
    branch: str,
    parents: tuple[CommitKey, ...],
    content: Tree,
    draft: Draft,
    *,
    has_table: bool,
) -> CommitKey:
    """Move a branch to a new commit; no row stays staged."""
    key = record(model, parents, content, draft.created_ns, draft.message, has_table=has_table)
    model.branches[branch] = ModelBranch(key, hidden=model.branches[branch].hidden)
    return key


def check_clean(model: Model, branch: str) -> None:
    """Raise `DirtyBranch` if a staged row would be lost."""
    if is_dirty(model, branch):
        raise DirtyBranch(f"model: uncommitted changes: branch={branch}")


def hard_reset(
    model: Model, branch: str, ref: str, expected: str | Literal[Absent.ABSENT] = ABSENT
) -> None:
    """Move a clean branch to the commit to which `ref` resolves, if it is on the `expected` one, or
    on that commit already."""
    target = branch_of(model, branch)
    check_clean(model, branch)
    commit_key = resolve(model, ref).commit
    if expected is not ABSENT and model.ids[target.head] not in (expected, model.ids[commit_key]):
        raise PreconditionFailed(f"model: the branch is on another commit: branch={branch}")
    model.branches[branch] = ModelBranch(commit_key, hidden=target.hidden)


def import_tree(
    model: Model, branch: str, prefixes: Iterable[str], found: Tree, draft: Draft
) -> CommitKey:
    """Replace everything under `prefixes` by `found`, as one commit."""
    head = branch_of(model, branch).head
    check_clean(model, branch)
    doomed = tuple(prefixes)
    kept = {p: b for p, b in head_tree(model, branch).items() if not p.startswith(doomed)}
    content = {**kept, **found}
    if content == head_tree(model, branch) and not draft.allow_empty:
        raise NoChanges("model: import: no changes")
    has_table = _has_table(model, branch, content)
    return advance(model, branch, (head,), content, draft, has_table=has_table)


def parent_number(model: Model, commit_key: CommitKey, number: int) -> CommitKey:
    """The parent for a revert or cherry-pick, counted from 1.  Raises `Invalid` if there is
    none."""
    parents = model.commits[commit_key].parents
    if not 1 <= number <= len(parents):
        raise Invalid(f"model: no such parent: {number=}")
    return parents[number - 1]
