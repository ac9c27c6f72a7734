"""Rows as JSON, so that those of different engines can be compared."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def plain(rows: Iterable[Iterable[Any]]) -> str:
    """Values as text, but for what JSON has."""
    return json.dumps([[_plain(value) for value in row] for row in rows])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value if isinstance(value, bool | int | float | None) else str(value)
