"""JSON bodies: parsed and checked against the type that the operation declares.

msgspec parses and checks in one pass.  A body that it refuses is looked at again, because two
things are allowed that it does not know: null for an optional field means that the field is absent,
and an integer may be written as `3.0`.  What is still wrong raises `Invalid`, whose message names
the field as a JSON pointer, and the rule.

The rules of one type beyond those of its fields stand in its `__post_init__`, which raises
`Invalid` itself.  Used by plans.py.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from graveler.api import violations
from graveler.errors import Invalid

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
    value = violations.allowed(value, kind)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        where, rule = violations.explained(error, value, kind)
        schema = f"doesn't match schema #/components/schemas/{_name(kind)}"
        raise Invalid(f'{_ERROR}{schema}: Error at "{where or "/"}": {rule}') from None


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else "array"


def _not_json(error: Exception) -> str:
    return f"{_ERROR}it must be JSON: {error}"
