"""Conditions of statements: on the address from which a request comes.

    {"IpAddress": {"SourceIp": ["10.0.0.0/8", "192.0.2.7"]}}      in one of the networks
    {"NotIpAddress": {"SourceIp": ["192.0.2.0/24"]}}              in none of them
    {"Or": {"IpAddress:SourceIp": ["10.0.0.0/8"],                 at least one of these; `And`: all
            "NotIpAddress:SourceIp": ["192.0.2.0/24"]}}

All members of a condition must hold.  The third form, a node, writes operator and field as one
name, because clients of lakeFS read a condition as lists of texts two levels deep.

A condition that cannot be evaluated is UNKNOWN: the address is not known, or a later release wrote
an operator that this one does not have.  Then an allow does not apply, and a deny does
(policies.py).  Pure.
"""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple

from graveler.errors import Invalid

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
