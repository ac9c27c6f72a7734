"""Branch protection rules, over the API.

A rule is a glob of branch names.  The rules of a repository are replaced together, under a
condition: nobody else has changed them since they were read.  All calls raise the errors of
`Session.ask`.  Part of the public Python client.
"""

from collections.abc import Callable
from typing import NamedTuple

from graveler.client.refs import checked
from graveler.client.session import NOT_GRAVELER, Session, below
from graveler.errors import Conflict, Internal, NotFound, PreconditionFailed

Patterns = tuple[str, ...]


class Rules(NamedTuple):
    """The rules of a repository, and the entity tag of this version of them."""

    patterns: Patterns
    tag: str


def get(session: Session, repository: str) -> Rules:
    """The rules.  Cost: one request.  Raises `NotFound` if the repository does not exist."""
    answer, tag = session.ask_with("ETag", "GET", _rules(repository))
    if not isinstance(answer, list):
        raise Internal(NOT_GRAVELER)
    return Rules(tuple(str(checked(rule, "pattern")["pattern"]) for rule in answer), tag)


def add(session: Session, repository: str, pattern: str) -> None:
    """Add a rule.  Raises `Conflict` if it exists, `Invalid` if it is no glob.

    Cost: two requests; if somebody else changes the rules in between, four.  `PreconditionFailed`:
    somebody did so twice."""

    def added(patterns: Patterns) -> Patterns:
        if pattern in patterns:
            raise Conflict(f"the branches are protected already: {pattern}")
        return (*patterns, pattern)

    _change(session, repository, added)


def delete(session: Session, repository: str, pattern: str) -> None:
    """Delete a rule.  Raises `NotFound` if it does not exist.  Cost and other errors: as `add`."""

    def deleted(patterns: Patterns) -> Patterns:
        if pattern not in patterns:
            raise NotFound("branch protection rule not found")
        return tuple(other for other in patterns if other != pattern)

    _change(session, repository, deleted)


def _change(session: Session, repository: str, change: Callable[[Patterns], Patterns]) -> None:
    try:
        _replace(session, repository, change)
    except PreconditionFailed:  # somebody else has changed the rules
        _replace(session, repository, change)


def _replace(session: Session, repository: str, change: Callable[[Patterns], Patterns]) -> None:
    before = get(session, repository)
    body = [{"pattern": pattern} for pattern in change(before.patterns)]
    session.ask("PUT", _rules(repository), body, {"If-Match": before.tag})


def _rules(repository: str) -> str:
    return below("repositories", repository, "settings", "branch_protection")
