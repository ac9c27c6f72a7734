"""Resolves a ref expression to a commit.

    full commit id  →  branch  →  tag  →  unique prefix of a commit id       the first that exists

No branch and no tag gets the name of a commit's short id (`holders`).  Cost in requests: a branch
1, a tag 2, a prefix 3, a full commit id the cost of `lookup`; each modifier that of the walk.
"""

from contextlib import suppress
from typing import Final, Literal, NamedTuple

from graveler.errors import Code, Invalid, NotFound
from graveler.ids import BranchId, CommitId, TagId, is_hex64, parse_branch_id, parse_tag_id
from graveler.kv.store import Store
from graveler.records import ABSENT, Absent, Repository, Tag, Versioned
from graveler.refs.graph import commits, graph
from graveler.refs.graph.commits import Lookup
from graveler.refs.keys import branch_key, commit_key, space, tag_key
from graveler.refs.names import branches, tags
from graveler.refs.names.expression import Modifier, parse
from graveler.refs.names.tags import StoredTag

Kind = Literal["commit", "branch", "tag"]

NO_BRANCH = BranchId("")
# As git abbreviates ids.  Shorter names, such as numbers of tickets, would meet an id by chance.
SHORT_ID_LENGTH_MIN: Final = 7


class ResolvedRef(NamedTuple):
    """The commit that an expression names.

    `kind`: what the expression's base is.
    `branch` and `branch_id`: the record and id of the base, if it is a branch.
    `staged`: the expression names the branch itself (`main` or `main$`), so reads include
    uncommitted changes.
    """

    commit: CommitId
    kind: Kind
    branch: Versioned | Literal[Absent.ABSENT] = ABSENT
    branch_id: BranchId = NO_BRANCH
    staged: bool = False


class Holders(NamedTuple):
    """What uses a name: the branch record and the tag record, also deleted ones; and whether the
    name is the id of a commit, or its short id."""

    branch: Versioned | Literal[Absent.ABSENT]
    tag: StoredTag | Literal[Absent.ABSENT]
    commit: bool

    @property
    def live_branch(self) -> bool:
        return self.branch is not ABSENT and self.branch.branch.live

    @property
    def live_tag(self) -> bool:
        return self.tag is not ABSENT and not self.tag.tag.deleted


def resolve(kv: Store, repository: Repository, text: str, lookup: Lookup) -> ResolvedRef:
    """The commit (and the branch) that `text` names.  The branch record is read, never cached.

    Raises `Invalid` for a malformed expression; `NotFound` for an unknown name, an ambiguous
    prefix, or an ancestor or parent that does not exist.
    """
    expression = parse(text)
    named = _named(kv, repository, expression.base, lookup)
    modifiers = expression.modifiers
    if not modifiers:
        return named
    if modifiers[0].kind == "$":
        if named.branch is ABSENT:
            raise Invalid(f"ref invalid: '$' must follow the name of a branch: ref={text!r}")
        return named
    commit = named.commit
    for modifier in modifiers:
        commit = _step(lookup, commit, modifier)
    return ResolvedRef(commit, named.kind, named.branch, named.branch_id)


def _step(lookup: Lookup, commit: CommitId, modifier: Modifier) -> CommitId:
    if modifier.kind == "~":
        return graph.ancestor(lookup, commit, modifier.number)
    if modifier.kind == "^":
        return graph.nth_parent(lookup, commit, modifier.number)
    return commit


def _named(kv: Store, repository: Repository, base: str, lookup: Lookup) -> ResolvedRef:
    if is_hex64(base) and _exists(lookup, CommitId(base)):
        return ResolvedRef(CommitId(base), "commit")
    branch = _branch(kv, repository, base)
    if branch is not ABSENT and branch.branch.live:
        return ResolvedRef(branch.branch.commit, "branch", branch, BranchId(base), True)
    tag = _tag(kv, repository, base)
    if tag is not ABSENT:
        return ResolvedRef(tag.commit, "tag")
    if not is_hex64(base):
        matching = commits.by_prefix(kv, repository, base)
        if len(matching) == 1:
            return ResolvedRef(matching[0], "commit")
        if matching:
            raise NotFound(
                f"ref is ambiguous: several commits begin with it; add characters: ref={base}",
                Code.REF_AMBIGUOUS,
                ref=base,
            )
    raise NotFound(f"ref not found: ref={base}", Code.REF_NOT_FOUND, ref=base)


def _exists(lookup: Lookup, commit: CommitId) -> bool:
    try:
        lookup(commit)
    except NotFound:
        return False
    return True


def _branch(kv: Store, repository: Repository, name: str) -> Versioned | Literal[Absent.ABSENT]:
    with suppress(Invalid):  # no branch can have this name
        return branches.find(kv, repository, parse_branch_id(name))
    return ABSENT


def _tag(kv: Store, repository: Repository, name: str) -> Tag | Literal[Absent.ABSENT]:
    with suppress(Invalid):  # no tag can have this name
        return tags.find(kv, repository, parse_tag_id(name))
    return ABSENT


def holders(kv: Store, repository: Repository, name: BranchId | TagId) -> Holders:
    """What uses `name` now; for a check before a branch or tag of that name is created.  One
    request, and one more for a name that may be the short id of a commit.

    The check does not reserve the name.  Only the swap of the branch record, or the creation of the
    tag, decides, each for its own kind.
    """
    partition = space(repository)
    branch_at = partition, branch_key(BranchId(name))
    tag_at = partition, tag_key(TagId(name))
    commit_at = partition, commit_key(CommitId(name))
    rows = kv.get_many((branch_at, tag_at, commit_at))
    branch, tag = rows.get(branch_at), rows.get(tag_at)
    return Holders(
        ABSENT if branch is None else branches.decode(branch),
        ABSENT if tag is None else tags.decode(tag),
        commit_at in rows or _is_short_id(kv, repository, name),
    )


def _is_short_id(kv: Store, repository: Repository, name: str) -> bool:
    if len(name) < SHORT_ID_LENGTH_MIN:
        return False
    return bool(commits.by_prefix(kv, repository, name))
