"""What is wrong with a value that msgspec refused: the place, and the rule in plain words.

The only module that reads a text of msgspec, which tells place and rule by text alone:
"Expected `int` <= 64 - at `$.parent_number`".  Pure.  Used by bodies.py and parameters.py, and only
for requests that are refused.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from graveler.api.field_types import WHOLE

_MESSAGE: Final = re.compile(r"(?P<rule>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_TYPE_NAMES: Final = {
    "str": "a string", "int": "an integer", "bool": "a boolean", "array": "an array",
    "object": "an object", "float": "a number",
}  # fmt: skip
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
# What msgspec says, and what the service says instead.
_RULES: Final = (
    (re.compile(r"Expected `int` >= (.*)"), "number must be at least {0}"),
    (re.compile(r"Expected `int` <= (.*)"), "number must be at most {0}"),
    (re.compile(r"Expected `str` of length >= (.*)"), "string must have at least {0} characters"),
    (re.compile(r"Expected `str` of length <= (.*)"), "string must have at most {0} characters"),
    (re.compile(r"Expected `array` of length >= (.*)"), "array must have at least {0} items"),
    (re.compile(r"Expected `array` of length <= (.*)"), "array must have at most {0} items"),
    (re.compile(r"Object contains unknown field `(.*)`", re.DOTALL), 'property "{0}" is unknown'),
)
_PATTERN: Final = re.compile(r"Expected `str` matching regex .*")
_CHOICE: Final = re.compile(r"Invalid enum value .*", re.DOTALL)
_KIND: Final = re.compile(r"Expected `(\w+)(?: \| null)?`.*")


def allowed(value: Any, kind: Any) -> Any:
    """The same value without nulls for optional fields, and with integers for `3.0`."""
    return _allowed(value, inspect.type_info(kind))


def explained(error: msgspec.ValidationError, value: Any, kind: Any) -> tuple[str, str]:
    """A JSON pointer to what is wrong in `value`, and the rule that it breaks."""
    match = _MESSAGE.fullmatch(str(error))
    assert match is not None, "any text matches"
    whole = inspect.type_info(kind)
    steps = _steps(match["path"] or "", value, whole)
    info = _at(whole, steps)
    missing = _MISSING.fullmatch(match["rule"])
    if missing is not None:
        return _pointer([*steps, missing[1]]), f'property "{missing[1]}" is missing'
    return _pointer(steps), _rule(match["rule"], info)


def _rule(text: str, info: inspect.Type) -> str:
    for pattern, rule in _RULES:
        broken = pattern.fullmatch(text)
        if broken is not None:
            return rule.format(broken[1])
    if _PATTERN.fullmatch(text) and isinstance(info, inspect.StrType):
        shown = (info.pattern or "").removesuffix(WHOLE)
        return f'string doesn\'t match the regular expression "{shown}"'
    if _CHOICE.fullmatch(text) and isinstance(info, inspect.LiteralType):
        shown = ", ".join(f'"{each}"' for each in info.values)
        return f"value is not one of the allowed values [{shown}]"
    expected = _KIND.fullmatch(text)
    if expected is not None and expected[1] in _TYPE_NAMES:
        return f"value must be {_TYPE_NAMES[expected[1]]}"
    return text


def _allowed(value: Any, info: inspect.Type) -> Any:
    info = _plain(info)
    if isinstance(info, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field for field in info.fields}
        return {
            name: _allowed(item, fields[name].type)
            for name, item in value.items()
            if name in fields and item is not None
        } | {
            name: item
            for name, item in value.items()
            if name not in fields and info.cls.__struct_config__.forbid_unknown_fields
        }
    if isinstance(info, inspect.CollectionType) and isinstance(value, list):
        return [_allowed(item, info.item_type) for item in value]
    if isinstance(info, inspect.IntType) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _steps(path: str, value: Any, info: inspect.Type) -> list[str]:
    """The names and indexes of a path.  msgspec does not name the key of a mapping: it is the first
    whose value its type does not allow."""
    steps: list[str] = []
    for name, index in _STEP.findall(path):
        step = name or index
        if step == "..." and isinstance(value, Mapping):
            kind = _at(info, [*steps, step])
            step = next((key for key, item in value.items() if not _allows(kind, item)), step)
        steps.append(step)
        value = _child(value, step)
    return steps


def _allows(info: inspect.Type, value: Any) -> bool:
    if isinstance(info, inspect.LiteralType):
        return value in info.values
    return isinstance(value, str)


def _child(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, Sequence) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _at(info: inspect.Type, steps: Sequence[str]) -> inspect.Type:
    """The type at a place."""
    for step in steps:
        info = _plain(info)
        if isinstance(info, inspect.StructType):
            info = next(field.type for field in info.fields if field.encode_name == step)
        elif isinstance(info, inspect.CollectionType):
            info = info.item_type
        elif isinstance(info, inspect.DictType):
            info = info.value_type
    return _plain(info)


def _plain(info: inspect.Type) -> inspect.Type:
    """The type without the schema that it carries, and without null."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        others = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        if len(others) == 1:
            return _plain(others[0])
    return info


def _pointer(steps: Sequence[str]) -> str:
    return "".join("/" + step for step in steps)
