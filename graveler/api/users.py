"""Operations on users, their groups, policies and access keys."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from graveler.api import answers
from graveler.api.answers import MediaType, Page, Pairs, Shape
from graveler.api.operation import NOTHING, Body, Query, Resource
from graveler.api.shapes import Paging, seconds
from graveler.auth import access, credentials, directory, entities, permissions
from graveler.auth.directory import MEMBER, OF_USER
from graveler.auth.entities import USERS, Group, Keeper, Key, Policy, User
from graveler.auth.permissions import Permission
from graveler.auth.principals import Assignment
from graveler.core.errors import AlreadyExists, Conflict, NotFound, Unsupported
from graveler.core.records import ABSENT
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.service import Call

_auth: Final = Resource("auth")

# ---- shared with groups and policies -------------------------------------------------------------

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


def stored_statements(statements: Sequence[Statement]) -> list[Any]:
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


def paged(query: Paging, records: Iterable[T], shape: Callable[[T], Any]) -> Answer:
    """The first `query.count` of the records, in order, as a page."""
    items = list(islice(records, query.count + 1))
    shown, more = items[: query.count], len(items) > query.count
    last: Any = shown[-1] if shown else None
    return answers.page([shape(each) for each in shown], more, last.id if shown else "")


def selected(query: Paging, records: Iterable[Any]) -> list[Any]:
    """Those whose ids begin with the prefix and sort after `after`, by id."""
    after, prefix = query.after.encode(), query.prefix
    chosen = [each for each in records if each.id.startswith(prefix) and each.id.encode() > after]
    return sorted(chosen, key=lambda each: each.id.encode())


# ---- users ---------------------------------------------------------------------------------------

_USERS: Final = "/auth/users"
_USER: Final = _USERS + "/{userId}"
_KEYS: Final = _USER + "/credentials"
_KEY: Final = _KEYS + "/{accessKeyId}"
_POLICY: Final = _USER + "/policies/{policyId}"
USER_ARN: Final = permissions.resource("auth", "user/{userId}")
_READ: Final = (Permission("auth:ReadUser", USER_ARN),)


class UserCreation(Body, frozen=True):
    """A new user."""

    id: str
    invite_user: bool = False
    friendly_name: str = ""
    email: str = ""


class KeyCreation(Query, frozen=True):
    """What its owner calls a new access key."""

    name: str = ""


class PolicyPaging(Paging, frozen=True):
    """Which page of the policies.  `effective`: also those of the user's groups."""

    effective: bool = False


@_auth.get("listUsers", _USERS, UserList, ("auth:ListUsers", "*"))
def list_users(call: Call, query: Paging) -> Answer:
    """List users."""
    listing = entities.listed(call.ports.kv, USERS, query.prefix, query.after, query.count + 1)
    return paged(query, listing, user_shape)


@_auth.post(
    "createUser",
    _USERS,
    {201: UserShape},
    ("auth:CreateUser", permissions.resource("auth", "user/{id}")),
    errors=(AlreadyExists,),
)
def create_user(call: Call, body: UserCreation) -> Answer:
    """Create a user, without any right."""
    if body.invite_user:
        raise Unsupported("users cannot be invited: create them and give them keys")
    with changing(call) as keeper:
        user = directory.create_user(keeper, body.id, body.email, body.friendly_name)
    return answers.json(user_shape(user), 201)


@_auth.get("getUser", _USER, UserShape, *_READ, errors=(NotFound,), runs=Runs.POINT)
def get_user(call: Call) -> Answer:
    """Get a user."""
    return answers.json(user_shape(_user(call)))


@_auth.delete("deleteUser", _USER, NOTHING, ("auth:DeleteUser", USER_ARN), errors=(NotFound,))
def delete_user(call: Call) -> Answer:
    """Delete a user with its keys; a new user of that name has nothing of it."""
    with changing(call) as keeper:
        directory.delete_user(keeper, call.arguments["userId"])
    return NO_CONTENT


@_auth.post(
    "disableUser",
    _USER + "/disable",
    NOTHING,
    ("auth:DeleteUser", USER_ARN),
    errors=(NotFound, Conflict),
)
def disable_user(call: Call) -> Answer:
    """Refuse the keys, sessions and external principals of a user, which keeps them."""
    assert call.account is not ABSENT, "the operation needs credentials"
    with changing(call) as keeper:
        directory.disable_user(keeper, call.arguments["userId"], call.account.user)
    return NO_CONTENT


