"""A second evaluator of policies, written as the rules read, on the stored texts themselves."""

import ipaddress
import json
from collections.abc import Callable
from functools import cache
from typing import Any


def allows(
    documents: list[list[dict[str, Any]]],
    user: str,
    action: str,
    resource: str,
    address: str,
    below: bool = False,
) -> bool:
    effects = {
        statement["effect"]
        for document in documents
        for statement in document
        if _applies(statement, user, action, resource, address, below)
    }
    return effects == {"allow"}


def _applies(
    statement: dict[str, Any], user: str, action: str, resource: str, address: str, below: bool
) -> bool:
    if not any(like(pattern, action) for pattern in statement["action"]):
        return False
    text = statement["resource"]
    patterns = json.loads(text) if text.startswith("[") else [text]
    how = like if not below else begun if statement["effect"] == "deny" else covering
    if not any(_named(pattern, user, resource, how) for pattern in patterns):
        return False
    truth = _holds(statement.get("condition") or {}, address)
    return truth == "yes" or (truth == "unknown" and statement["effect"] == "deny")


def _named(pattern: str, user: str, resource: str, how: Callable[[str, str], bool]) -> bool:
    if pattern == "*":
        return True
    heads, names = pattern.split(":"), resource.split(":")
    if len(names) < 6 or heads[:5] != names[:5]:
        return False
    return how(":".join(heads[5:]).replace("${user}", user), ":".join(names[5:]))


def covering(pattern: str, head: str) -> bool:
    return pattern.endswith("*") and like(pattern, head)


def begun(pattern: str, head: str) -> bool:
    """Whether the pattern can go on after `head`: by the places in it where one can be."""
    places = {0}
    for letter in [*head, ""]:
        for at in range(len(pattern)):
            if at in places and pattern[at] == "*":
                places.add(at + 1)
        if letter:
            places = {
                at if pattern[at] == "*" else at + 1
                for at in places
                if at < len(pattern) and pattern[at] in ("*", "?", letter)
            }
    return bool(places)


def like(pattern: str, text: str) -> bool:
    """By trying every length of every star."""

    @cache
    def match(at: int, seen: int) -> bool:
        if at == len(pattern):
            return seen == len(text)
        if pattern[at] == "*":
            return any(match(at + 1, rest) for rest in range(seen, len(text) + 1))
        return seen < len(text) and pattern[at] in ("?", text[seen]) and match(at + 1, seen + 1)

    return match(0, 0)


def _holds(condition: dict[str, Any], address: str) -> str:
    found = []
    for name, members in condition.items():
        if not members:
            found.append("unknown")
        elif name in ("And", "Or"):
            parts = [_test(key.split(":")[0], values, address) for key, values in members.items()]
            found.append(_together(parts, name == "And"))
        else:
            found += [_test(name, values, address) for values in members.values()]
    return _together(found, True)


def _test(operator: str, values: list[str], address: str) -> str:
    if not address:
        return "unknown"
    inside = any(
        ipaddress.ip_address(address) in ipaddress.ip_network(value, strict=False)
        for value in values
    )
    return "yes" if inside == (operator == "IpAddress") else "no"


def _together(parts: list[str], every: bool) -> str:
    if every:
        return "no" if "no" in parts else "unknown" if "unknown" in parts else "yes"
    return "yes" if "yes" in parts else "unknown" if "unknown" in parts else "no"
