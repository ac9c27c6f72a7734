"""Well-formed requests for every row of the table, made from the table itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graveler.api.routes import ROUTES
from graveler.api.schemas import CATALOGUE
from graveler.api.table import Route
from graveler.api.validation import REFERENCE
from tests.api.serving import API

_SEGMENTS = {"repository": "sample", "branch": "main", "destinationBranch": "main"}
_HEX = "0" * 64


@dataclass(frozen=True)
class Sample:
    """A request that passes validation."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any


def sample(route: Route) -> Sample:
    """A request for `route`."""
    path = route.path
    for name in route.path_parameters:
        path = path.replace("{" + name + "}", _SEGMENTS.get(name, _HEX))
    query = {each.name: "sample" for each in route.parameters if each.required}
    body = example(CATALOGUE[route.body]) if route.body else None
    if route.operation == "uploadObject":
        body = b"sample"
    return Sample(route.method, path, query, body)


def example(schema: Mapping[str, Any]) -> Any:
    """The smallest value that a schema admits."""
    if "$ref" in schema:
        return example(CATALOGUE[schema["$ref"].removeprefix(REFERENCE)])
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: example(properties[name]) for name in schema.get("required", ())}
    if kind == "array":
        return []
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


BY_OPERATION = {route.operation: route for route in ROUTES}
ALL = [(route.operation, sample(route)) for route in ROUTES]


def target(one: Sample) -> str:
    """The path below the server's root, without a query."""
    return API + one.path
