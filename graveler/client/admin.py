"""Users, groups, policies, access keys, the audit trail and the usage of a server, over the API.

Answers are the JSON objects of the API, as typed dictionaries; dates are in seconds since 1970.
Each call is one request, a list one for each page, and raises the errors of `Session.call`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NotRequired, TypedDict

from graveler.client.session import (
    NOT_GRAVELER,
    Session,
    below,
    checked,
    having,
    listed,
    results_of,
    unauthenticated,
    with_query,
)
from graveler.core.errors import Internal

_ANSWER_BYTES_MAX: Final = 1 << 16


class User(TypedDict):
    """A user.  `disabled`: only if it is."""

    id: str
    creation_date: NotRequired[int]
    friendly_name: NotRequired[str]
    email: NotRequired[str]
    disabled: NotRequired[bool]


class Group(TypedDict):
    """A group."""

    id: str
    creation_date: NotRequired[int]
    name: NotRequired[str]
    description: NotRequired[str]


class Policy(TypedDict):
    """A policy.  The policies of a user may come without their statements."""

    id: str
    statement: NotRequired[list[dict[str, Any]]]
    creation_date: NotRequired[int]


class Key(TypedDict):
    """An access key without its secret.  `name`: what its owner calls it."""

    access_key_id: str
    creation_date: NotRequired[int]
    name: NotRequired[str]


class KeyWithSecret(Key):
    """A new access key.  No later answer has its secret."""

    secret_access_key: str


# ---- the caller, and the first administrator -----------------------------------------------------


def current_user(session: Session) -> User:
    """The caller.  Raises `Unauthenticated`."""
    return checked(User, having(session.call("GET", "/user"), "user")["user"])


def may_i(session: Session, action: str, resource: str) -> bool:
    """Whether the caller may do `action` on `resource`, an ARN.  Only Graveler has this call.
    Raises `Invalid` for an action that does not exist."""
    body = {"pairs": [{"action": action, "resource": resource}]}
    rights = results_of(session.call("POST", "/auth/may-i", body))
    if len(rights) != 1:
        raise Internal(NOT_GRAVELER)
    return bool(having(rights[0], "allowed")["allowed"])


def check_reachable(url: str) -> None:
    """Ask whether a server answers at a URL, whatever it answers.  One request without credentials.
    Raises `Invalid`, `Unavailable`."""
    with unauthenticated(url).open("GET", "/healthcheck") as response:
        response.read_all(_ANSWER_BYTES_MAX)


def is_set_up(url: str) -> bool:
    """Whether the server has an administrator.  One request without credentials."""
    answer = unauthenticated(url).call("GET", "/setup_lakefs")
    return bool(having(answer, "state")["state"] == "initialized")


def set_up(url: str, token: str, user: str) -> KeyWithSecret:
    """Create the administrator of a server that has none.  `token`: `graveler serve` prints it.

    `AlreadyExists`: it has one.  `Refused`: the token is another.  After `OutcomeUnknown` nobody
    may know the secret: `graveler credentials reset` makes a new one."""
    headers = {"X-Graveler-Setup-Token": token}
    answer = unauthenticated(url).call("POST", "/setup_lakefs", {"username": user}, headers)
    return checked(KeyWithSecret, answer)


# ---- users ---------------------------------------------------------------------------------------


def list_users(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[User]:
    """The users, sorted by id."""
    return listed(session, User, "/auth/users", prefix=prefix, after=after, amount=amount)


def get_user(session: Session, user: str) -> User:
    """One user.  Raises `NotFound`."""
    return checked(User, session.call("GET", _user(user)))


def create_user(session: Session, user: str, *, name: str = "", email: str = "") -> User:
    """Create a user without keys, groups and rights.  Raises `Conflict` if the id is taken."""
    extra = {"friendly_name": name, "email": email}
    body = {"id": user, **{field: value for field, value in extra.items() if value}}
    return checked(User, session.call("POST", "/auth/users", body))


def delete_user(session: Session, user: str) -> None:
    """Delete a user with its keys."""
    session.call("DELETE", _user(user))


def disable_user(session: Session, user: str) -> None:
    """Refuse the keys, sessions and external principals of a user.  Raises `Conflict` for the
    caller itself and for the last administrator."""
    session.call("POST", _user(user, "disable"))


def enable_user(session: Session, user: str) -> None:
    """Accept them again."""
    session.call("POST", _user(user, "enable"))


def user_policies(session: Session, user: str, *, effective: bool = False) -> Iterator[Policy]:
    """The policies of a user.  `effective`: those of its groups too."""
    return listed(session, Policy, with_query(_user(user, "policies"), effective=effective))


def user_groups(session: Session, user: str) -> Iterator[str]:
    """The ids of the groups of a user."""
    return (group["id"] for group in listed(session, Group, _user(user, "groups")))


def attach_to_user(session: Session, user: str, policy: str) -> None:
    """Give a user the rights of a policy.  Raises `NotFound`."""
    session.call("PUT", _user(user, "policies", policy))


def detach_from_user(session: Session, user: str, policy: str) -> None:
    """Take the policy from a user; those of its groups stay."""
    session.call("DELETE", _user(user, "policies", policy))


def list_keys(session: Session, user: str) -> Iterator[Key]:
    """The access keys of a user."""
    return listed(session, Key, _user(user, "credentials"))


def create_key(session: Session, user: str, *, name: str = "") -> KeyWithSecret:
    """Give a user a further access key.  After `OutcomeUnknown`, delete the key that nobody has."""
    path = with_query(_user(user, "credentials"), name=name)
    return checked(KeyWithSecret, session.call("POST", path))


def delete_key(session: Session, user: str, key: str) -> None:
    """End an access key, and the sessions that began with it."""
    session.call("DELETE", _user(user, "credentials", key))


def _user(user: str, *rest: str) -> str:
    return below("auth", "users", user, *rest)


# ---- groups --------------------------------------------------------------------------------------


def list_groups(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[Group]:
    """The groups, sorted by id."""
    return listed(session, Group, "/auth/groups", prefix=prefix, after=after, amount=amount)


def get_group(session: Session, group: str) -> Group:
    """One group.  Raises `NotFound`."""
    return checked(Group, session.call("GET", _group(group)))


def create_group(session: Session, group: str, *, description: str = "") -> Group:
    """Create a group without members and policies.  Raises `Conflict` if the id is taken."""
    body = {"id": group, **({"description": description} if description else {})}
    return checked(Group, session.call("POST", "/auth/groups", body))


def delete_group(session: Session, group: str) -> None:
    """Delete a group; its members lose what it gave them."""
    session.call("DELETE", _group(group))


def list_members(session: Session, group: str) -> Iterator[str]:
    """The ids of the members."""
    return (user["id"] for user in listed(session, User, _group(group, "members")))


def add_member(session: Session, group: str, user: str) -> None:
    """Make a user a member.  Raises `NotFound`."""
    session.call("PUT", _group(group, "members", user))


def remove_member(session: Session, group: str, user: str) -> None:
    """End the membership of a user."""
    session.call("DELETE", _group(group, "members", user))


def group_policies(session: Session, group: str) -> Iterator[str]:
    """The ids of the policies of a group."""
    return (policy["id"] for policy in listed(session, Policy, _group(group, "policies")))


def attach_to_group(session: Session, group: str, policy: str) -> None:
    """Give the members of a group the rights of a policy.  Raises `NotFound`."""
    session.call("PUT", _group(group, "policies", policy))


def detach_from_group(session: Session, group: str, policy: str) -> None:
    """Take the policy from a group."""
    session.call("DELETE", _group(group, "policies", policy))


def _group(group: str, *rest: str) -> str:
    return below("auth", "groups", group, *rest)


# ---- policies ------------------------------------------------------------------------------------


def list_policies(
    session: Session, *, prefix: str = "", after: str = "", amount: int | None = None
) -> Iterator[Policy]:
    """The policies, sorted by id."""
    return listed(session, Policy, "/auth/policies", prefix=prefix, after=after, amount=amount)


def get_policy(session: Session, policy: str) -> Policy:
    """One policy.  Raises `NotFound`."""
    return _whole(session.call("GET", _policy(policy)))


def create_policy(session: Session, policy: str, statements: Sequence[Any]) -> Policy:
    """Create a policy; it has no effect until it is attached.  Raises `Conflict` if the id is
    taken, `Invalid` for statements that are none."""
    body = {"id": policy, "statement": list(statements)}
    return _whole(session.call("POST", "/auth/policies", body))


def replace_policy(session: Session, policy: str, statements: Sequence[Any]) -> Policy:
    """Replace the statements of a policy, for everybody who has it.  Raises `NotFound`."""
    body = {"id": policy, "statement": list(statements)}
    return _whole(session.call("PUT", _policy(policy), body))


def delete_policy(session: Session, policy: str) -> None:
    """Delete a policy, and detach it from everybody who has it."""
    session.call("DELETE", _policy(policy))


def _whole(answer: Any) -> Policy:
    return checked(Policy, having(answer, "statement"))


def _policy(policy: str) -> str:
    return below("auth", "policies", policy)


# ---- the audit trail -----------------------------------------------------------------------------


class AuditLine(TypedDict):
    """One change, or one denial.  `time` is in RFC 3339."""

    time: str
    user: str
    operation: str
    outcome: str
    request_id: NotRequired[str]
    uid: NotRequired[str]
    address: NotRequired[str]
    resources: NotRequired[list[str]]
    status: NotRequired[int]
    code: NotRequired[str]
    missing: NotRequired[str]
    unrecorded: NotRequired[int]
    left_out: NotRequired[int]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines.  Times are in RFC 3339.  Without `since`: those of the day before `until`.
    `resource`: the beginning of an ARN."""

    since: str = ""
    until: str = ""
    user: str = ""
    operation: str = ""
    outcome: str = ""
    resource: str = ""


def audit_lines(session: Session, which: AuditFilter) -> Iterator[AuditLine]:
    """The lines, oldest first.  Only Graveler has this call.  Raises `Unsupported` if the server
    keeps no trail."""
    return listed(session, AuditLine, with_query("/audit", **asdict(which)))


# ---- usage ---------------------------------------------------------------------------------------


class Month(TypedDict):
    """The requests of one month."""

    year: int
    month: int
    count: int


class Usage(TypedDict):
    """The requests that a deployment has answered, by month."""

    installation_id: str
    reports: list[Month]


def usage(session: Session) -> Usage:
    """The requests by month."""
    return checked(Usage, session.call("GET", "/usage-report/summary"))
