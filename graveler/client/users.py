"""Users and their access keys, over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.ask`.
Part of the public Python client.
"""

from collections.abc import Iterator
from typing import TypedDict, cast

from graveler.client.identity import User
from graveler.client.policies import Policy
from graveler.client.refs import checked, listed
from graveler.client.session import Session, below, with_query


class _Key(TypedDict):
    access_key_id: str
    creation_date: int


class Key(_Key, total=False):
    """An access key without its secret.  `name`: what its owner calls it."""

    name: str


class KeyWithSecret(Key):
    """A new access key.  No later answer has its secret."""

    secret_access_key: str


def list_users(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[User]:
    """The users, sorted by id."""
    for item in listed(session, "/auth/users", prefix, after, amount):
        yield cast(User, checked(item, "id"))


def get(session: Session, user: str) -> User:
    """One user.  Raises `NotFound`."""
    return cast(User, checked(session.ask("GET", _user(user)), "id"))


def create(session: Session, user: str, *, name: str = "", email: str = "") -> User:
    """Create a user without keys, groups and rights.  Raises `Conflict` if the id is taken."""
    extra = {"friendly_name": name, "email": email}
    body = {"id": user, **{field: value for field, value in extra.items() if value}}
    return cast(User, checked(session.ask("POST", "/auth/users", body), "id"))


def delete(session: Session, user: str) -> None:
    """Delete a user with its keys."""
    session.ask("DELETE", _user(user))


def disable(session: Session, user: str) -> None:
    """Refuse the keys, sessions and external principals of a user.  Raises `Conflict` for the
    caller itself and for the last administrator."""
    session.ask("POST", _user(user, "disable"))


def enable(session: Session, user: str) -> None:
    """Accept them again."""
    session.ask("POST", _user(user, "enable"))


def list_policies(session: Session, user: str, *, effective: bool = False) -> Iterator[Policy]:
    """The policies of a user.  `effective`: those of its groups too."""
    path = with_query(_user(user, "policies"), effective=effective)
    for item in listed(session, path):
        yield cast(Policy, checked(item, "id"))


def list_groups(session: Session, user: str) -> Iterator[str]:
    """The ids of the groups of a user."""
    for item in listed(session, _user(user, "groups")):
        yield str(checked(item, "id")["id"])


def attach(session: Session, user: str, policy: str) -> None:
    """Give a user the rights of a policy.  Raises `NotFound`."""
    session.ask("PUT", _user(user, "policies", policy))


def detach(session: Session, user: str, policy: str) -> None:
    """Take the policy from a user; those of its groups stay."""
    session.ask("DELETE", _user(user, "policies", policy))


# ---- keys ----------------------------------------------------------------------------------------


def list_keys(session: Session, user: str) -> Iterator[Key]:
    """The access keys of a user."""
    for item in listed(session, _user(user, "credentials")):
        yield cast(Key, checked(item, "access_key_id", "creation_date"))


def create_key(session: Session, user: str, *, name: str = "") -> KeyWithSecret:
    """Give a user a further access key.  After `OutcomeUnknown`, delete the key that nobody has."""
    path = with_query(_user(user, "credentials"), name=name)
    answer = checked(session.ask("POST", path), "access_key_id", "secret_access_key")
    return cast(KeyWithSecret, answer)


def delete_key(session: Session, user: str, key: str) -> None:
    """End an access key, and the sessions that began with it."""
    session.ask("DELETE", _user(user, "credentials", key))


def _user(user: str, *rest: str) -> str:
    return below("auth", "users", user, *rest)
