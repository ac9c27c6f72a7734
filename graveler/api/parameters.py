"""Query parameters and headers: parsed and checked against the types that the operation declares.

    boolean    1 t T TRUE true True, 0 f F FALSE false False
    integer    digits, with a minus sign before them or not
    repeated   a parameter whose type is `tuple[str, ...]`; of any other, the first counts

Undeclared parameters are ignored.  A violation raises `Invalid`; its message names the parameter
and the rule.  Used by plans.py and requests.py.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec

from graveler.api import violations
from graveler.api.operation import Headers, Query
from graveler.errors import Invalid

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_PIECES_MAX: Final = 1_000
_QUERY_LENGTH_MAX: Final = 32 * 1024
_MISSING: Final = "value is required but missing"


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
                raise Invalid(f"{_where(name, 'query')}{_MISSING}")
            if values[name] == "":
                raise Invalid(f"{_where(name, 'query')}empty value is not allowed")
        query: Query = _converted(values, kind, "query")
        return query

    return read


def headers_reader(kind: type[Headers]) -> Callable[[Mapping[bytes, bytes]], Headers]:
    """A function that reads the declared headers of a request.  It raises `Invalid`."""
    names = {name.lower().encode(): name for name in kind.__struct_encode_fields__}
    absent = kind()

    def read(headers: Mapping[bytes, bytes]) -> Headers:
        values = {
            name: headers[raw].decode("latin-1") for raw, name in names.items() if raw in headers
        }
        declared: Headers = _converted(values, kind, "header") if values else absent
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
        where, rule = violations.explained(error, values, kind)
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
