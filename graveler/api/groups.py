"""Operations on groups, their members and their policies."""

from typing import Final

from graveler.api import answers, directory
from graveler.api.answers import NO_CONTENT, Answer, Content
from graveler.api.directory import GroupList, GroupShape, PolicyList, UserList, changing, matching
from graveler.api.operation import Body, Runs, operation
from graveler.api.queries import Paging
from graveler.api.service import Call
from graveler.auth import directory as records
from graveler.auth import entities, permissions
from graveler.auth.directory import MEMBER, OF_GROUP
from graveler.auth.entities import GROUPS
from graveler.auth.permissions import Permission
from graveler.errors import AlreadyExists, NotFound

_GROUPS: Final = "/auth/groups"
_GROUP: Final = _GROUPS + "/{groupId}"
_MEMBER: Final = _GROUP + "/members/{userId}"
_POLICY: Final = _GROUP + "/policies/{policyId}"
_ARN: Final = permissions.resource("auth", "group/{groupId}")
_READ: Final = (Permission("auth:ReadGroup", _ARN),)


class GroupCreation(Body, frozen=True):
    """A new group."""

    id: str
    description: str = ""


@operation(
    "listGroups",
    "GET",
    _GROUPS,
    tag="auth",
    permissions=(Permission("auth:ListGroups", "*"),),
    answers={200: GroupList},
)
def list_groups(call: Call, query: Paging) -> Answer:
    """List groups."""
    listing = entities.listed(call.ports.kv, GROUPS, query.prefix, query.after, query.count + 1)
    return directory.page(query, listing, directory.group_shape)


@operation(
    "createGroup",
    "POST",
    _GROUPS,
    tag="auth",
    permissions=(Permission("auth:CreateGroup", permissions.resource("auth", "group/{id}")),),
    answers={201: GroupShape},
    errors=(AlreadyExists,),
    runs=Runs.POOL,
)
def create_group(call: Call, body: GroupCreation) -> Answer:
    """Create a group, without members and policies."""
    with changing(call) as keeper:
        group = records.create_group(keeper, body.id, body.description)
    return answers.json(directory.group_shape(group), 201)


@operation(
    "getGroup",
    "GET",
    _GROUP,
    tag="auth",
    permissions=_READ,
    answers={200: GroupShape},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_group(call: Call) -> Answer:
    """Get a group."""
    return answers.json(directory.group_shape(_group(call)))


@operation(
    "deleteGroup",
    "DELETE",
    _GROUP,
    tag="auth",
    permissions=(Permission("auth:DeleteGroup", _ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def delete_group(call: Call) -> Answer:
    """Delete a group; its members lose what it gave them."""
    with changing(call) as keeper:
        records.delete_group(keeper, call.arguments["groupId"])
    return NO_CONTENT


@operation(
    "listGroupMembers",
    "GET",
    _GROUP + "/members",
    tag="auth",
    permissions=_READ,
    answers={200: UserList},
    errors=(NotFound,),
)
def list_group_members(call: Call, query: Paging) -> Answer:
    """List the members of a group."""
    listing = records.members(
        call.ports.kv, call.arguments["groupId"], query.prefix, query.after, query.count + 1
    )
    return directory.page(query, listing, directory.user_shape)


@operation(
    "addGroupMembership",
    "PUT",
    _MEMBER,
    tag="auth",
    permissions=(Permission("auth:AddGroupMember", _ARN),),
    answers={201: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def add_group_membership(call: Call) -> Answer:
    """Make a user a member of a group."""
    with changing(call) as keeper:
        records.add(keeper, MEMBER, call.arguments["userId"], call.arguments["groupId"])
    return Answer(201)


@operation(
    "deleteGroupMembership",
    "DELETE",
    _MEMBER,
    tag="auth",
    permissions=(Permission("auth:RemoveGroupMember", _ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def delete_group_membership(call: Call) -> Answer:
    """End the membership of a user in a group."""
    with changing(call) as keeper:
        records.remove(keeper, MEMBER, call.arguments["userId"], call.arguments["groupId"])
    return NO_CONTENT


@operation(
    "listGroupPolicies",
    "GET",
    _GROUP + "/policies",
    tag="auth",
    permissions=_READ,
    answers={200: PolicyList},
    errors=(NotFound,),
)
def list_group_policies(call: Call, query: Paging) -> Answer:
    """List the policies of a group."""
    listing = records.targets(call.ports.kv, OF_GROUP, _group(call))
    return directory.page(query, matching(query, listing), directory.policy_shape)


@operation(
    "attachPolicyToGroup",
    "PUT",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:AttachPolicy", _ARN),),
    answers={201: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def attach_policy_to_group(call: Call) -> Answer:
    """Attach a policy to a group."""
    with changing(call) as keeper:
        records.add(keeper, OF_GROUP, call.arguments["groupId"], call.arguments["policyId"])
    return Answer(201)


@operation(
    "detachPolicyFromGroup",
    "DELETE",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:DetachPolicy", _ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def detach_policy_from_group(call: Call) -> Answer:
    """Detach a policy from a group."""
    with changing(call) as keeper:
        records.remove(keeper, OF_GROUP, call.arguments["groupId"], call.arguments["policyId"])
    return NO_CONTENT


def _group(call: Call) -> entities.Group:
    return entities.get(call.ports.kv, GROUPS, call.arguments["groupId"])
