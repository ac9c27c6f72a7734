"""Well-formed requests for every operation, made from the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.service.described import Described, by_name, described, resolved
from tests.api.serving import API

_SEGMENTS = {"repository": "sample", "branch": "main", "destinationBranch": "main"}
_HEX = "0" * 64
# Where the smallest body that the schema admits breaks a rule of its type.
_BODIES = {
    "resetBranch": {"type": "reset"},
    "linkPhysicalAddress": {
        "staging": {"physical_address": "local://sample/x"},
        "checksum": "sample",
        "size_bytes": 1,
    },
    "stageObject": {"physical_address": "local://sample/x", "checksum": "sample", "size_bytes": 1},
    "importStart": {
        "paths": [
            {"type": "common_prefix", "path": "local://sample/x/", "destination": "sample"},
            {"type": "object", "path": "local://sample/y", "destination": "sample"},
        ],
        "commit": {"message": "sample"},
    },
}


@dataclass(frozen=True)
class Sample:
    """A request that passes validation."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any


def sample(route: Described) -> Sample:
    """A request for `route`."""
    path = route.path
    for name in route.path_parameters:
        path = path.replace("{" + name + "}", _SEGMENTS.get(name, _HEX))
    query = {each.name: "sample" for each in route.of_place("query") if each.required}
    body = _BODIES.get(route.operation) or (example(route.body) if route.body else None)
    if route.operation == "uploadObject":
        body = b"sample"
    return Sample(route.method, path, query, body)


def example(schema: Mapping[str, Any]) -> Any:
    """The smallest value that a schema admits."""
    schema = resolved(schema)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: example(properties[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [example(schema["items"])] * schema.get("minItems", 0)
    if kind == "integer":
        return schema.get("minimum", 1)
    if kind == "boolean":
        return False
    if "enum" in schema:
        return schema["enum"][0]
    pattern = schema.get("pattern", "")
    if pattern.startswith("^[0-9a-f]{64}"):
        return "0" * 64
    return "local://sample/x" if "://" in pattern else "sample"


BY_OPERATION = by_name()
ALL = [(route.operation, sample(route)) for route in described()]


def target(one: Sample) -> str:
    """The path below the server's root, without a query."""
    return API + one.path
