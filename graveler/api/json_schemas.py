"""JSON schemas of the types of bodies, parameters and answers, in the dialect of OpenAPI 3.0.3.

msgspec makes them; this module rewords what OpenAPI 3.0.3 says otherwise:

- null beside another type is `nullable`
- a choice of strings has the type `string`
- the bounds of 64 bits are left out: the format `int64` says them
- an empty default is no default

Pure.  Used by openapi.py, and by tests.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from graveler.api.field_types import WHOLE

Schema = dict[str, Any]
REFERENCE: Final = "#/components/schemas/"
_INT64: Final = (-(2**63), 2**63 - 1)


def components(types: Iterable[Any]) -> dict[str, Schema]:
    """The schemas of these types, and of all types that they contain, by name."""
    _, schemas = _made(types)
    return {name: _adapted(schema) for name, schema in schemas.items()}


def schema(kind: Any) -> Schema:
    """The schema of one type: for a type with a name, a reference to it."""
    (raw,), _ = _made([kind])
    return _adapted(raw)


def fields(kind: Any) -> dict[str, tuple[Schema, bool]]:
    """The schema of each field of a type, and whether it is required."""
    _, schemas = _made([kind])
    whole = schemas[kind.__name__]
    return {
        name: (_adapted(raw), name in whole["required"])
        for name, raw in whole["properties"].items()
    }


def _made(types: Iterable[Any]) -> tuple[tuple[Schema, ...], dict[str, Schema]]:
    return msgspec.json.schema_components(types, ref_template=REFERENCE + "{name}")


def _adapted(raw: Mapping[str, Any]) -> Schema:
    schema = {name: _part(name, value) for name, value in raw.items() if name != "title"}
    if "anyOf" in schema:
        others = [each for each in schema["anyOf"] if each != {"type": "null"}]
        if len(others) == 1 and len(others) < len(schema["anyOf"]):
            del schema["anyOf"]
            schema |= {**others[0], "nullable": True}
    if "enum" in schema:
        schema = {"type": "string", **schema}
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].removesuffix(WHOLE)
    if schema.get("type") == "integer":
        schema = _integer(schema)
    if schema.get("default", ...) in ("", [], {}, ()):
        del schema["default"]
    return schema


def _part(name: str, value: Any) -> Any:
    if name == "properties":
        return {each: _adapted(raw) for each, raw in value.items()}
    if name == "anyOf":
        return [_adapted(each) for each in value]
    if name in ("items", "additionalProperties") and isinstance(value, Mapping):
        return _adapted(value)
    return value


def _integer(schema: Schema) -> Schema:
    lowest, highest = _INT64
    rest = dict(schema)
    if rest.get("minimum") == lowest:
        del rest["minimum"]
    if rest.get("maximum") == highest:
        del rest["maximum"]
    return rest
