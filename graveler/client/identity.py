"""Who the caller is, over the API.

Each call is one request and raises the errors of `Session.ask`.  Part of the public Python client.
"""

import json
from typing import Final, TypedDict, cast

from graveler.client.connections import Connections
from graveler.client.exchange import Request
from graveler.client.refs import checked
from graveler.client.session import NOT_GRAVELER, Session, api_url, error_of
from graveler.errors import Internal

_ANSWER_BYTES_MAX: Final = 1 << 16


class _User(TypedDict):
    id: str
    creation_date: int


class User(_User, total=False):
    """A user.  `creation_date` is in seconds since 1970.  `disabled`: only if it is."""

    friendly_name: str
    email: str
    disabled: bool


def current_user(session: Session) -> User:
    """The caller.  Raises `Unauthenticated`."""
    answer = checked(session.ask("GET", "/user"), "user")
    return cast(User, checked(answer["user"], "id"))


def check_reachable(url: str) -> None:
    """Ask whether a server answers at a URL, whatever it answers.  One request without credentials.
    Raises `Invalid`, `Unavailable`."""
    with Connections().send(Request("GET", f"{api_url(url)}/healthcheck")) as response:
        response.read_all(_ANSWER_BYTES_MAX)


def is_set_up(url: str) -> bool:
    """Whether the server has an administrator.  One request without credentials."""
    with Connections().send(Request("GET", f"{api_url(url)}/setup_lakefs")) as response:
        if response.status >= 300:
            raise error_of(response)
        content = response.read_all(_ANSWER_BYTES_MAX)
    try:
        return bool(checked(json.loads(content), "state")["state"] == "initialized")
    except ValueError as error:
        raise Internal(NOT_GRAVELER) from error


class AdministratorKey(TypedDict):
    """The first access key of a server.  The secret is shown once."""

    access_key_id: str
    secret_access_key: str


def set_up(url: str, token: str, user: str) -> AdministratorKey:
    """Create the administrator of a server that has none.  `token`: `graveler serve` prints it.

    `AlreadyExists`: it has one.  `Refused`: the token is another.  After `OutcomeUnknown` nobody
    may know the secret: `graveler credentials reset` makes a new one."""
    headers = {"Content-Type": "application/json", "X-Graveler-Setup-Token": token}
    body = json.dumps({"username": user}).encode()
    pool = Connections()
    with pool.send(Request("POST", f"{api_url(url)}/setup_lakefs", headers, body)) as response:
        if response.status >= 300:
            raise error_of(response, api_url(url))
        content = response.read_all(_ANSWER_BYTES_MAX)
    try:
        answer = checked(json.loads(content), "access_key_id", "secret_access_key")
    except ValueError as error:
        raise Internal(NOT_GRAVELER) from error
    return cast(AdministratorKey, answer)
