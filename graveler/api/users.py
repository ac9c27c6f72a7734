"""Operations on users, their groups, policies and access keys."""

from typing import Final

from msgspec import UNSET

from graveler.api import answers, directory
from graveler.api.answers import NO_CONTENT, Answer, Content
from graveler.api.directory import (
    NO_STORE,
    GroupList,
    KeyList,
    KeyShape,
    KeyWithSecret,
    PolicyList,
    UserList,
    UserShape,
    changing,
    matching,
)
from graveler.api.operation import Body, Query, Runs, operation
from graveler.api.queries import Paging
from graveler.api.service import Call
from graveler.api.shapes import seconds
from graveler.auth import access, credentials, entities, permissions
from graveler.auth import directory as records
from graveler.auth.directory import MEMBER, OF_USER
from graveler.auth.entities import USERS
from graveler.auth.permissions import Permission
from graveler.errors import AlreadyExists, Conflict, NotFound, Unsupported
from graveler.records import ABSENT

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


@operation(
    "listUsers",
    "GET",
    _USERS,
    tag="auth",
    permissions=(Permission("auth:ListUsers", "*"),),
    answers={200: UserList},
)
def list_users(call: Call, query: Paging) -> Answer:
    """List users."""
    listing = entities.listed(call.ports.kv, USERS, query.prefix, query.after, query.count + 1)
    return directory.page(query, listing, directory.user_shape)


@operation(
    "createUser",
    "POST",
    _USERS,
    tag="auth",
    permissions=(Permission("auth:CreateUser", permissions.resource("auth", "user/{id}")),),
    answers={201: UserShape},
    errors=(AlreadyExists,),
    runs=Runs.POOL,
)
def create_user(call: Call, body: UserCreation) -> Answer:
    """Create a user, without any right."""
    if body.invite_user:
        raise Unsupported("users cannot be invited: create them and give them keys")
    with changing(call) as keeper:
        user = records.create_user(keeper, body.id, body.email, body.friendly_name)
    return answers.json(directory.user_shape(user), 201)


@operation(
    "getUser",
    "GET",
    _USER,
    tag="auth",
    permissions=_READ,
    answers={200: UserShape},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_user(call: Call) -> Answer:
    """Get a user."""
    return answers.json(directory.user_shape(_user(call)))


@operation(
    "deleteUser",
    "DELETE",
    _USER,
    tag="auth",
    permissions=(Permission("auth:DeleteUser", USER_ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def delete_user(call: Call) -> Answer:
    """Delete a user with its keys; a new user of that name has nothing of it."""
    with changing(call) as keeper:
        records.delete_user(keeper, call.arguments["userId"])
    return NO_CONTENT


@operation(
    "disableUser",
    "POST",
    _USER + "/disable",
    tag="auth",
    permissions=(Permission("auth:DeleteUser", USER_ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound, Conflict),
    runs=Runs.POOL,
)
def disable_user(call: Call) -> Answer:
    """Refuse the keys, sessions and external principals of a user, which keeps them."""
    assert call.account is not ABSENT, "the operation needs credentials"
    with changing(call) as keeper:
        records.disable_user(keeper, call.arguments["userId"], call.account.user)
    return NO_CONTENT


@operation(
    "enableUser",
    "POST",
    _USER + "/enable",
    tag="auth",
    permissions=(Permission("auth:DeleteUser", USER_ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def enable_user(call: Call) -> Answer:
    """Accept the keys, sessions and external principals of a user again."""
    with changing(call) as keeper:
        records.enable_user(keeper, call.arguments["userId"])
    return NO_CONTENT


@operation(
    "listUserGroups",
    "GET",
    _USER + "/groups",
    tag="auth",
    permissions=_READ,
    answers={200: GroupList},
    errors=(NotFound,),
)
def list_user_groups(call: Call, query: Paging) -> Answer:
    """List the groups of a user."""
    listing = records.targets(call.ports.kv, MEMBER, _user(call))
    return directory.page(query, matching(query, listing), directory.group_shape)


@operation(
    "listUserPolicies",
    "GET",
    _USER + "/policies",
    tag="auth",
    permissions=_READ,
    answers={200: PolicyList},
    errors=(NotFound,),
)
def list_user_policies(call: Call, query: PolicyPaging) -> Answer:
    """List the policies of a user; with `effective` also those of its groups."""
    kv, user = call.ports.kv, _user(call)
    listing = access.effective(kv, user) if query.effective else records.targets(kv, OF_USER, user)
    return directory.page(query, matching(query, listing), directory.policy_shape)


@operation(
    "attachPolicyToUser",
    "PUT",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:AttachPolicy", USER_ARN),),
    answers={201: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def attach_policy_to_user(call: Call) -> Answer:
    """Attach a policy to a user."""
    with changing(call) as keeper:
        records.add(keeper, OF_USER, call.arguments["userId"], call.arguments["policyId"])
    return Answer(201)


@operation(
    "detachPolicyFromUser",
    "DELETE",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:DetachPolicy", USER_ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def detach_policy_from_user(call: Call) -> Answer:
    """Detach a policy from a user."""
    with changing(call) as keeper:
        records.remove(keeper, OF_USER, call.arguments["userId"], call.arguments["policyId"])
    return NO_CONTENT


@operation(
    "listUserCredentials",
    "GET",
    _KEYS,
    tag="auth",
    permissions=(Permission("auth:ListCredentials", USER_ARN),),
    answers={200: KeyList},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def list_user_credentials(call: Call, query: Paging) -> Answer:
    """List the access keys of a user, without their secrets."""
    return directory.page(query, matching(query, _user(call).keys), directory.key_shape)


@operation(
    "createCredentials",
    "POST",
    _KEYS,
    tag="auth",
    permissions=(Permission("auth:CreateCredentials", USER_ARN),),
    answers={201: KeyWithSecret},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def create_credentials(call: Call, query: KeyCreation) -> Answer:
    """Give a user a further access key; the secret is shown once."""
    user = call.arguments["userId"]
    with changing(call, user) as keeper:
        new, key = credentials.create(keeper, user, query.name)
    created, name = seconds(key.created_ns), key.name or UNSET
    shape = KeyWithSecret(new.access_key_id, new.secret_access_key, created, name)
    return answers.json(shape, 201, NO_STORE)


@operation(
    "getCredentials",
    "GET",
    _KEY,
    tag="auth",
    permissions=(Permission("auth:ReadCredentials", USER_ARN),),
    answers={200: KeyShape},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_credentials(call: Call) -> Answer:
    """Get an access key of a user, without its secret."""
    key = credentials.key_of(_user(call), call.arguments["accessKeyId"])
    return answers.json(directory.key_shape(key))


@operation(
    "deleteCredentials",
    "DELETE",
    _KEY,
    tag="auth",
    permissions=(Permission("auth:DeleteCredentials", USER_ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def delete_credentials(call: Call) -> Answer:
    """End an access key of a user, and the sessions that began with it."""
    user = call.arguments["userId"]
    with changing(call, user) as keeper:
        credentials.delete(keeper, user, call.arguments["accessKeyId"])
    return NO_CONTENT


def _user(call: Call) -> entities.User:
    return entities.get(call.ports.kv, USERS, call.arguments["userId"])
