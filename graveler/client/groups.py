"""Groups of users, over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.ask`.
Part of the public Python client.
"""

from collections.abc import Iterator
from typing import TypedDict, cast

from graveler.client.refs import checked, listed
from graveler.client.session import Session, below


class _Group(TypedDict):
    id: str
    creation_date: int


class Group(_Group, total=False):
    """A group.  `creation_date` is in seconds since 1970."""

    name: str
    description: str


def list_groups(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[Group]:
    """The groups, sorted by id."""
    for item in listed(session, "/auth/groups", prefix, after, amount):
        yield cast(Group, checked(item, "id"))


def get(session: Session, group: str) -> Group:
    """One group.  Raises `NotFound`."""
    return cast(Group, checked(session.ask("GET", _group(group)), "id"))


def create(session: Session, group: str, *, description: str = "") -> Group:
    """Create a group without members and policies.  Raises `Conflict` if the id is taken."""
    body = {"id": group, **({"description": description} if description else {})}
    return cast(Group, checked(session.ask("POST", "/auth/groups", body), "id"))


def delete(session: Session, group: str) -> None:
    """Delete a group; its members lose what it gave them."""
    session.ask("DELETE", _group(group))


def list_members(session: Session, group: str) -> Iterator[str]:
    """The ids of the members."""
    for item in listed(session, _group(group, "members")):
        yield str(checked(item, "id")["id"])


def add_member(session: Session, group: str, user: str) -> None:
    """Make a user a member.  Raises `NotFound`."""
    session.ask("PUT", _group(group, "members", user))


def remove_member(session: Session, group: str, user: str) -> None:
    """End the membership of a user."""
    session.ask("DELETE", _group(group, "members", user))


def list_policies(session: Session, group: str) -> Iterator[str]:
    """The ids of the policies of a group."""
    for item in listed(session, _group(group, "policies")):
        yield str(checked(item, "id")["id"])


def attach(session: Session, group: str, policy: str) -> None:
    """Give the members of a group the rights of a policy.  Raises `NotFound`."""
    session.ask("PUT", _group(group, "policies", policy))


def detach(session: Session, group: str, policy: str) -> None:
    """Take the policy from a group."""
    session.ask("DELETE", _group(group, "policies", policy))


def _group(group: str, *rest: str) -> str:
    return below("auth", "groups", group, *rest)