@_auth.post(
    "enableUser", _USER + "/enable", NOTHING, ("auth:DeleteUser", USER_ARN), errors=(NotFound,)
)
def enable_user(call: Call) -> Answer:
    """Accept the keys, sessions and external principals of a user again."""
    with changing(call) as keeper:
        directory.enable_user(keeper, call.arguments["userId"])
    return NO_CONTENT


@_auth.get("listUserGroups", _USER + "/groups", GroupList, *_READ, errors=(NotFound,))
def list_user_groups(call: Call, query: Paging) -> Answer:
    """List the groups of a user."""
    listing = directory.targets(call.ports.kv, MEMBER, _user(call))
    return paged(query, selected(query, listing), group_shape)


@_auth.get("listUserPolicies", _USER + "/policies", PolicyList, *_READ, errors=(NotFound,))
def list_user_policies(call: Call, query: PolicyPaging) -> Answer:
    """List the policies of a user; with `effective` also those of its groups."""
    kv, user = call.ports.kv, _user(call)
    listing = (
        access.effective(kv, user) if query.effective else directory.targets(kv, OF_USER, user)
    )
    return paged(query, selected(query, listing), policy_shape)


@_auth.put(
    "attachPolicyToUser",
    _POLICY,
    {201: MediaType.NOTHING},
    ("auth:AttachPolicy", USER_ARN),
    errors=(NotFound,),
)
def attach_policy_to_user(call: Call) -> Answer:
    """Attach a policy to a user."""
    with changing(call) as keeper:
        directory.add(keeper, OF_USER, call.arguments["userId"], call.arguments["policyId"])
    return Answer(201)


@_auth.delete(
    "detachPolicyFromUser", _POLICY, NOTHING, ("auth:DetachPolicy", USER_ARN), errors=(NotFound,)
)
def detach_policy_from_user(call: Call) -> Answer:
    """Detach a policy from a user."""
    with changing(call) as keeper:
        directory.remove(keeper, OF_USER, call.arguments["userId"], call.arguments["policyId"])
    return NO_CONTENT


@_auth.get(
    "listUserCredentials",
    _KEYS,
    KeyList,
    ("auth:ListCredentials", USER_ARN),
    errors=(NotFound,),
    runs=Runs.POINT,
)
def list_user_credentials(call: Call, query: Paging) -> Answer:
    """List the access keys of a user, without their secrets."""
    return paged(query, selected(query, _user(call).keys), key_shape)


@_auth.post(
    "createCredentials",
    _KEYS,
    {201: KeyWithSecret},
    ("auth:CreateCredentials", USER_ARN),
    errors=(NotFound,),
)
def create_credentials(call: Call, query: KeyCreation) -> Answer:
    """Give a user a further access key; the secret is shown once."""
    user = call.arguments["userId"]
    with changing(call, user) as keeper:
        new, key = credentials.create(keeper, user, query.name)
    created, name = seconds(key.created_ns), key.name or UNSET
    shape = KeyWithSecret(new.access_key_id, new.secret_access_key, created, name)
    return answers.json(shape, 201, NO_STORE)


@_auth.get(
    "getCredentials",
    _KEY,
    KeyShape,
    ("auth:ReadCredentials", USER_ARN),
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_credentials(call: Call) -> Answer:
    """Get an access key of a user, without its secret."""
    key = credentials.key_of(_user(call), call.arguments["accessKeyId"])
    return answers.json(key_shape(key))


@_auth.delete(
    "deleteCredentials", _KEY, NOTHING, ("auth:DeleteCredentials", USER_ARN), errors=(NotFound,)
)
def delete_credentials(call: Call) -> Answer:
    """End an access key of a user, and the sessions that began with it."""
    user = call.arguments["userId"]
    with changing(call, user) as keeper:
        credentials.delete(keeper, user, call.arguments["accessKeyId"])
    return NO_CONTENT


def _user(call: Call) -> entities.User:
    return entities.get(call.ports.kv, USERS, call.arguments["userId"])
