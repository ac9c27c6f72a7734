"""Branch protection: which branches only merges, reverts and cherry-picks may change.

The rules are globs of branch names in the record of the repository.  A verb checks them before its
first write and again before the write that decides, so a rule stops work that began before it.  A
check uses a cached record, at most `limits.repository_cache_seconds_max` old.  `force` does not
lift protection: it concerns read-only repositories alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.errors import (
    AlreadyExists,
    Code,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Refused,
)
from graveler.core.globs import matches
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, Absent, Repository, RepositoryState
from graveler.engine.ports import OpenRepository
from graveler.refs import repositories

_PATTERN: Final = re.compile(r"[-A-Za-z0-9_*?]+", re.ASCII)


def check_staging(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if nothing may be staged or dropped on the branch."""
    if is_protected(repo, branch):
        text = f"cannot write to protected branch: branch={branch}"
        raise Refused(text, Code.PROTECTED_WRITE, branch=branch)


def check_commit(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if the branch takes no commits but those of merges and replays."""
    if is_protected(repo, branch):
        text = f"cannot commit to protected branch: branch={branch}"
        raise Refused(text, Code.PROTECTED_COMMIT, branch=branch)


def check_head(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if the branch must not be put on another commit."""
    if is_protected(repo, branch):
        text = f"cannot move the head of a protected branch: branch={branch}"
        raise Refused(text, Code.PROTECTED_HEAD, branch=branch)


def check_deletion(repo: OpenRepository, branch: BranchId) -> None:
    """Raises `Refused` if the branch must not be deleted."""
    if is_protected(repo, branch):
        text = f"cannot delete protected branch: branch={branch}"
        raise Refused(text, Code.PROTECTED_DELETION, branch=branch)


@contextmanager
def in_doubt(doubt: str, *, is_pending: bool) -> Iterator[None]:
    """Inside, a refusal becomes `OutcomeUnknown` with the text `doubt` if `is_pending`: an earlier
    write of the call got no answer and may still land."""
    try:
        yield
    except Refused as error:
        if is_pending:
            raise OutcomeUnknown(doubt) from error
        raise


def is_protected(repo: OpenRepository, branch: BranchId) -> bool:
    """Whether a rule protects the branch, by the record that the checks use."""
    known = repo.cache.repository(repo.record.id)
    if known is ABSENT:
        read_at = repo.cache.now()
        stored = repositories.find(repo.kv, repo.record.id)
        known = repo.record if stored is ABSENT else stored.repository
        if stored is not ABSENT and known.state is RepositoryState.LIVE:
            repo.cache.put_repository(known, read_at)
    rules = (known if known.uid == repo.record.uid else repo.record).protected
    return bool(rules) and any(matches(rule, branch) for rule in rules)


Patterns = tuple[str, ...]


class StoredRules(NamedTuple):
    """The rules, and their entity tag: the SHA-256 of the stored form; empty if there are none."""

    patterns: Patterns
    tag: str


def get_rules(repo: OpenRepository) -> StoredRules:
    """The rules, read from the store now.  `NotFound`.  Cost: 1 KV request."""
    record = _live(repo, repositories.get(repo.kv, repo.id))
    return StoredRules(record.protected, tag_of(record.protected))


def tag_of(patterns: Patterns) -> str:
    """The entity tag of these rules.  Pure."""
    return sha256(wire.encode_rules(patterns)).hexdigest() if patterns else ""


def set_rules(
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
    parsed = _parsed_rules(patterns)

    def change(present: Patterns) -> Patterns:
        if if_match is not ABSENT and if_match != tag_of(present):
            raise PreconditionFailed("branch protection rules have changed")
        return parsed

    _change_rules(repo, change)


def add_rule(repo: OpenRepository, pattern: str) -> None:
    """Add one rule.  Errors: as `set_all`; `AlreadyExists`.  Cost: 2 KV requests."""

    def change(present: Patterns) -> Patterns:
        if pattern in present:
            raise AlreadyExists(f"rule already exists: {pattern=}")
        return _parsed_rules((*present, pattern))

    _change_rules(repo, change)


def remove_rule(repo: OpenRepository, pattern: str) -> None:
    """Remove one rule.  Errors: `NotFound`, `Contended`, `OutcomeUnknown`.  Cost: 2 KV requests."""

    def change(present: Patterns) -> Patterns:
        if pattern not in present:
            raise NotFound(f"rule not found: {pattern=:.300}")
        return tuple(each for each in present if each != pattern)

    _change_rules(repo, change)


def _parsed_rules(patterns: Sequence[str]) -> Patterns:
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


def _change_rules(repo: OpenRepository, changed: Callable[[Patterns], Patterns]) -> None:
    def change(
        record: Repository | Literal[Absent.ABSENT], lost: bool
    ) -> Repository | Literal[Absent.ABSENT]:
        known = _live(repo, record)
        if lost:  # our write may have landed, and another client may have replaced it
            raise OutcomeUnknown(f"branch protection rules not confirmed: repository={repo.id}")
        protected = changed(known.protected)
        return ABSENT if protected == known.protected else replace(known, protected=protected)

    try:
        repositories.change(repo.kv, repo.id, repo.ids, change)
    finally:
        repo.cache.forget_repository(repo.id)


def _live(repo: OpenRepository, record: Repository | Literal[Absent.ABSENT]) -> Repository:
    """The live record of this very repository.  Raises `NotFound`."""
    is_live = record is not ABSENT and record.state is RepositoryState.LIVE
    if record is ABSENT or not is_live or record.uid != repo.record.uid:
        raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repo.id)
    return record
