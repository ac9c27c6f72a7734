"""Bodies, query parameters and headers: parsed and checked against the types that are declared.

Null for an optional field means that it is absent, and an integer may be written `3.0`.  A message
names the field as a JSON pointer, and the rule.  Only this module reads a text of msgspec.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from graveler.api.answers import WHOLE
from graveler.api.operation import Query, RequestHeaders
from graveler.core.errors import Invalid


def unquoted_segment(text: str, name: str) -> str:
    """A path segment, unquoted.  Raises `Invalid` if it is not UTF-8."""
    if "%" not in text:
        return text
    return decoded(unquote_to_bytes(text), name, "path")


# ---- what is wrong -------------------------------------------------------------------------------

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


# ---- bodies --------------------------------------------------------------------------------------

_ERROR = "request body has an error: "
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def body_reader(kind: Any) -> Callable[[bytes], Any]:
    """A function that parses the bodies of one type.  It raises `Invalid`."""
    decoder = msgspec.json.Decoder(kind)

    def read(raw: bytes) -> Any:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError:
            return _second_look(kind, raw)
        except _MALFORMED as error:
            raise Invalid(_not_json(error)) from error

    return read


def may_lack(kind: Any) -> bool:
    """Whether all fields of a type are optional, so that a request may have no body."""
    if not isinstance(kind, type):
        return False
    try:
        kind()
    except TypeError:
        return False
    return True


def _second_look(kind: Any, raw: bytes) -> Any:
    try:
        value = msgspec.json.decode(raw)
    except _MALFORMED as error:
        raise Invalid(_not_json(error)) from error
    value = allowed(value, kind)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        where, rule = explained(error, value, kind)
        schema = f"doesn't match schema #/components/schemas/{_name(kind)}"
        raise Invalid(f'{_ERROR}{schema}: Error at "{where or "/"}": {rule}') from None


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else "array"


def _not_json(error: Exception) -> str:
    return f"{_ERROR}it must be JSON: {error}"


# ---- parameters ----------------------------------------------------------------------------------

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_PIECES_MAX: Final = 1_000
_QUERY_LENGTH_MAX: Final = 32 * 1024
_REQUIRED: Final = "value is required but missing"


def query_reader(kind: type[Query]) -> Callable[[bytes], Query]:
    """A function that parses query strings.  It raises `Invalid`."""
    types = get_type_hints(kind)
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    arrays = frozenset(name for name in names if get_origin(types[names[name]]) is tuple)
    reads = {name: _text_reader(name, types[names[name]]) for name in names if name not in arrays}
    required = _required(kind)
    empty = None if required else kind()

    def read(raw: bytes) -> Query:
        if not raw and empty is not None:
            return empty
        values = _values(raw, reads, arrays)
        for name in required:
            if name not in values:
                raise Invalid(f"{_where(name, 'query')}{_REQUIRED}")
            if values[name] == "":
                raise Invalid(f"{_where(name, 'query')}empty value is not allowed")
        query: Query = _converted(values, kind, "query")
        return query

    return read


def headers_reader(kind: type[RequestHeaders]) -> Callable[[Mapping[bytes, bytes]], RequestHeaders]:
    """A function that reads the declared headers of a request.  It raises `Invalid`."""
    names = {name.lower().encode(): name for name in kind.__struct_encode_fields__}
    absent = kind()

    def read(headers: Mapping[bytes, bytes]) -> RequestHeaders:
        values: dict[str, str] = {}
        for raw, name in names.items():
            if raw in headers:
                values[name] = headers[raw].decode("latin-1")
        declared: RequestHeaders = _converted(values, kind, "header") if values else absent
        return declared

    return read


def decoded(raw: bytes, name: str, place: str) -> str:
    """A parameter as text.  Raises `Invalid` if it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{_where(name, place)}not valid UTF-8") from error


def _values(
    raw: bytes, reads: Mapping[str, Callable[[str], Any]], arrays: frozenset[str]
) -> dict[str, Any]:
    if len(raw) > _QUERY_LENGTH_MAX:
        raise Invalid(f"query has an error: it must have at most {_QUERY_LENGTH_MAX} bytes")
    values: dict[str, Any] = {}
    for piece in raw.decode("latin-1").split("&", _PIECES_MAX):
        name, _, value = piece.partition("=")
        read = reads.get(name)
        if read is not None:
            if name not in values:
                values[name] = read(_unquoted(value, name))
        elif name in arrays:
            values[name] = (*values.get(name, ()), _unquoted(value, name))
    return values


def _required(kind: type[Query]) -> tuple[str, ...]:
    fields = msgspec.structs.fields(kind)
    return tuple(field.encode_name for field in fields if field.required)


def _text_reader(name: str, kind: Any) -> Callable[[str], Any]:
    if kind is bool:
        return lambda text: _boolean(text, name)
    if kind is int:
        return lambda text: _integer(text, name)
    return str


def _boolean(text: str, name: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    rule = f"value {text[:80]!r} is not a boolean: use true or false"
    raise Invalid(f"{_where(name, 'query')}{rule}")


def _integer(text: str, name: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise Invalid(f"{_where(name, 'query')}value {text[:80]!r} is not an integer")
    return int(text)


def _converted(values: dict[str, Any], kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        where, rule = explained(error, values, kind)
        name = where.strip("/").partition("/")[0]
        raise Invalid(f"{_where(name, place)}{rule}") from None


def _where(name: str, place: str) -> str:
    return f'parameter "{name}" in {place} has an error: '


def _unquoted(text: str, name: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text and text.isascii():
        return text
    return decoded(unquote_to_bytes(text.encode("latin-1")), name, "query")
