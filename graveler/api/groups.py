"""Operations on groups and on policies."""

from typing import Annotated, Any, Final

from msgspec import Meta

from graveler.api import answers, users
from graveler.api.answers import MediaType, Shape
from graveler.api.operation import NOTHING, Body, Resource
from graveler.api.shapes import Paging
from graveler.api.users import (
    GroupList,
    GroupShape,
    PolicyList,
    PolicyShape,
    Statement,
    UserList,
    changing,
    selected,
)
from graveler.auth import directory, entities, permissions
from graveler.auth.directory import MEMBER, OF_GROUP
from graveler.auth.directory import delete_policy as delete
from graveler.auth.entities import GROUPS, POLICIES
from graveler.auth.permissions import ACTIONS, Permission
from graveler.core import limits
from graveler.core.errors import AlreadyExists, Invalid, NotFound
from graveler.core.records import ABSENT
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.service import Call

_auth: Final = Resource("auth")
_graveler: Final = Resource("graveler")

# ---- groups --------------------------------------------------------------------------------------

_GROUPS: Final = "/auth/groups"
_GROUP: Final = _GROUPS + "/{groupId}"
_MEMBER: Final = _GROUP + "/members/{userId}"
_GROUP_POLICY: Final = _GROUP + "/policies/{policyId}"
_GROUP_ARN: Final = permissions.resource("auth", "group/{groupId}")
_READ: Final = (Permission("auth:ReadGroup", _GROUP_ARN),)


class GroupCreation(Body, frozen=True):
    """A new group."""

    id: str
    description: str = ""


@_auth.get("listGroups", _GROUPS, GroupList, ("auth:ListGroups", "*"))
def list_groups(call: Call, query: Paging) -> Answer:
    """List groups."""
    listing = entities.listed(call.ports.kv, GROUPS, query.prefix, query.after, query.count + 1)
    return users.paged(query, listing, users.group_shape)


@_auth.post(
    "createGroup",
    _GROUPS,
    {201: GroupShape},
    ("auth:CreateGroup", permissions.resource("auth", "group/{id}")),
    errors=(AlreadyExists,),
)
def create_group(call: Call, body: GroupCreation) -> Answer:
    """Create a group, without members and policies."""
    with changing(call) as keeper:
        group = directory.create_group(keeper, body.id, body.description)
    return answers.json(users.group_shape(group), 201)


@_auth.get("getGroup", _GROUP, GroupShape, *_READ, errors=(NotFound,), runs=Runs.POINT)
def get_group(call: Call) -> Answer:
    """Get a group."""
    return answers.json(users.group_shape(_group(call)))


@_auth.delete("deleteGroup", _GROUP, NOTHING, ("auth:DeleteGroup", _GROUP_ARN), errors=(NotFound,))
def delete_group(call: Call) -> Answer:
    """Delete a group; its members lose what it gave them."""
    with changing(call) as keeper:
        directory.delete_group(keeper, call.arguments["groupId"])
    return NO_CONTENT


@_auth.get("listGroupMembers", _GROUP + "/members", UserList, *_READ, errors=(NotFound,))
def list_group_members(call: Call, query: Paging) -> Answer:
    """List the members of a group."""
    listing = directory.members(
        call.ports.kv, call.arguments["groupId"], query.prefix, query.after, query.count + 1
    )
    return users.paged(query, listing, users.user_shape)


@_auth.put(
    "addGroupMembership",
    _MEMBER,
    {201: MediaType.NOTHING},
    ("auth:AddGroupMember", _GROUP_ARN),
    errors=(NotFound,),
)
def add_group_membership(call: Call) -> Answer:
    """Make a user a member of a group."""
    with changing(call) as keeper:
        directory.add(keeper, MEMBER, call.arguments["userId"], call.arguments["groupId"])
    return Answer(201)


@_auth.delete(
    "deleteGroupMembership",
    _MEMBER,
    NOTHING,
    ("auth:RemoveGroupMember", _GROUP_ARN),
    errors=(NotFound,),
)
def delete_group_membership(call: Call) -> Answer:
    """End the membership of a user in a group."""
    with changing(call) as keeper:
        directory.remove(keeper, MEMBER, call.arguments["userId"], call.arguments["groupId"])
    return NO_CONTENT


@_auth.get("listGroupPolicies", _GROUP + "/policies", PolicyList, *_READ, errors=(NotFound,))
def list_group_policies(call: Call, query: Paging) -> Answer:
    """List the policies of a group."""
    listing = directory.targets(call.ports.kv, OF_GROUP, _group(call))
    return users.paged(query, selected(query, listing), users.policy_shape)


