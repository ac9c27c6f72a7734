"""The branch protection rules of a repository: read, replace, add and remove.

They are part of the repository's record, so every change is one compare-and-swap, and a process
that knows the record knows the rules.  What they forbid: `engine/protection.py`.  Used by the
service.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from graveler import limits, wire
from graveler.engine.ports import OpenRepository
from graveler.errors import (
    AlreadyExists,
    Code,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
)
from graveler.records import ABSENT, Absent, Repository, RepositoryState
from graveler.refs.names import repositories

_PATTERN: Final = re.compile(r"[-A-Za-z0-9_*?]+", re.ASCII)

Patterns = tuple[str, ...]


class StoredRules(NamedTuple):
    """The rules, and their entity tag: the SHA-256 of the stored form; empty if there are none."""

    patterns: Patterns
    tag: str


def get(repo: OpenRepository) -> StoredRules:
    """The rules, read from the store now.  `NotFound`.  Cost: 1 KV request."""
    record = _checked(repo, repositories.get(repo.kv, repo.id))
    return StoredRules(record.protected, tag_of(record.protected))


def tag_of(patterns: Patterns) -> str:
    """The entity tag of these rules.  Pure."""
    return sha256(wire.encode_rules(patterns)).hexdigest() if patterns else ""


def set_all(
    repo: OpenRepository,
    patterns: Sequence[str],
    if_match: str | Literal[Absent.ABSENT] = ABSENT,
) -> None:
    """Replace all rules by `patterns`.  Atomic; without `if_match` the call may be repeated.

    `if_match`: the entity tag that the present rules must have; ABSENT: any.
    Errors: `Invalid` for a pattern that can match no branch and for too many; `NotFound`;
    `PreconditionFailed` (nothing changed); `Contended`; `OutcomeUnknown`.
    Cost: 2 KV requests; 1 if the rules are `patterns` already.
    """
    parsed = _parsed(patterns)

    def change(present: Patterns) -> Patterns:
        if if_match is not ABSENT and if_match != tag_of(present):
            raise PreconditionFailed("branch protection rules have changed")
        return parsed

    _change(repo, change)


def add(repo: OpenRepository, pattern: str) -> None:
    """Add one rule.  Errors: as `set_all`; `AlreadyExists`.  Cost: 2 KV requests."""

    def change(present: Patterns) -> Patterns:
        if pattern in present:
            raise AlreadyExists(f"rule already exists: {pattern=}")
        return _parsed((*present, pattern))

    _change(repo, change)


def remove(repo: OpenRepository, pattern: str) -> None:
    """Remove one rule.  Errors: `NotFound`, `Contended`, `OutcomeUnknown`.  Cost: 2 KV requests."""

    def change(present: Patterns) -> Patterns:
        if pattern not in present:
            raise NotFound(f"rule not found: {pattern=:.300}")
        return tuple(each for each in present if each != pattern)

    _change(repo, change)


def _parsed(patterns: Sequence[str]) -> Patterns:
    unique = tuple(dict.fromkeys(patterns))
    if len(unique) > limits.protection_rules_max:
        raise Invalid(f"too many rules: a repository has at most {limits.protection_rules_max}")
    for pattern in unique:
        if len(pattern) > limits.name_length_max or not _PATTERN.fullmatch(pattern):
            raise Invalid(
                "pattern invalid: it must be letters, digits, '_', '-', '*' and '?', at most "
                f"{limits.name_length_max} characters: pattern={pattern!r:.300}"
            )
    return unique


def _change(repo: OpenRepository, changed: Callable[[Patterns], Patterns]) -> None:
    def change(
        record: Repository | Literal[Absent.ABSENT], lost: bool
    ) -> Repository | Literal[Absent.ABSENT]:
        known = _checked(repo, record)
        if lost:  # our write may have landed, and another client may have replaced it
            raise OutcomeUnknown(f"branch protection rules not confirmed: repository={repo.id}")
        protected = changed(known.protected)
        return ABSENT if protected == known.protected else replace(known, protected=protected)

    try:
        repositories.change(repo.kv, repo.id, repo.ids, change)
    finally:
        repo.cache.forget_repository(repo.id)


def _checked(repo: OpenRepository, record: Repository | Literal[Absent.ABSENT]) -> Repository:
    """The live record of this very repository.  Raises `NotFound`."""
    is_live = record is not ABSENT and record.state is RepositoryState.LIVE
    if record is ABSENT or not is_live or record.uid != repo.record.uid:
        raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
    return record
