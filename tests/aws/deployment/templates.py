"""CloudFormation templates as tests read them: parsed, and what their roles may do."""

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from scripts import parameters


def loaded(path: Path) -> dict[str, Any]:
    """A template, for the caller alone."""
    return deepcopy(parameters.read(path))


def resources_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = loaded(path)["Resources"]
    return found


def of_type(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: each["Properties"] for name, each in resources.items() if each["Type"] == kind}


def statements(properties: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The statements of a role's own policies, or of a managed policy."""
    policies = [each["PolicyDocument"] for each in properties.get("Policies", [])]
    if "ManagedPolicyName" in properties or "Description" in properties:
        policies.append(properties["PolicyDocument"])
    for policy in policies:
        for each in policy["Statement"]:
            yield each["!If"][1] if "!If" in each else each


def actions(properties: dict[str, Any]) -> set[str]:
    """What is allowed."""
    found: set[str] = set()
    for each in statements(properties):
        if each["Effect"] == "Deny":
            continue
        found |= {each["Action"]} if isinstance(each["Action"], str) else set(each["Action"])
    return found


def matches(pattern: str, arn: str) -> bool:
    """As IAM reads it: both wildcards stand for slashes too, and letters have their case."""
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, arn, re.S) is not None


FOLDER, UNIQUE, SIGNATURE = "g0" * 10, "v1" * 10, "aB-_" * 6
OURS = (  # what repositories keep, and collections delete
    f"data/{FOLDER}/{UNIQUE}",
    f"lake/data/{FOLDER}/{UNIQUE}",
    f"data/lake/data/{FOLDER}/{UNIQUE}",
    f"a/data/b/data/{FOLDER}/{UNIQUE},{SIGNATURE}",
    "lake/_lakefs/" + "0" * 64,
    "_lakefs/" + "0" * 64,
)
NOT_OURS = (
    f"mydata/{FOLDER}/{UNIQUE}",
    f"lake/data/{FOLDER}/x",
    f"lake/data/{FOLDER}/{UNIQUE}/x",
    *(f"lake/data/{FOLDER[:at]}/{FOLDER[at + 1 :]}/{UNIQUE}" for at in range(len(FOLDER))),
    *(f"lake/data/{FOLDER}/{UNIQUE[:at]}/{UNIQUE[at + 1 :]}" for at in range(len(UNIQUE))),
    *(
        f"lake/data/{FOLDER[:at]}/{FOLDER[at + 1 :]}/{UNIQUE},{SIGNATURE}"
        for at in range(len(FOLDER))
    ),
    *(
        f"lake/data/{FOLDER}/{UNIQUE[:at]}/{UNIQUE[at + 1 :]},{SIGNATURE}"
        for at in range(len(UNIQUE))
    ),
    *(
        f"lake/data/{FOLDER}/{UNIQUE},{SIGNATURE[:at]}/{SIGNATURE[at + 1 :]}"
        for at in range(len(SIGNATURE))
    ),
    f"lake/data/2026/11/22/10/00/a/{UNIQUE}",
    "lake/not_lakefs/x",
    "lake/not_graveler/gc/x",
    "lake/not_graveler/jobs/x",
    "lake/_graveler",
    "lake/_graveler2/gc/x",
    "lake/orders.csv",
)
