"""Policies, and the decision whether a caller may do something.

A policy is a list of statements.  A statement allows or denies actions on resources, perhaps under
a condition.

    decide:   a matching deny, or a policy that cannot be read      denied
              else a matching allow                                 allowed
              else                                                  denied

A statement matches if it names the action (actions.py), one of its patterns has the resource
(arns.py), and its condition holds (conditions.py).  If the condition cannot be evaluated, a deny
matches and an allow does not.  For a permission on everything below a name, a deny matches if one
of its patterns can have a name below it; an allow, if one pattern has all of them.

Pure.  The time of a decision grows with the number of statements that name the action.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from graveler import limits
from graveler.auth import actions, arns, conditions
from graveler.auth.arns import Pattern
from graveler.auth.conditions import Node, Truth
from graveler.auth.permissions import Permission
from graveler.errors import Invalid

_EFFECTS: Final = ("allow", "deny")
_FIELDS: Final = ("effect", "action", "resource")
_CONDITION: Final = "condition"


class Statement(NamedTuple):
    """A statement, read for one user."""

    denies: bool
    actions: frozenset[str]
    resources: tuple[Pattern, ...]
    condition: Node

    def matches(self, permission: Permission, address: str) -> bool:
        """Whether the statement applies to a request that it names the action of."""
        return self._has(permission) and self._applies(address)

    def matches_some(self, resource: str, address: str) -> bool:
        """Whether the statement allows something below `resource`, or denies everything there."""
        patterns = self.resources
        if self.denies:
            named = any(pattern.covers(resource) for pattern in patterns)
        else:
            named = any(pattern.reaches(resource) for pattern in patterns)
        return named and self._applies(address)

    def _applies(self, address: str) -> bool:
        truth = self.condition.truth(address)
        return truth is Truth.HOLDS or (self.denies and truth is Truth.UNKNOWN)

    @property
    def allows_everywhere(self) -> bool:
        """Whether the statement allows its actions on every resource, from every address."""
        has_all = any(not pattern.head for pattern in self.resources)
        return not self.denies and has_all and not self.condition.parts

    def _has(self, permission: Permission) -> bool:
        name = permission.resource
        if permission.below:
            if self.denies:
                return any(pattern.reaches(name) for pattern in self.resources)
            return any(pattern.covers(name) for pattern in self.resources)
        is_named = False
        for pattern in self.resources:  # `any` of a generator takes longer than most matches
            is_named = is_named or pattern.matches(name)
        return is_named


@dataclass(frozen=True, slots=True)
class Rights:
    """What the policies of one user say together.

    `unreadable`: ids of policies that could not be read; with one of them everything is denied.
    `conditional`: the address of the caller matters.  `weight`: how long a decision takes at most,
    in matches of simple patterns.  `everywhere`: actions that are allowed on every resource: no
    statement denies them anywhere.
    """

    statements: tuple[Statement, ...] = ()
    unreadable: tuple[str, ...] = ()
    conditional: bool = False
    weight: int = 0
    everywhere: frozenset[str] = frozenset()
    _by_action: dict[str, tuple[Statement, ...]] = field(default_factory=dict, compare=False)

    def allow(self, permission: Permission, address: str) -> bool:
        """Whether the user has the permission, from `address`; empty: the address is not known."""
        if self.unreadable:
            return False
        if permission.action in self.everywhere:
            return True
        if len(permission.resource) > limits.resource_length_max:  # it takes too long to match
            return False
        for statement in self._of(permission.action):
            if statement.matches(permission, address):
                return not statement.denies  # denies come first; after them one allow is enough
        return False

    def allow_some(self, permission: Permission, address: str) -> bool:
        """Whether the user may have the permission for something below its resource: an allow names
        something there, and no single deny names everything."""
        if self.unreadable:
            return False
        for statement in self._of(permission.action):
            if statement.matches_some(permission.resource, address):
                return not statement.denies
        return False

    def deny(self, permission: Permission, address: str) -> bool:
        """Whether a deny matches, whatever is allowed."""
        if len(permission.resource) > limits.resource_length_max:
            return True
        denies = (each for each in self._of(permission.action) if each.denies)
        return bool(self.unreadable) or any(each.matches(permission, address) for each in denies)

    def _of(self, action: str) -> tuple[Statement, ...]:
        statements = self._by_action.get(action)
        if statements is None:
            named = [each for each in self.statements if action in each.actions]
            statements = tuple(sorted(named, key=lambda statement: not statement.denies))
            self._by_action[action] = statements
        return statements


def rights(user: str, documents: Mapping[str, Sequence[Any]]) -> Rights:
    """What policies, by id, say for `user`.  `documents`: their statements, as stored."""
    statements: list[Statement] = []
    unreadable: list[str] = []
    for policy, document in documents.items():
        try:
            statements += read(document, user, stored=True)
        except Invalid:
            unreadable.append(policy)
    conditional = any(statement.condition.parts for statement in statements)
    weight = sum(each.resource.weight for one in statements for each in one.resources)
    everywhere = frozenset[str]() if unreadable else _everywhere(statements)
    return Rights(tuple(statements), tuple(unreadable), conditional, weight, everywhere)


def _everywhere(statements: Sequence[Statement]) -> frozenset[str]:
    allowed = (each.actions for each in statements if each.allows_everywhere)
    denied = (each.actions for each in statements if each.denies)
    return frozenset[str]().union(*allowed).difference(*denied)


def missing(held: Rights, needed: Iterable[Permission], address: str) -> tuple[Permission, ...]:
    """The permissions of `needed` that are not held."""
    return tuple(each for each in needed if not held.allow(each, address))


def check(document: Sequence[Any]) -> None:
    """Raises `Invalid` for statements that may not be stored: malformed, too long, too many, or
    with an action, an operator or a field that does not exist."""
    if not 1 <= len(document) <= limits.policy_statements_count_max:
        raise Invalid(
            f"policy invalid: it must have 1 to {limits.policy_statements_count_max} statements"
        )
    if len(json.dumps(document).encode()) > limits.policy_length_bytes_max:
        raise Invalid(
            f"policy invalid: it must have at most {limits.policy_length_bytes_max} bytes"
        )
    read(document, "")


def read(document: Any, user: str, *, stored: bool = False) -> list[Statement]:
    """The statements of a document, for one user.  Raises `Invalid`."""
    if not isinstance(document, list | tuple):
        raise Invalid("policy invalid: it must be a list of statements")
    return [_statement(each, user, stored) for each in document]


def _statement(text: Any, user: str, stored: bool) -> Statement:
    if not isinstance(text, dict) or any(name not in text for name in _FIELDS):
        raise Invalid(f"statement invalid: it must have {', '.join(_FIELDS)}")
    others = text.keys() - {*_FIELDS, _CONDITION}
    if others:  # one of a later release may narrow what the statement allows
        raise Invalid(f"statement invalid: no such field: {min(map(str, others))[:100]!r}")
    if text["effect"] not in _EFFECTS:
        raise Invalid("statement invalid: its effect must be allow or deny")
    condition, named = text.get(_CONDITION), resources(text["resource"])
    if len(named) > limits.policy_resources_count_max and not stored:
        raise Invalid(
            f"statement invalid: it must have at most {limits.policy_resources_count_max} resources"
        )
    return Statement(
        text["effect"] == "deny",
        _actions(text["action"], stored),
        tuple(arns.pattern(each, user) for each in named),
        conditions.ALWAYS if condition is None else conditions.parse(condition, stored=stored),
    )


def _actions(texts: Any, stored: bool) -> frozenset[str]:
    if not isinstance(texts, list) or not texts:
        raise Invalid("statement invalid: action must be a list of actions")
    covered: set[str] = set()
    for text in texts:
        names = actions.named(text) if isinstance(text, str) else frozenset()
        if not names and not stored:
            raise Invalid(f"statement invalid: no such action: action={str(text)[:100]!r}")
        covered |= names
    return frozenset(covered)


def resources(text: Any) -> list[str]:
    """The resources of a statement: one, or a list of them as JSON in the text.  Raises
    `Invalid`."""
    if not isinstance(text, str):
        raise Invalid("statement invalid: resource must be a text")
    if not text.startswith("["):
        return [text]
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("statement invalid: resource must be one, or a JSON list of them") from error
    if not listed or not all(isinstance(each, str) for each in listed):
        raise Invalid("statement invalid: a list of resources must have at least one, all texts")
    return list(listed)
