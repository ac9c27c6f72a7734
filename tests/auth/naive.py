"""A second evaluator of policies, written as the rules read, on the stored texts themselves."""

import ipaddress
import json
from functools import cache
from typing import Any


def allows(
    documents: list[list[dict[str, Any]]], user: str, action: str, resource: str, address: str
) -> bool:
    effects = {
        statement["effect"]
        for document in documents
        for statement in document
        if _applies(statement, user, action, resource, address)
    }
    return effects == {"allow"}


def _applies(
    statement: dict[str, Any], user: str, action: str, resource: str, address: str
) -> bool:
    if not any(like(pattern, action) for pattern in statement["action"]):
        return False
    text = statement["resource"]
    patterns = json.loads(text) if text.startswith("[") else [text]
    if not any(_named(pattern, user, resource) for pattern in patterns):
        return False
    truth = _holds(statement.get("condition") or {}, address)
    return truth == "yes" or (truth == "unknown" and statement["effect"] == "deny")


def _named(pattern: str, user: str, resource: str) -> bool:
    if pattern == "*":
        return True
    heads, names = pattern.split(":"), resource.split(":")
    if len(names) < 6 or heads[:5] != names[:5]:
        return False
    return like(":".join(heads[5:]).replace("${user}", user), ":".join(names[5:]))


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
        if name in ("And", "Or"):
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
