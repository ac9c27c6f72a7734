"""Helpers that build JSON schemas.  Pure.  Used by schemas.py."""

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]
STRING: Final = {"type": "string"}
INTEGER: Final = {"type": "integer", "format": "int64"}
BOOLEAN: Final = {"type": "boolean"}
FLAG: Final = {"type": "boolean", "default": False}
PAIRS: Final = {"type": "object", "additionalProperties": STRING}


def text(description: str, **rules: Any) -> Schema:
    """A string with a description."""
    return {"type": "string", "description": description, **rules}


def record(required: str, optional: str = "", **properties: Schema) -> Schema:
    """An object schema.

    `required` and `optional` are names separated by spaces.  Names that `properties` does not
    describe are strings.
    """
    names = required.split() + optional.split() + list(properties)
    return {
        "type": "object",
        "required": required.split(),
        "properties": {name: properties.get(name, STRING) for name in dict.fromkeys(names)},
    }


def of(name: str) -> Schema:
    """A reference to a schema of this catalogue."""
    return {"$ref": f"#/components/schemas/{name}"}


def many(name: str) -> Schema:
    """A page of records of the schema `name`."""
    return record(
        "pagination results",
        pagination=of("Pagination"),
        results={"type": "array", "items": of(name)},
    )


def choice(*values: str) -> Schema:
    """One of these strings."""
    return {"type": "string", "enum": list(values)}


def items(schema: Schema, count_max: int = 0) -> Schema:
    """An array, bounded if `count_max` is given."""
    return {"type": "array", "items": schema} | ({"maxItems": count_max} if count_max else {})
