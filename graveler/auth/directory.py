"""Creation of users, groups and policies, and changes of policies.  Deletions are in links.py.

A creation is one conditional write.  Its retry after an unknown outcome raises `AlreadyExists` if
the first attempt was applied.  For api/.
"""

from dataclasses import replace
from typing import Any

from graveler import limits
from graveler.auth import entities, policies
from graveler.auth.entities import GROUPS, POLICIES, USERS, Group, Policy, User
from graveler.auth.keeper import Keeper
from graveler.errors import Invalid


def create_user(keeper: Keeper, id: str, email: str = "", friendly_name: str = "") -> User:
    """A user without groups, policies and keys.  Raises `AlreadyExists`, `Invalid`,
    `OutcomeUnknown`.  One request; two if a user with this id was deleted before."""
    _check_text("email", email)
    _check_text("friendly_name", friendly_name)
    now = keeper.clock.now_ns()
    user = User(id, keeper.ids.stamp().hex(), now, email, friendly_name)
    entities.create(keeper, USERS, user)
    return user


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
