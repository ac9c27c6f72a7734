"""Creation of users, groups and policies, changes of policies, and users that are disabled.
Deletions are in links.py.

A creation is one conditional write.  Its retry after an unknown outcome raises `AlreadyExists` if
the first attempt was applied.  For api/.
"""

from dataclasses import replace
from typing import Any, Final

from graveler import limits
from graveler.auth import builtin, entities, links, policies
from graveler.auth.entities import GROUPS, POLICIES, USERS, Group, Policy, User
from graveler.auth.keeper import Keeper
from graveler.auth.links import MEMBER
from graveler.errors import Conflict, Invalid

_ADMINS_AT_FIRST: Final = 10  # members that are read in the first request


def create_user(keeper: Keeper, id: str, email: str = "", friendly_name: str = "") -> User:
    """A user without groups, policies and keys.  Raises `AlreadyExists`, `Invalid`,
    `OutcomeUnknown`.  One request; two if a user with this id was deleted before."""
    _check_text("email", email)
    _check_text("friendly_name", friendly_name)
    now = keeper.clock.now_ns()
    user = User(id, keeper.ids.stamp().hex(), now, email, friendly_name)
    entities.create(keeper, USERS, user)
    return user


def disable_user(keeper: Keeper, id: str, by: str) -> None:
    """Refuse what proves the identity of a user from now on: its keys, its sessions, its external
    principals.  It keeps them.  `by`: the caller.

    Raises `NotFound`; `Conflict` for the caller itself, and for the last member of Admins that is
    not disabled; `Contended`, `OutcomeUnknown`.  3 requests; for a member of Admins 3 more, and 2
    for each thousand others that are disabled."""
    if id == by:
        raise Conflict(f"user cannot disable itself: {id=}: another administrator can")
    user = entities.get(keeper.kv, USERS, id)
    groups = [group.id for group in links.targets(keeper.kv, MEMBER, user)]
    if builtin.ADMINS in groups:
        others = links.members(keeper.kv, builtin.ADMINS, "", "", _ADMINS_AT_FIRST)
        if not any(other.id != id and not other.disabled for other in others):
            raise Conflict(f"user is the last member of {builtin.ADMINS} who is enabled: {id=}")
    entities.update(keeper, USERS, id, lambda record: replace(record, disabled=True))


def enable_user(keeper: Keeper, id: str) -> None:
    """Accept again what proves the identity of a user.  Raises `NotFound`, `Contended`,
    `OutcomeUnknown`.  Two requests; one if it is not disabled."""
    entities.update(keeper, USERS, id, lambda record: replace(record, disabled=False))


def create_group(keeper: Keeper, id: str, description: str = "") -> Group:
    """A group without members and policies.  Errors and cost as for `create_user`."""
    _check_text("description", description)
    group = Group(id, keeper.ids.stamp().hex(), keeper.clock.now_ns(), description)
    entities.create(keeper, GROUPS, group)
    return group


def create_policy(keeper: Keeper, id: str, statement: list[Any]) -> Policy:
    """A policy that is attached to nobody.  Errors and cost as for `create_user`."""
    policies.check(statement)
    policy = Policy(id, keeper.ids.stamp().hex(), keeper.clock.now_ns(), statement)
    entities.create(keeper, POLICIES, policy)
    return policy


def update_policy(keeper: Keeper, id: str, statement: list[Any]) -> Policy:
    """Replace the statements of a policy, for all that it is attached to.  Raises `NotFound`,
    `Invalid`, `OutcomeUnknown`.  Two requests."""
    policies.check(statement)
    return entities.update(
        keeper, POLICIES, id, lambda policy: replace(policy, statement=statement)
    )


def _check_text(name: str, text: str) -> None:
    if len(text) > limits.entity_text_length_max or not (text.isprintable() or not text):
        raise Invalid(
            f"{name} invalid: it must have at most {limits.entity_text_length_max} printable "
            "characters"
        )
