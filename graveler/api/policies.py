"""Operations on policies, and the question what the caller may do."""

from typing import Annotated, Any, Final

from msgspec import Meta

from graveler import limits
from graveler.api import answers, directory
from graveler.api.answers import NO_CONTENT, Answer, Content, Shape
from graveler.api.directory import PolicyList, PolicyShape, Statement, changing
from graveler.api.operation import Body, Runs, operation
from graveler.api.queries import Paging
from graveler.api.service import Call
from graveler.auth import directory as records
from graveler.auth import entities, permissions
from graveler.auth.directory import delete_policy as delete
from graveler.auth.entities import POLICIES
from graveler.auth.permissions import ACTIONS, Permission
from graveler.errors import AlreadyExists, Invalid, NotFound
from graveler.records import ABSENT

_POLICIES: Final = "/auth/policies"
_POLICY: Final = _POLICIES + "/{policyId}"
_ARN: Final = permissions.resource("auth", "policy/{policyId}")


class Policy(Body, frozen=True):
    """A policy.  Clients may send the creation date that they have read; it is not used."""

    id: str
    statement: Annotated[list[Statement], Meta(min_length=1)]
    creation_date: int | None = None


class Question(Body, frozen=True):
    """An action on a resource."""

    action: str
    resource: Annotated[str, Meta(max_length=limits.address_length_bytes_max)]


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


@operation(
    "listPolicies",
    "GET",
    _POLICIES,
    tag="auth",
    permissions=(Permission("auth:ListPolicies", "*"),),
    answers={200: PolicyList},
)
def list_policies(call: Call, query: Paging) -> Answer:
    """List policies."""
    listing = entities.listed(call.ports.kv, POLICIES, query.prefix, query.after, query.count + 1)
    return directory.page(query, listing, directory.policy_shape)


@operation(
    "createPolicy",
    "POST",
    _POLICIES,
    tag="auth",
    permissions=(Permission("auth:CreatePolicy", permissions.resource("auth", "policy/{id}")),),
    answers={201: PolicyShape},
    errors=(AlreadyExists,),
    runs=Runs.POOL,
)
def create_policy(call: Call, body: Policy) -> Answer:
    """Create a policy; it has no effect until it is attached."""
    with changing(call) as keeper:
        policy = records.create_policy(keeper, body.id, directory.document(body.statement))
    return answers.json(directory.policy_shape(policy), 201)


@operation(
    "getPolicy",
    "GET",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:ReadPolicy", _ARN),),
    answers={200: PolicyShape},
    errors=(NotFound,),
    runs=Runs.POINT,
)
def get_policy(call: Call) -> Answer:
    """Get a policy."""
    policy = entities.get(call.ports.kv, POLICIES, call.arguments["policyId"])
    return answers.json(directory.policy_shape(policy))


@operation(
    "updatePolicy",
    "PUT",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:UpdatePolicy", _ARN),),
    answers={200: PolicyShape},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def update_policy(call: Call, body: Policy) -> Answer:
    """Replace the statements of a policy, for everybody who has it."""
    id = call.arguments["policyId"]
    if body.id != id:
        raise Invalid(f"policy id cannot change: path={id!r} body={body.id[:100]!r}")
    with changing(call) as keeper:
        policy = records.update_policy(keeper, id, directory.document(body.statement))
    return answers.json(directory.policy_shape(policy))


@operation(
    "deletePolicy",
    "DELETE",
    _POLICY,
    tag="auth",
    permissions=(Permission("auth:DeletePolicy", _ARN),),
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def delete_policy(call: Call) -> Answer:
    """Delete a policy, and detach it from everybody who has it."""
    with changing(call) as keeper:
        delete(keeper, call.arguments["policyId"])
    return NO_CONTENT


@operation(
    "mayI",
    "POST",
    "/auth/may-i",
    tag="graveler",
    answers={200: RightList},
    runs=Runs.POOL,
)
def may_i(call: Call, body: Questions) -> Answer:
    """Which of up to 50 actions the caller may do."""
    caller: Any = call.account
    assert caller is not ABSENT
    for pair in body.pairs:
        if pair.action not in ACTIONS:
            raise Invalid(f"no such action: action={pair.action[:100]!r}")
    needed = [Permission(pair.action, pair.resource) for pair in body.pairs]
    lacking = set(caller.lacks(needed))
    rights = [Right(each.action, each.resource, each not in lacking) for each in needed]
    return answers.json(RightList(rights))
