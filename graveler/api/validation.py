"""Validation of parameters and JSON bodies, compiled once from JSON schemas.

The dialect is the part of JSON Schema that the table of routes uses: types string, integer,
boolean, array and object; `enum`, `pattern` (ASCII, matched against the whole text), `minimum`,
`maximum`, `minLength`, `maxLength`, `maxItems`, `required`, `properties`, `additionalProperties`,
`$ref` to a schema of the catalogue, `default`.  Undeclared properties are ignored.  Null for an
optional property means that it is absent.  A violation raises `Invalid`; its message names the
field and the rule.  Pure.  Used by api/.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from graveler.errors import Invalid

Schema = Mapping[str, Any]
Check = Callable[[Any, str], Any]  # value, its JSON pointer -> the value to use; raises _Broken
Read = Callable[[str], Any]  # text of a parameter -> its value; raises ValueError with the rule

REFERENCE = "#/components/schemas/"
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_INT64_MAX = 2**63 - 1


def body_check(name: str, catalogue: Mapping[str, Schema]) -> Callable[[Any], Any]:
    """A function that checks a whole request body against the schema `name`."""
    check = _compile(catalogue[name], catalogue)
    start = f"request body has an error: doesn't match schema {REFERENCE}{name}: Error at "

    def whole(value: Any) -> Any:
        try:
            return check(value, "")
        except _Broken as broken:
            raise Invalid(f'{start}"{broken.where or "/"}": {broken.rule}') from None

    return whole


def parameter_read(schema: Schema) -> Read:
    """A function that parses the text of one parameter.  It raises `ValueError` with the broken
    rule."""
    kind = schema.get("type", "string")
    if kind == "boolean":
        return _read_boolean
    check = _compile(schema, {})

    def read(text: str) -> Any:
        value: Any = text
        if kind == "integer":
            if not _INTEGER.fullmatch(text):
                raise ValueError(f"value {text[:80]!r} is not an integer")
            value = int(text)
        try:
            return check(value, "")
        except _Broken as broken:
            raise ValueError(broken.rule) from None

    return read


class _Broken(Exception):
    """A violated rule, and the JSON pointer to the value."""

    def __init__(self, where: str, rule: str) -> None:
        super().__init__(rule)
        self.where = where
        self.rule = rule


def _read_boolean(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"value {text[:80]!r} is not a boolean: use true or false")


def _compile(schema: Schema, catalogue: Mapping[str, Schema]) -> Check:
    if "$ref" in schema:
        return _compile(catalogue[schema["$ref"].removeprefix(REFERENCE)], catalogue)
    kind = schema.get("type", "")
    if kind == "object":
        return _object(schema, catalogue)
    if kind == "array":
        return _array(schema, catalogue)
    return {"string": _string, "integer": _integer, "boolean": _boolean, "": _anything}[kind](
        schema
    )


def _string(schema: Schema) -> Check:
    pattern = schema.get("pattern", "")
    matches = re.compile(pattern, re.ASCII).fullmatch if pattern else None
    length_min, length_max = schema.get("minLength", 0), schema.get("maxLength", 0)
    allowed = schema.get("enum", ())

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, str):
            raise _Broken(where, "value must be a string")
        if len(value) < length_min:
            raise _Broken(where, f"string must have at least {length_min} characters")
        if length_max and len(value) > length_max:
            raise _Broken(where, f"string must have at most {length_max} characters")
        if matches is not None and not matches(value):
            raise _Broken(where, f'string doesn\'t match the regular expression "{pattern}"')
        if allowed and value not in allowed:
            shown = ", ".join(f'"{each}"' for each in allowed)
            raise _Broken(where, f"value is not one of the allowed values [{shown}]")
        return value

    return check


def _integer(schema: Schema) -> Check:
    low, high = schema.get("minimum", -_INT64_MAX - 1), schema.get("maximum", _INT64_MAX)

    def check(value: Any, where: str) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _Broken(where, "value must be an integer")
        if value < low:
            raise _Broken(where, f"number must be at least {low}")
        if value > high:
            raise _Broken(where, f"number must be at most {high}")
        return value

    return check


def _boolean(_schema: Schema) -> Check:
    def check(value: Any, where: str) -> Any:
        if not isinstance(value, bool):
            raise _Broken(where, "value must be a boolean")
        return value

    return check


def _anything(_schema: Schema) -> Check:
    return lambda value, _where: value


def _array(schema: Schema, catalogue: Mapping[str, Schema]) -> Check:
    item = _compile(schema["items"], catalogue)
    count_max = schema.get("maxItems", 0)

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise _Broken(where, "value must be an array")
        if count_max and len(value) > count_max:
            raise _Broken(where, f"array must have at most {count_max} items")
        return [item(each, f"{where}/{index}") for index, each in enumerate(value)]

    return check


def _object(schema: Schema, catalogue: Mapping[str, Schema]) -> Check:
    required = tuple(schema.get("required", ()))
    named = {name: _compile(each, catalogue) for name, each in schema.get("properties", {}).items()}
    rest = schema.get("additionalProperties")
    other = _compile(rest, catalogue) if isinstance(rest, Mapping) else None

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _Broken(where, "value must be an object")
        for name in required:
            if value.get(name) is None:
                raise _Broken(f"{where}/{name}", f'property "{name}" is missing')
        checked = {}
        for name, item in value.items():
            checker = named.get(name, other)
            if checker is not None and (item is not None or name not in named):
                checked[name] = checker(item, f"{where}/{name}")
        return checked

    return check
