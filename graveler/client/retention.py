"""Retention rules over the API: how many days the content of commits is kept.

Answers are the JSON objects of the API, as typed dictionaries.  All calls raise the errors of
`Session.ask`.  Part of the public Python client.
"""

from typing import TypedDict, cast

from graveler.client.refs import checked
from graveler.client.session import Session, below
from graveler.errors import NotFound


class BranchRule(TypedDict):
    """The days of one branch; 0: forever."""

    branch_id: str
    retention_days: int


class Rules(TypedDict):
    """The days of branches, and of all others; 0: forever."""

    branches: list[BranchRule]
    default_retention_days: int


def get(session: Session, repository: str) -> Rules:
    """The rules; if none are set, those that keep all commits forever.  `NotFound`: the repository
    does not exist.  Cost: one request, or two if none are set."""
    try:
        answer = session.ask("GET", _rules(repository))
    except NotFound:  # the repository, or its rules
        session.ask("GET", below("repositories", repository))
        return {"branches": [], "default_retention_days": 0}
    return cast(Rules, checked(answer, "branches", "default_retention_days"))


def replace(session: Session, repository: str, rules: Rules) -> None:
    """Replace the rules.  There is no condition: the last of two writers wins.  `NotFound`: the
    repository does not exist.  Cost: one request."""
    session.ask("PUT", _rules(repository), rules)


def delete(session: Session, repository: str) -> None:
    """Delete the rules, so that all commits are kept forever.  Cost: one request."""
    session.ask("DELETE", _rules(repository))


def _rules(repository: str) -> str:
    return below("repositories", repository, "settings", "gc_rules")
