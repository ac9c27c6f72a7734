"""Repositories, branches, tags and branch protection, over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.call`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NotRequired, TypedDict

from graveler.client.session import (
    NOT_GRAVELER,
    Session,
    below,
    checked,
    having,
    listed,
    with_query,
)
from graveler.core.errors import Conflict, Internal, NotFound, PreconditionFailed


class Repository(TypedDict):
    """A repository.  `creation_date` is in seconds since 1970."""

    id: str
    default_branch: str
    storage_namespace: str
    creation_date: NotRequired[int]


class Ref(TypedDict):
    """A branch or a tag, and the id of its commit."""

    id: str
    commit_id: str


# ---- repositories --------------------------------------------------------------------------------


def list_repositories(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[Repository]:
    """The repositories, sorted by id."""
    return listed(session, Repository, "/repositories", prefix=prefix, after=after, amount=amount)


def get_repository(session: Session, repository: str) -> Repository:
    """One repository.  Raises `NotFound`."""
    return checked(Repository, session.call("GET", below("repositories", repository)))


def create_repository(
    session: Session,
    name: str,
    storage_namespace: str,
    *,
    default_branch: str = "",
    sample_data: bool = False,
    read_only: bool = False,
    bare: bool = False,
) -> Repository:
    """Create a repository.  `bare`: without a branch, for a restore.  Raises `Conflict` if the name
    is taken, `Invalid` if the namespace is."""
    body: dict[str, Any] = {"name": name, "storage_namespace": storage_namespace}
    body |= {"default_branch": default_branch} if default_branch else {}
    body |= {"sample_data": True} if sample_data else {}
    body |= {"read_only": True} if read_only else {}
    return checked(Repository, session.call("POST", with_query("/repositories", bare=bare), body))


def delete_repository(session: Session, repository: str, *, force: bool = False) -> None:
    """Delete a repository; its objects stay in the storage.  `force`: also a read-only one."""
    session.call("DELETE", with_query(below("repositories", repository), force=force))


def repository_metadata(session: Session, repository: str) -> Mapping[str, str]:
    """The metadata of a repository."""
    return having(session.call("GET", below("repositories", repository, "metadata")))


def set_repository_metadata(session: Session, repository: str, pairs: Mapping[str, str]) -> None:
    """Set keys; others stay."""
    path = below("repositories", repository, "metadata")
    session.call("POST", path, {"metadata": dict(pairs)})


def delete_repository_metadata(session: Session, repository: str, keys: list[str]) -> None:
    """Delete keys."""
    session.call("DELETE", below("repositories", repository, "metadata"), {"keys": keys})


# ---- branches ------------------------------------------------------------------------------------


def list_branches(
    session: Session,
    repository: str,
    *,
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
    hidden: bool = False,
) -> Iterator[Ref]:
    """The branches, sorted by name.  `hidden`: hidden ones too."""
    path = with_query(below("repositories", repository, "branches"), show_hidden=hidden)
    return listed(session, Ref, path, prefix=prefix, after=after, amount=amount)


def get_branch(session: Session, repository: str, branch: str) -> Ref:
    """One branch.  Raises `NotFound`."""
    return checked(Ref, session.call("GET", _branch(repository, branch)))


def create_branch(
    session: Session, repository: str, name: str, source: str, *, hidden: bool = False
) -> Ref:
    """Create a branch on the commit of `source`.  Raises `Conflict` if the name is taken."""
    body = {"name": name, "source": source, **({"hidden": True} if hidden else {})}
    answer = session.call("POST", below("repositories", repository, "branches"), body)
    if not isinstance(answer, str):
        raise Internal(NOT_GRAVELER)
    return Ref(id=name, commit_id=answer.strip())


def delete_branch(session: Session, repository: str, branch: str) -> None:
    """Delete a branch, and its uncommitted changes; its commits stay."""
    session.call("DELETE", _branch(repository, branch))


def reset_branch(session: Session, repository: str, branch: str, path: str = "") -> None:
    """Discard the uncommitted changes of a branch: all, of one path, or below a prefix that ends
    with a slash."""
    kind = "reset" if not path else "common_prefix" if path.endswith("/") else "object"
    body = {"type": kind, **({"path": path} if path else {})}
    session.call("PUT", _branch(repository, branch), body)


def hard_reset_branch(
    session: Session, repository: str, branch: str, ref: str, *, expected: str = ""
) -> None:
    """Move the head of a branch to the commit that `ref` means.  `expected`: the id of the commit
    that it must be on, unless it is already on that of `ref`.

    Raises `DirtyBranch` if the branch has uncommitted changes, `PreconditionFailed` if it is on
    another commit."""
    path = with_query(_branch(repository, branch, "hard_reset"), ref=ref)
    session.call("PUT", path, headers={"If-Match": f'"{expected}"'} if expected else {})


def _branch(repository: str, *branch: str) -> str:
    return below("repositories", repository, "branches", *branch)


# ---- tags ----------------------------------------------------------------------------------------


def list_tags(
    session: Session,
    repository: str,
    *,
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
) -> Iterator[Ref]:
    """The tags, sorted by name."""
    path = below("repositories", repository, "tags")
    return listed(session, Ref, path, prefix=prefix, after=after, amount=amount)


def get_tag(session: Session, repository: str, tag: str) -> Ref:
    """One tag.  Raises `NotFound`."""
    return checked(Ref, session.call("GET", below("repositories", repository, "tags", tag)))


def create_tag(session: Session, repository: str, name: str, ref: str) -> Ref:
    """Create a tag on the commit that `ref` means.  Raises `Conflict` if the name is taken."""
    body = {"id": name, "ref": ref}
    return checked(Ref, session.call("POST", below("repositories", repository, "tags"), body))


def delete_tag(session: Session, repository: str, tag: str) -> None:
    """Delete a tag; its commit stays.  Raises `NotFound`."""
    session.call("DELETE", below("repositories", repository, "tags", tag))


# ---- protection of branches ----------------------------------------------------------------------
#
# A rule is a glob of branch names.  The rules of a repository are replaced together, if nobody else
# has changed them since they were read.

Patterns = tuple[str, ...]


class _Rules(NamedTuple):
    patterns: Patterns
    tag: str  # of this version of them


def protected_patterns(session: Session, repository: str) -> Patterns:
    """The rules.  Raises `NotFound` if the repository does not exist."""
    return _rules(session, repository).patterns


def protect(session: Session, repository: str, pattern: str) -> None:
    """Add a rule.  Raises `Conflict` if it exists, `Invalid` if it is no glob.

    Cost: two requests; if somebody else changes the rules in between, four.  `PreconditionFailed`:
    somebody did so twice."""

    def added(patterns: Patterns) -> Patterns:
        if pattern in patterns:
            raise Conflict(f"the branches are protected already: {pattern}")
        return (*patterns, pattern)

    _change_rules(session, repository, added)


def unprotect(session: Session, repository: str, pattern: str) -> None:
    """Delete a rule.  Raises `NotFound` if it does not exist.  Cost and other errors: as
    `protect`."""

    def deleted(patterns: Patterns) -> Patterns:
        if pattern not in patterns:
            raise NotFound("branch protection rule not found")
        return tuple(other for other in patterns if other != pattern)

    _change_rules(session, repository, deleted)


def _change_rules(
    session: Session, repository: str, change: Callable[[Patterns], Patterns]
) -> None:
    try:
        _replace_rules(session, repository, change)
    except PreconditionFailed:  # somebody else has changed the rules
        _replace_rules(session, repository, change)


def _replace_rules(
    session: Session, repository: str, change: Callable[[Patterns], Patterns]
) -> None:
    before = _rules(session, repository)
    body = [{"pattern": pattern} for pattern in change(before.patterns)]
    session.call("PUT", _protection(repository), body, {"If-Match": before.tag})


def _rules(session: Session, repository: str) -> _Rules:
    answer = session.answer("GET", _protection(repository))
    rules = answer.decoded(session.url)
    if not isinstance(rules, list):
        raise Internal(NOT_GRAVELER)
    patterns = tuple(str(having(rule, "pattern")["pattern"]) for rule in rules)
    return _Rules(patterns, answer.headers.get("ETag", ""))


def _protection(repository: str) -> str:
    return below("repositories", repository, "settings", "branch_protection")
