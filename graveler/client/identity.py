"""Who the caller is, over the API.

Each call is one request and raises the errors of `Session.ask`.  Part of the public Python client.
"""

from typing import TypedDict, cast

from graveler.client.refs import checked
from graveler.client.session import Session


class _User(TypedDict):
    id: str
    creation_date: int


class User(_User, total=False):
    """A user.  `creation_date` is in seconds since 1970."""

    friendly_name: str
    email: str


def current_user(session: Session) -> User:
    """The caller.  Raises `Unauthenticated`."""
    answer = checked(session.ask("GET", "/user"), "user")
    return cast(User, checked(answer["user"], "id"))
