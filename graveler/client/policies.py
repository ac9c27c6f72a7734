"""Policies, and what the caller may do, over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.ask`.
Part of the public Python client.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, cast

from graveler.client.refs import checked, listed
from graveler.client.session import NOT_GRAVELER, Session, below, results_of
from graveler.errors import Internal


class _Policy(TypedDict):
    id: str
    statement: list[dict[str, Any]]


class Policy(_Policy, total=False):
    """A policy.  `creation_date` is in seconds since 1970."""

    creation_date: int


def list_policies(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[Policy]:
    """The policies, sorted by id."""
    for item in listed(session, "/auth/policies", prefix, after, amount):
        yield cast(Policy, checked(item, "id", "statement"))


def get(session: Session, policy: str) -> Policy:
    """One policy.  Raises `NotFound`."""
    return cast(Policy, checked(session.ask("GET", _policy(policy)), "id", "statement"))


def create(session: Session, policy: str, statements: Sequence[Any]) -> Policy:
    """Create a policy; it has no effect until it is attached.  Raises `Conflict` if the id is
    taken, `Invalid` for statements that are none."""
    body = {"id": policy, "statement": list(statements)}
    return cast(Policy, checked(session.ask("POST", "/auth/policies", body), "id", "statement"))


def replace(session: Session, policy: str, statements: Sequence[Any]) -> Policy:
    """Replace the statements of a policy, for everybody who has it.  Raises `NotFound`."""
    body = {"id": policy, "statement": list(statements)}
    return cast(Policy, checked(session.ask("PUT", _policy(policy), body), "id", "statement"))


def delete(session: Session, policy: str) -> None:
    """Delete a policy, and detach it from everybody who has it."""
    session.ask("DELETE", _policy(policy))


def may_i(session: Session, action: str, resource: str) -> bool:
    """Whether the caller may do `action` on `resource`, an ARN.  Only Graveler has this call.
    Raises `Invalid` for an action that does not exist."""
    body = {"pairs": [{"action": action, "resource": resource}]}
    rights = results_of(session.ask("POST", "/auth/may-i", body))
    if len(rights) != 1:
        raise Internal(NOT_GRAVELER)
    return bool(checked(rights[0], "allowed")["allowed"])


def _policy(policy: str) -> str:
    return below("auth", "policies", policy)
