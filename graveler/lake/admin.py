"""Users, groups, policies, keys, the audit trail and the usage of a server."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from graveler.client import admin
from graveler.client.admin import AuditFilter, AuditLine, KeyWithSecret, Usage
from graveler.client.session import Session
from graveler.lake import records
from graveler.lake.errors import Raising, creating
from graveler.lake.show import Listing


@dataclass(frozen=True)
class User:
    """A user."""

    id: str
    name: str = ""
    email: str = ""
    created: datetime | None = None
    disabled: bool = False


@dataclass(frozen=True)
class Group:
    """A group of users."""

    id: str
    description: str = ""
    created: datetime | None = None


@dataclass(frozen=True)
class Policy:
    """Rights under a name.  Those of a user may come without their statements."""

    id: str
    statements: tuple[Mapping[str, Any], ...] = ()
    created: datetime | None = None


@dataclass(frozen=True)
class Key:
    """An access key.  `secret`: only of a new one, and in no text."""

    id: str
    name: str = ""
    created: datetime | None = None
    secret: str = field(default="", repr=False)


class Admin(Raising):
    """Who may do what on a server.  Each call is one request, a list one for each 1,000."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # ---- users -------------------------------------------------------------------------------

    def users(self, prefix: str = "") -> Listing[User]:
        """The users, sorted by id."""

        def fetch() -> Iterator[User]:
            return map(_user, admin.list_users(self._session, prefix=prefix))

        return Listing(fetch, "users", ("id", "name"), lambda each: (each.id, each.name))

    def user(self, id: str) -> User:
        """One user.  Raises `NotFound`."""
        return _user(admin.get_user(self._session, id))

    def create_user(self, id: str, *, name: str = "", email: str = "") -> User:
        """A new user without keys and rights.  Raises `AlreadyExists`."""
        with creating():
            return _user(admin.create_user(self._session, id, name=name, email=email))

    def delete_user(self, id: str) -> None:
        """Delete a user with its keys."""
        admin.delete_user(self._session, id)

    def disable_user(self, id: str) -> None:
        """Refuse everything that a user sends, until `enable_user`."""
        admin.disable_user(self._session, id)

    def enable_user(self, id: str) -> None:
        """Accept a user again."""
        admin.enable_user(self._session, id)

    def keys(self, user: str) -> Listing[Key]:
        """The access keys of a user, without their secrets."""

        def fetch() -> Iterator[Key]:
            return map(_key, admin.list_keys(self._session, user))

        return Listing(fetch, f"keys of {user}", ("id", "name"), lambda each: (each.id, each.name))

    def create_key(self, user: str, name: str = "") -> Key:
        """A new access key, with its secret, which no later answer has."""
        return _key(admin.create_key(self._session, user, name=name))

    def delete_key(self, user: str, id: str) -> None:
        """End an access key and the sessions that began with it."""
        admin.delete_key(self._session, user, id)

    # ---- groups ------------------------------------------------------------------------------

    def groups(self, prefix: str = "") -> Listing[Group]:
        """The groups, sorted by id."""

        def fetch() -> Iterator[Group]:
            return map(_group, admin.list_groups(self._session, prefix=prefix))

        return Listing(fetch, "groups", ("id",), lambda each: (each.id,))

    def create_group(self, id: str, description: str = "") -> Group:
        """A new group.  Raises `AlreadyExists`."""
        with creating():
            return _group(admin.create_group(self._session, id, description=description))

    def delete_group(self, id: str) -> None:
        """Delete a group; its members lose what it gave them."""
        admin.delete_group(self._session, id)

    def members(self, group: str) -> Listing[str]:
        """The ids of the members."""
        return Listing(
            lambda: admin.list_members(self._session, group),
            f"members of {group}",
            ("id",),
            lambda each: (each,),
        )

    def add_member(self, group: str, user: str) -> None:
        """Make a user a member."""
        admin.add_member(self._session, group, user)

    def remove_member(self, group: str, user: str) -> None:
        """End a membership."""
        admin.remove_member(self._session, group, user)

    # ---- rights ------------------------------------------------------------------------------

    def policies(self, prefix: str = "") -> Listing[Policy]:
        """The policies, sorted by id."""

        def fetch() -> Iterator[Policy]:
            return map(_policy, admin.list_policies(self._session, prefix=prefix))

        return Listing(fetch, "policies", ("id",), lambda each: (each.id,))

    def policy(self, id: str) -> Policy:
        """One policy.  Raises `NotFound`."""
        return _policy(admin.get_policy(self._session, id))

    def create_policy(self, id: str, statements: Sequence[Mapping[str, Any]]) -> Policy:
        """A new policy; it has no effect until it is attached."""
        with creating():
            return _policy(admin.create_policy(self._session, id, statements))

    def replace_policy(self, id: str, statements: Sequence[Mapping[str, Any]]) -> Policy:
        """Other statements, for everybody who has it."""
        return _policy(admin.replace_policy(self._session, id, statements))

    def delete_policy(self, id: str) -> None:
        """Delete a policy, and detach it from everybody."""
        admin.delete_policy(self._session, id)

    def attach(self, policy: str, *, user: str = "", group: str = "") -> None:
        """Give a user or a group the rights of a policy."""
        if user:
            admin.attach_to_user(self._session, user, policy)
        if group:
            admin.attach_to_group(self._session, group, policy)

    def detach(self, policy: str, *, user: str = "", group: str = "") -> None:
        """Take them back."""
        if user:
            admin.detach_from_user(self._session, user, policy)
        if group:
            admin.detach_from_group(self._session, group, policy)

    def policies_of(self, user: str, *, effective: bool = False) -> Listing[Policy]:
        """The policies of a user.  `effective`: those of its groups too."""

        def fetch() -> Iterator[Policy]:
            return map(_policy, admin.user_policies(self._session, user, effective=effective))

        return Listing(fetch, f"policies of {user}", ("id",), lambda each: (each.id,))

    def may_i(self, action: str, resource: str) -> bool:
        """Whether the caller may do `action` (`fs:ReadObject`) on `resource`, an ARN."""
        return admin.may_i(self._session, action, resource)

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
        """The changes and denials, oldest first; without `since`, of the last day."""
        start, end = (
            "" if each is None else each.astimezone().isoformat() for each in (since, until)
        )
        which = AuditFilter(start, end, user, operation, outcome, resource)
        return Listing(
            lambda: admin.audit_lines(self._session, which),
            "audit trail",
            ("time", "user", "operation", "outcome"),
            lambda line: (line["time"], line["user"], line["operation"], line["outcome"]),
        )

    def usage(self) -> Usage:
        """How many requests the server has answered, by month."""
        return admin.usage(self._session)


def _user(answer: admin.User) -> User:
    return User(
        answer["id"],
        answer.get("friendly_name", ""),
        answer.get("email", ""),
        records.moment(answer.get("creation_date")),
        answer.get("disabled", False),
    )


def _group(answer: admin.Group) -> Group:
    created = records.moment(answer.get("creation_date"))
    return Group(answer["id"], answer.get("description", ""), created)


def _policy(answer: admin.Policy) -> Policy:
    created = records.moment(answer.get("creation_date"))
    return Policy(answer["id"], tuple(answer.get("statement", ())), created)


def _key(answer: admin.Key | KeyWithSecret) -> Key:
    secret = str(answer.get("secret_access_key", ""))
    created = records.moment(answer.get("creation_date"))
    return Key(answer["access_key_id"], answer.get("name", ""), created, secret)
