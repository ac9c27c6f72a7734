"""CloudFormation templates as tests read them: parsed, and what their roles may do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Reads `!Ref x` as {"!Ref": x}, and so on."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {f"!{suffix}": loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {f"!{suffix}": loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {f"!{suffix}": loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tagged)


def loaded(path: Path) -> dict[str, Any]:
    """A template."""
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    return found


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
