"""Users, groups, policies, keys, the audit trail and the usage of a server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NotRequired, TypedDict, TypeVar

from graveler.core.errors import Internal
from graveler.lake.answers import Record, moment, told
from graveler.lake.errors import Raising, creating, raising
from graveler.lake.session import (
    NOT_GRAVELER,
    Session,
    below,
    found,
    having,
    results_of,
    unauthenticated,
    with_query,
)
from graveler.lake.show import Listing

T = TypeVar("T")
_ANSWER_BYTES_MAX: Final = 1 << 16
_USERS, _GROUPS, _POLICIES = "/auth/users", "/auth/groups", "/auth/policies"


@dataclass(frozen=True)
class User(Record):
    """A user."""

    id: str
    name: str = ""
    email: str = ""
    created: datetime | None = None
    disabled: bool = False


@dataclass(frozen=True)
class Group(Record):
    """A group of users."""

    id: str
    description: str = ""
    created: datetime | None = None


@dataclass(frozen=True)
class Policy(Record):
    """Rights under a name.  Those of a user or a group may come without their statements."""

    id: str
    statements: tuple[Mapping[str, Any], ...] = ()
    created: datetime | None = None


@dataclass(frozen=True)
class Key(Record):
    """An access key.  `secret`: only of a new one, and in no text."""

    id: str
    name: str = ""
    created: datetime | None = None
    secret: str = field(default="", repr=False)


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


class Month(TypedDict):
    """The requests of one month."""

    year: int
    month: int
    count: int


class Usage(TypedDict):
    """The requests that a deployment has answered, by month."""

    installation_id: str
    reports: list[Month]


class Admin(Raising):
    """Who may do what on a server.  Each call is one request, a list one for each 1,000.

    `after`, `limit`: only what follows this id, and so many."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _list(self, make: Callable[[Any], T], path: str, title: str, **how: Any) -> Listing[T]:
        how["amount"] = how.pop("limit", None)

        def fetch() -> Iterator[T]:
            return map(make, found(self._session, path, **how))

        names = ("id", "name") if make in (_user, _key) else ("id",)
        return Listing(
            fetch, title, names, lambda each: [getattr(each, name, each) for name in names]
        )

    def __repr__(self) -> str:
        return repr(self.users())

    def _repr_html_(self) -> str:
        return self.users()._repr_html_()

    # ---- users -------------------------------------------------------------------------------

    def me(self) -> User:
        """The caller.  Raises `Unauthenticated`."""
        return _user(having(self._session.call("GET", "/user"), "user")["user"])

    def users(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> Listing[User]:
        """The users, sorted by id."""
        return self._list(_user, _USERS, "users", prefix=prefix, after=after, limit=limit)

    def user(self, id: str) -> User:
        """One user.  Raises `NotFound`."""
        return _user(self._session.call("GET", _USERS + below(id)))

    def create_user(self, id: str, *, name: str = "", email: str = "") -> User:
        """A new user without keys and rights.  Raises `AlreadyExists`."""
        extra = {"friendly_name": name, "email": email}
        body = {"id": id, **{field: value for field, value in extra.items() if value}}
        with creating("user", id):
            return _user(self._session.call("POST", _USERS, body))

    def delete_user(self, id: str) -> None:
        """Delete a user with its keys."""
        self._session.call("DELETE", _USERS + below(id))

    def disable_user(self, id: str) -> None:
        """Refuse everything that a user sends, until `enable_user`.  Raises `Conflict` for the
        caller itself and for the last administrator."""
        self._session.call("POST", _USERS + below(id, "disable"))

    def enable_user(self, id: str) -> None:
        """Accept a user again."""
        self._session.call("POST", _USERS + below(id, "enable"))

    def keys(self, user: str) -> Listing[Key]:
        """The access keys of a user, without their secrets."""
        return self._list(_key, _USERS + below(user, "credentials"), f"keys of {user}")

    def create_key(self, user: str, name: str = "") -> Key:
        """A new access key, with its secret, which no later answer has.  After `OutcomeUnknown`,
        delete the key that nobody has."""
        path = with_query(_USERS + below(user, "credentials"), name=name)
        return _key(having(self._session.call("POST", path), "secret_access_key"))

    def delete_key(self, user: str, id: str) -> None:
        """End an access key and the sessions that began with it."""
        self._session.call("DELETE", _USERS + below(user, "credentials", id))

    def principals(self, user: str) -> Listing[str]:
        """The external principals that stand for a user, such as the ARNs of roles of AWS."""
        path = _USERS + below(user, "external", "principals", "ls")
        return self._list(_id, path, f"external principals of {user}")

    def user_of_principal(self, principal: str) -> str:
        """The id of the user for whom an external principal stands.  Raises `NotFound`."""
        path = with_query("/auth/external/principals", principalId=principal)
        return str(having(self._session.call("GET", path), "user_id")["user_id"])

    def add_principal(self, user: str, principal: str) -> None:
        """Let an external principal log in as a user.  Raises `AlreadyExists`."""
        path = with_query(_USERS + below(user, "external", "principals"), principalId=principal)
        with creating("external principal", principal):
            self._session.call("POST", path, {})

    def remove_principal(self, user: str, principal: str) -> None:
        """End that, and the sessions that began with it."""
        path = with_query(_USERS + below(user, "external", "principals"), principalId=principal)
        self._session.call("DELETE", path)

    # ---- groups ------------------------------------------------------------------------------

    def groups(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> Listing[Group]:
        """The groups, sorted by id."""
        return self._list(_group, _GROUPS, "groups", prefix=prefix, after=after, limit=limit)

    def group(self, id: str) -> Group:
        """One group.  Raises `NotFound`."""
        return _group(self._session.call("GET", _GROUPS + below(id)))

    def groups_of(self, user: str) -> Listing[str]:
        """The ids of the groups of a user."""
        return self._list(_id, _USERS + below(user, "groups"), f"groups of {user}")

    def create_group(self, id: str, description: str = "") -> Group:
        """A new group without members and rights.  Raises `AlreadyExists`."""
        body = {"id": id, **({"description": description} if description else {})}
        with creating("group", id):
            return _group(self._session.call("POST", _GROUPS, body))

    def delete_group(self, id: str) -> None:
        """Delete a group; its members lose what it gave them."""
        self._session.call("DELETE", _GROUPS + below(id))

    def members(self, group: str) -> Listing[str]:
        """The ids of the members."""
        return self._list(_id, _GROUPS + below(group, "members"), f"members of {group}")

    def add_member(self, group: str, user: str) -> None:
        """Make a user a member."""
        self._session.call("PUT", _GROUPS + below(group, "members", user))

    def remove_member(self, group: str, user: str) -> None:
        """End a membership."""
        self._session.call("DELETE", _GROUPS + below(group, "members", user))

    # ---- rights ------------------------------------------------------------------------------

    def policies(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> Listing[Policy]:
        """The policies, sorted by id."""
        return self._list(_policy, _POLICIES, "policies", prefix=prefix, after=after, limit=limit)

    def policy(self, id: str) -> Policy:
        """One policy.  Raises `NotFound`."""
        return _policy(having(self._session.call("GET", _POLICIES + below(id)), "statement"))

    def create_policy(self, id: str, statements: Sequence[Mapping[str, Any]]) -> Policy:
        """A new policy; it has no effect until it is attached.  Raises `AlreadyExists`, `Invalid`
        for statements that are none."""
        body = {"id": id, "statement": list(statements)}
        with creating("policy", id):
            return _policy(having(self._session.call("POST", _POLICIES, body), "statement"))

    def replace_policy(self, id: str, statements: Sequence[Mapping[str, Any]]) -> Policy:
        """Other statements, for everybody who has it."""
        body = {"id": id, "statement": list(statements)}
        return _policy(having(self._session.call("PUT", _POLICIES + below(id), body), "statement"))

    def delete_policy(self, id: str) -> None:
        """Delete a policy, and detach it from everybody."""
        self._session.call("DELETE", _POLICIES + below(id))

    def attach(self, policy: str, *, user: str = "", group: str = "") -> None:
        """Give a user or a group the rights of a policy."""
        self._attached("PUT", policy, user, group)

    def detach(self, policy: str, *, user: str = "", group: str = "") -> None:
        """Take them back; what a user has by its groups stays."""
        self._attached("DELETE", policy, user, group)

    def _attached(self, method: str, policy: str, user: str, group: str) -> None:
        for kind, id in ((_USERS, user), (_GROUPS, group)):
            if id:
                self._session.call(method, kind + below(id, "policies", policy))

    def policies_of(
        self, user: str = "", *, group: str = "", effective: bool = False
    ) -> Listing[Policy]:
        """The policies of a user or a group.  `effective`: those of the user's groups too."""
        where = _USERS + below(user, "policies") if user else _GROUPS + below(group, "policies")
        path = with_query(where, effective=effective)
        return self._list(_policy, path, f"policies of {user or group}")

    def may_i(self, action: str, resource: str) -> bool:
        """Whether the caller may do `action` (`fs:ReadObject`) on `resource`, an ARN.  Raises
        `Invalid` for an action that does not exist."""
        body = {"pairs": [{"action": action, "resource": resource}]}
        rights = results_of(self._session.call("POST", "/auth/may-i", body))
        if len(rights) != 1:
            raise Internal(NOT_GRAVELER)
        return bool(having(rights[0], "allowed")["allowed"])

    # ---- what happened -----------------------------------------------------------------------

    def audit(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: str = "",
        operation: str = "",
        outcome: str = "",
        resource: str = "",
    ) -> Listing[AuditLine]:
        """The changes and denials, oldest first; without `since`, of the day before `until`.
        `resource`: the beginning of an ARN.  Raises `Unsupported` if the server keeps no trail."""
        path = with_query(
            "/audit",
            since="" if since is None else since.astimezone().isoformat(),
            until="" if until is None else until.astimezone().isoformat(),
            user=user,
            operation=operation,
            outcome=outcome,
            resource=resource,
        )
        names = ("time", "user", "operation", "outcome")

        def fetch() -> Iterator[Any]:
            return found(self._session, path, *names)

        return Listing(fetch, "audit trail", names, lambda line: [line[name] for name in names])

    def usage(self) -> Usage:
        """How many requests the server has answered, by month."""
        answer: Any = self._session.call("GET", "/usage-report/summary")
        having(answer, "installation_id", "reports")
        usage: Usage = answer
        return usage


# ---- a server that nobody has signed in to -------------------------------------------------------


@raising
def check_reachable(url: str) -> None:
    """Ask whether a server answers at a URL, whatever it answers.  One request without credentials.
    Raises `Invalid`, `Unavailable`."""
    with unauthenticated(url).open("GET", "/healthcheck") as response:
        response.read_all(_ANSWER_BYTES_MAX)


@raising
def is_set_up(url: str) -> bool:
    """Whether the server has an administrator.  One request without credentials."""
    answer = unauthenticated(url).call("GET", "/setup_lakefs")
    return bool(having(answer, "state")["state"] == "initialized")


@raising
def set_up(url: str, token: str, user: str = "admin") -> Key:
    """Create the administrator of a server that has none.  `token`: `graveler serve` prints it.

    `AlreadyExists`: it has one.  `Refused`: the token is another.  After `OutcomeUnknown` nobody
    may know the secret: `graveler credentials reset` makes a new one."""
    headers = {"X-Graveler-Setup-Token": token}
    with creating("user", user):
        answer = unauthenticated(url).call("POST", "/setup_lakefs", {"username": user}, headers)
    return _key(having(answer, "secret_access_key"))


def _id(answer: Any) -> str:
    return str(having(answer, "id")["id"])


def _user(answer: Any) -> User:
    having(answer, "id")
    name, email = answer.get("friendly_name", ""), answer.get("email", "")
    created = moment(answer.get("creation_date"))
    return told(User(answer["id"], name, email, created, answer.get("disabled", False)), answer)


def _group(answer: Any) -> Group:
    having(answer, "id")
    created = moment(answer.get("creation_date"))
    return told(Group(answer["id"], answer.get("description", ""), created), answer)


def _policy(answer: Any) -> Policy:
    having(answer, "id")
    created = moment(answer.get("creation_date"))
    return told(Policy(answer["id"], tuple(answer.get("statement", ())), created), answer)


def _key(answer: Any) -> Key:
    having(answer, "access_key_id")
    secret = str(answer.get("secret_access_key", ""))
    created = moment(answer.get("creation_date"))
    return told(Key(answer["access_key_id"], answer.get("name", ""), created, secret), answer)
