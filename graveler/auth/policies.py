"""Policies, and the decision whether a caller may do something.  Pure.

    decide:   a matching deny, or a policy that cannot be read      denied
              else a matching allow                                 allowed
              else                                                  denied

A statement matches if it names the action, one of its patterns has the resource, and its condition
holds.  For a permission on everything below a name, a deny matches if one of its patterns can have
a name below it; an allow, if one pattern has all of them.

    {"IpAddress": {"SourceIp": ["10.0.0.0/8", "192.0.2.7"]}}      in one of the networks
    {"NotIpAddress": {"SourceIp": ["192.0.2.0/24"]}}              in none of them
    {"Or": {"IpAddress:SourceIp": ["10.0.0.0/8"],                 at least one of these; `And`: all
            "NotIpAddress:SourceIp": ["192.0.2.0/24"]}}

All members of a condition must hold.  The third form exists because clients of lakeFS read a
condition as lists of texts two levels deep.  A condition that cannot be evaluated (the address or
an operator is not known) is UNKNOWN: then an allow does not apply, and a deny does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple

from graveler.auth import permissions
from graveler.auth.permissions import Pattern, Permission
from graveler.core import limits
from graveler.core.errors import Invalid

Network = IPv4Network | IPv6Network
_NODES: Final = ("And", "Or")
_OPERATORS: Final = ("IpAddress", "NotIpAddress")
_FIELD: Final = "SourceIp"


class Truth(Enum):
    """The result of an evaluation."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"


class Test(NamedTuple):
    """A comparison of the caller's address.  `known`: this release can evaluate it."""

    inside: bool
    networks: tuple[Network, ...]
    known: bool = True

    def truth(self, address: str) -> Truth:
        parsed = _address(address)
        if not self.known or not parsed:
            return Truth.UNKNOWN
        is_inside = any(parsed[0] in network for network in self.networks)
        return Truth.HOLDS if is_inside is self.inside else Truth.FAILS


_UNKNOWN: Final = Test(True, (), known=False)


class Node(NamedTuple):
    """Several conditions: all of them, or at least one."""

    every: bool
    parts: tuple["Test | Node", ...]

    def truth(self, address: str) -> Truth:
        truths = {part.truth(address) for part in self.parts}
        decisive = Truth.FAILS if self.every else Truth.HOLDS
        if decisive in truths:
            return decisive
        if Truth.UNKNOWN in truths:
            return Truth.UNKNOWN
        return Truth.HOLDS if self.every else Truth.FAILS


ALWAYS: Final = Node(True, ())


def parse(text: Any, *, stored: bool = False) -> Node:
    """The condition of a statement; one without operators holds.  Raises `Invalid`; but in a
    `stored` policy, an operator or a field that is not known, or an operator without fields, is
    UNKNOWN, not an error."""
    parts: list[Test | Node] = []
    for name, members in _mapping(text).items():
        inner = _mapping(members)
        if not inner:
            parts.append(_empty(name, stored))
        elif name in _NODES:
            tests = tuple(_test(*_split(key), values, stored) for key, values in inner.items())
            parts.append(Node(name == "And", tests))
        else:
            parts += [_test(name, field, values, stored) for field, values in inner.items()]
    return Node(True, tuple(parts))


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Invalid("condition invalid: it must have the form {operator: {field: [values]}}")
    return value


def _empty(name: str, stored: bool) -> Test:
    """An operator that compares nothing: it would hold always, so it is never accepted."""
    if stored and name not in _NODES:
        return _UNKNOWN
    raise Invalid(f"condition invalid: {name[:100]} must have at least one member")


def _split(key: str) -> tuple[str, str]:
    operator, _, field = key.partition(":")
    return operator, field


def _test(operator: str, field: str, values: Any, stored: bool) -> Test:
    if operator not in _OPERATORS or field != _FIELD:
        if stored:
            return _UNKNOWN
        raise Invalid(
            f"condition invalid: it must be {' or '.join(_OPERATORS)} of {_FIELD}: "
            f"{operator[:100]!r} of {field[:100]!r}"
        )
    if not isinstance(values, list) or not values:
        raise Invalid(f"condition invalid: {operator} must have a list of addresses or networks")
    return Test(operator == "IpAddress", tuple(_network(value) for value in values))


def _network(value: Any) -> Network:
    if not isinstance(value, str):
        raise Invalid("condition invalid: an address must be a text")
    try:
        return ip_network(value, strict=False)
    except ValueError as error:
        raise Invalid(f"condition invalid: not an address or network: {value[:100]!r}") from error


@lru_cache(maxsize=1_024)
def _address(text: str) -> tuple[()] | tuple[IPv4Address | IPv6Address]:
    """The address; empty if the text is none.  IPv4 written as IPv6 is IPv4."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return ()
    return (getattr(parsed, "ipv4_mapped", None) or parsed,)


# ---- policies ------------------------------------------------------------------------------------

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
        tuple(permissions.pattern(each, user) for each in named),
        ALWAYS if condition is None else parse(condition, stored=stored),
    )


def _actions(texts: Any, stored: bool) -> frozenset[str]:
    if not isinstance(texts, list) or not texts:
        raise Invalid("statement invalid: action must be a list of actions")
    covered: set[str] = set()
    for text in texts:
        names = permissions.named(text) if isinstance(text, str) else frozenset()
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


# ---- builtin -------------------------------------------------------------------------------------

ADMINS: Final = "Admins"


def _allow(*names: str, resource: str = "*") -> dict[str, Any]:
    return {"effect": "allow", "action": list(names), "resource": resource}


POLICIES: Final[Mapping[str, list[dict[str, Any]]]] = {
    "FSFullAccess": [_allow("fs:*")],
    "FSReadAll": [_allow("fs:List*", "fs:Read*")],
    "FSReadWriteAll": [
        _allow(
            "fs:Read*",
            "fs:List*",
            "fs:WriteObject",
            "fs:DeleteObject",
            "fs:RevertBranch",
            "fs:CreateBranch",
            "fs:CreateTag",
            "fs:DeleteBranch",
            "fs:DeleteTag",
            "fs:CreateCommit",
        )
    ],
    "AuthFullAccess": [_allow("auth:*")],
    "AuthManageOwnCredentials": [
        _allow(
            "auth:CreateCredentials",
            "auth:DeleteCredentials",
            "auth:ListCredentials",
            "auth:ReadCredentials",
            resource="arn:lakefs:auth:::user/${user}",
        )
    ],
    "RepoManagementFullAccess": [
        _allow("ci:*"),
        _allow("retention:*"),
        _allow("branches:*"),
        _allow("pr:*"),
    ],
    "RepoManagementReadAll": [
        _allow("ci:Read*"),
        _allow("retention:Get*"),
        _allow("branches:Get*"),
        _allow("pr:Read*", "pr:List*"),
    ],
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    ADMINS: ("FSFullAccess", "AuthFullAccess", "RepoManagementFullAccess"),
    "SuperUsers": ("FSFullAccess", "AuthManageOwnCredentials", "RepoManagementReadAll"),
    "Developers": ("FSReadWriteAll", "AuthManageOwnCredentials", "RepoManagementReadAll"),
    "Viewers": ("FSReadAll", "AuthManageOwnCredentials"),
}
