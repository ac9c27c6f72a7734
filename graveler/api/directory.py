"""What the operations on users, groups, policies and keys share: shapes, pages, and the rule that
this process forgets what it knows about callers when it changed something.

Other processes notice a change within `limits.access_seconds_max`.  Used by users.py, groups.py,
policies.py.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from graveler.api import answers
from graveler.api.answers import Answer, Page, Shape
from graveler.api.field_types import Pairs
from graveler.api.operation import Body
from graveler.api.queries import Paging
from graveler.api.service import Call
from graveler.api.shapes import seconds
from graveler.auth.entities import Group, Keeper, Key, Policy, User
from graveler.auth.principals import Assignment

NO_STORE: Final = ((b"cache-control", b"no-store"),)
T = TypeVar("T")


class UserShape(Shape, frozen=True, rename={}):
    """A user.  `disabled`: only if it is."""

    id: str
    creation_date: int
    friendly_name: str
    email: str
    disabled: bool | UnsetType = UNSET


class UserList(Page, frozen=True):
    """A page of users."""

    results: list[UserShape]


class GroupShape(Shape, frozen=True):
    """A group."""

    id: str
    name: str
    description: str
    creation_date: int


class GroupList(Page, frozen=True):
    """A page of groups."""

    results: list[GroupShape]


class Statement(Body, frozen=True, forbid_unknown_fields=True):
    """Allows or denies actions on resources, under a condition.  A misspelt condition is not one
    that holds always."""

    effect: Literal["allow", "deny"]
    resource: str
    action: list[str]
    condition: dict[str, dict[str, list[str]]] | None = None


class PolicyShape(Shape, frozen=True):
    """A policy."""

    id: str
    creation_date: int
    statement: list[Any]


class PolicyList(Page, frozen=True):
    """A page of policies."""

    results: list[PolicyShape]


class KeyShape(Shape, frozen=True):
    """An access key without its secret."""

    access_key_id: str
    creation_date: int
    name: str | UnsetType = UNSET


class KeyList(Page, frozen=True):
    """A page of access keys."""

    results: list[KeyShape]


class KeyWithSecret(Shape, frozen=True):
    """A new access key.  Its secret is shown once."""

    access_key_id: str
    secret_access_key: str
    creation_date: int
    name: str | UnsetType = UNSET


class PrincipalShape(Shape, frozen=True):
    """An external principal, and the user for whom it stands."""

    id: str
    user_id: str
    settings: list[Pairs]


class PrincipalList(Page, frozen=True):
    """A page of external principals."""

    results: list[PrincipalShape]


def principal_shape(mapped: Assignment) -> PrincipalShape:
    noted = [dict(each) for each in mapped.settings]
    return PrincipalShape(mapped.principal.id, mapped.user.id, noted)


def user_shape(user: User) -> UserShape:
    texts = (user.friendly_name, user.email)
    return UserShape(user.id, seconds(user.created_ns), *texts, user.disabled or UNSET)


def group_shape(group: Group) -> GroupShape:
    return GroupShape(group.id, group.id, group.description, seconds(group.created_ns))


def policy_shape(policy: Policy) -> PolicyShape:
    return PolicyShape(policy.id, seconds(policy.created_ns), policy.statement)


def key_shape(key: Key) -> KeyShape:
    return KeyShape(key.id, seconds(key.created_ns), key.name or UNSET)


def document(statements: Sequence[Statement]) -> list[Any]:
    """Statements as they are stored."""
    documents: list[Any] = msgspec.to_builtins(list(statements))
    for each in documents:
        if each["condition"] is None:
            del each["condition"]
    return documents


@contextmanager
def changing(call: Call, user: str = "") -> Iterator[Keeper]:
    """The keeper for a change.  Afterwards this process knows nothing about callers, or about
    `user` if only its own record changes; also if the change failed, because it may have been
    applied."""
    try:
        yield call.service.auth.keeper
    finally:
        call.service.auth.access.forget(user)


def page(query: Paging, records: Iterable[T], shape: Callable[[T], Any]) -> Answer:
    """The first `query.count` of the records, in order, as a page."""
    items = list(islice(records, query.count + 1))
    shown, more = items[: query.count], len(items) > query.count
    last: Any = shown[-1] if shown else None
    return answers.page([shape(each) for each in shown], more, last.id if shown else "")


def matching(query: Paging, records: Iterable[T]) -> list[T]:
    """Those whose ids begin with the prefix and sort after `after`, by id."""
    after, prefix = query.after.encode(), query.prefix
    named: list[tuple[bytes, Any]] = [(each.id.encode(), each) for each in _any(records)]
    return [
        each for id, each in sorted(named, key=_first) if id > after and each.id.startswith(prefix)
    ]


def _any(items: Iterable[Any]) -> Iterable[Any]:
    return items


def _first(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]
