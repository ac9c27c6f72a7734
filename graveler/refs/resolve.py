"""Parses ref expressions (`main`, `v1~2`, `main@{…}`), and finds the commit that each one names."""

import re
from contextlib import suppress
from functools import lru_cache
from typing import Final, Literal, NamedTuple, cast

from graveler.core import limits
from graveler.core.errors import Code, Invalid, NotFound
from graveler.core.ids import BranchId, CommitId, TagId, is_hex64, parse_branch_id, parse_tag_id
from graveler.core.records import ABSENT, Absent, Repository, Versioned
from graveler.kv.store import Store
from graveler.refs import branches, commits, graph, tags
from graveler.refs.commits import Lookup
from graveler.refs.keys import commit_key, space, tag_key
from graveler.refs.tags import StoredTag

# ---- expression ------------------------------------------------------------------------------

ModifierKind = Literal["~", "^", "@", "$"]

_MODIFIER = re.compile(r"([~^@$])([0-9]*)", re.ASCII)
_FORBIDDEN = re.compile(r"[\s%\x00-\x1f\x7f\ud800-\udfff]")
_KEPT = 1_024  # expressions
_NUMBER_LENGTH_MAX = len(str(limits.ref_distance_max))


class Modifier(NamedTuple):
    """One modifier of an expression.  `number` has no meaning for `@` and `$`."""

    kind: ModifierKind
    number: int


class Expression(NamedTuple):
    """A base name and its modifiers, in order."""

    base: str
    modifiers: tuple[Modifier, ...] = ()


@lru_cache(maxsize=_KEPT)
def parse(text: str) -> Expression:
    """The parts of `text`.  Recent results are cached.  Raises `Invalid`, which names the ref, if
    `text` is malformed."""
    if len(text) > limits.ref_length_max:
        raise Invalid(
            f"ref is too long: at most {limits.ref_length_max} characters: length={len(text)}"
        )
    if _FORBIDDEN.search(text):
        raise _malformed(text, "it must have no white space, no control character and no '%'")
    cut = re.search(r"[~^@$]", text)
    base = text[: cut.start()] if cut else text
    if not base:
        raise _malformed(text, "it must begin with a branch, a tag or a commit id")
    modifiers = _modifiers(text, len(base))
    _check_order(text, modifiers)
    return Expression(base, modifiers)


def _modifiers(text: str, start: int) -> tuple[Modifier, ...]:
    modifiers: list[Modifier] = []
    at = start
    while at < len(text):
        match = _MODIFIER.match(text, at)
        if match is None:
            raise _malformed(text, "a modifier is ~, ^, @ or $, and ~ and ^ may have a number")
        kind = cast(ModifierKind, match[1])
        if len(modifiers) == limits.ref_modifier_count_max:
            raise _malformed(text, f"at most {limits.ref_modifier_count_max} modifiers")
        modifiers.append(Modifier(kind, _number(text, kind, match[2])))
        at = match.end()
    return tuple(modifiers)


def _number(text: str, kind: ModifierKind, digits: str) -> int:
    if not digits:
        return 1
    if kind in "@$":
        raise _malformed(text, f"'{kind}' takes no number")
    # Check the length first: converting a huge number of digits is slow.
    if len(digits.lstrip("0")) > _NUMBER_LENGTH_MAX or int(digits) > limits.ref_distance_max:
        raise _malformed(text, f"a modifier's number is at most {limits.ref_distance_max}")
    return int(digits)


def _check_order(text: str, modifiers: tuple[Modifier, ...]) -> None:
    kinds = [modifier.kind for modifier in modifiers]
    if "$" in kinds and len(kinds) > 1:
        raise _malformed(text, "'$' must be the only modifier")
    if "@" in kinds[1:]:
        raise _malformed(text, "'@' must come once, directly after the name")


def _malformed(text: str, rule: str) -> Invalid:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return Invalid(f"ref invalid: {rule}: ref={shown!r}")


# ---- resolve ---------------------------------------------------------------------------------


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
    with suppress(Invalid):  # no branch can have this name
        branch = branches.find_live(kv, repository, parse_branch_id(base))
        if branch is not ABSENT:
            return ResolvedRef(branch.branch.commit, "branch", branch, BranchId(base), True)
    with suppress(Invalid):  # no tag can have this name
        tag = tags.find(kv, repository, parse_tag_id(base))
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


def holders(kv: Store, repository: Repository, name: BranchId | TagId) -> Holders:
    """What uses `name` now; for a check before a branch or tag of that name is created.  One
    request, and one more for a name that may be the short id of a commit.

    The check does not reserve the name.  Only the swap of the branch record, or the creation of the
    tag, decides, each for its own kind.
    """
    partition = space(repository)
    branch_at = branches.place(repository, BranchId(name))
    gone_at = branches.deleted_place(repository, BranchId(name))
    tag_at = partition, tag_key(TagId(name))
    commit_at = partition, commit_key(CommitId(name))
    rows = kv.get_many((branch_at, gone_at, tag_at, commit_at))
    branch, tag = rows.get(branch_at, rows.get(gone_at)), rows.get(tag_at)
    return Holders(
        ABSENT if branch is None else branches.decode(branch),
        ABSENT if tag is None else tags.decode(tag),
        commit_at in rows or _is_short_id(kv, repository, name),
    )


def _is_short_id(kv: Store, repository: Repository, name: str) -> bool:
    if len(name) < SHORT_ID_LENGTH_MIN:
        return False
    return bool(commits.by_prefix(kv, repository, name))