@_auth.put(
    "attachPolicyToGroup",
    _GROUP_POLICY,
    {201: MediaType.NOTHING},
    ("auth:AttachPolicy", _GROUP_ARN),
    errors=(NotFound,),
)
def attach_policy_to_group(call: Call) -> Answer:
    """Attach a policy to a group."""
    with changing(call) as keeper:
        directory.add(keeper, OF_GROUP, call.arguments["groupId"], call.arguments["policyId"])
    return Answer(201)


@_auth.delete(
    "detachPolicyFromGroup",
    _GROUP_POLICY,
    NOTHING,
    ("auth:DetachPolicy", _GROUP_ARN),
    errors=(NotFound,),
)
def detach_policy_from_group(call: Call) -> Answer:
    """Detach a policy from a group."""
    with changing(call) as keeper:
        directory.remove(keeper, OF_GROUP, call.arguments["groupId"], call.arguments["policyId"])
    return NO_CONTENT


def _group(call: Call) -> entities.Group:
    return entities.get(call.ports.kv, GROUPS, call.arguments["groupId"])


# ---- policies ------------------------------------------------------------------------------------

_POLICIES: Final = "/auth/policies"
_POLICY: Final = _POLICIES + "/{policyId}"
_POLICY_ARN: Final = permissions.resource("auth", "policy/{policyId}")


class Policy(Body, frozen=True):
    """A policy.  Clients may send the creation date that they have read; it is not used."""

    id: str
    statement: Annotated[list[Statement], Meta(min_length=1)]
    creation_date: int | None = None


class Question(Body, frozen=True):
    """An action on a resource; or, with `some`, on anything whose name begins with it."""

    action: str
    resource: Annotated[str, Meta(max_length=limits.address_length_bytes_max)]
    some: bool = False


class Questions(Body, frozen=True):
    """What the caller wants to know."""

    pairs: Annotated[list[Question], Meta(min_length=1, max_length=limits.access_pairs_count_max)]


class Right(Shape, frozen=True):
    """Whether an action on a resource is allowed."""

    action: str
    resource: str
    allowed: bool


class RightList(Shape, frozen=True):
    """The answers, in the order of the questions."""

    results: list[Right]


@_auth.get("listPolicies", _POLICIES, PolicyList, ("auth:ListPolicies", "*"))
def list_policies(call: Call, query: Paging) -> Answer:
    """List policies."""
    listing = entities.listed(call.ports.kv, POLICIES, query.prefix, query.after, query.count + 1)
    return users.paged(query, listing, users.policy_shape)


@_auth.post(
    "createPolicy",
    _POLICIES,
    {201: PolicyShape},
    ("auth:CreatePolicy", permissions.resource("auth", "policy/{id}")),
    errors=(AlreadyExists,),
)
def create_policy(call: Call, body: Policy) -> Answer:
    """Create a policy; it has no effect until it is attached."""
    with changing(call) as keeper:
        policy = directory.create_policy(keeper, body.id, users.stored_statements(body.statement))
    return answers.json(users.policy_shape(policy), 201)


@_auth.get(
    "getPolicy",
    _POLICY,
    PolicyShape,
    ("auth:ReadPolicy", _POLICY_ARN),
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_policy(call: Call) -> Answer:
    """Get a policy."""
    policy = entities.get(call.ports.kv, POLICIES, call.arguments["policyId"])
    return answers.json(users.policy_shape(policy))


@_auth.put(
    "updatePolicy", _POLICY, PolicyShape, ("auth:UpdatePolicy", _POLICY_ARN), errors=(NotFound,)
)
def update_policy(call: Call, body: Policy) -> Answer:
    """Replace the statements of a policy, for everybody who has it."""
    id = call.arguments["policyId"]
    if body.id != id:
        raise Invalid(f"policy id cannot change: path={id!r} body={body.id[:100]!r}")
    with changing(call) as keeper:
        policy = directory.update_policy(keeper, id, users.stored_statements(body.statement))
    return answers.json(users.policy_shape(policy))


@_auth.delete(
    "deletePolicy", _POLICY, NOTHING, ("auth:DeletePolicy", _POLICY_ARN), errors=(NotFound,)
)
def delete_policy(call: Call) -> Answer:
    """Delete a policy, and detach it from everybody who has it."""
    with changing(call) as keeper:
        delete(keeper, call.arguments["policyId"])
    return NO_CONTENT


@_graveler.post("mayI", "/auth/may-i", RightList)
def may_i(call: Call, body: Questions) -> Answer:
    """Which of up to 50 actions the caller may do."""
    caller: Any = call.account
    assert caller is not ABSENT
    for pair in body.pairs:
        if pair.action not in ACTIONS:
            raise Invalid(f"no such action: action={pair.action[:100]!r}")
    rights = []
    for pair in body.pairs:
        needed = Permission(pair.action, pair.resource)
        allowed = caller.may_some(needed) if pair.some else not caller.lacks([needed])
        rights.append(Right(pair.action, pair.resource, allowed))
    return answers.json(RightList(rights))
