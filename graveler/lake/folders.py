"""Partition columns in the names of folders: `year=2024/city=S%C3%A3o/part-0.parquet`.

The rules are those of Hive and of Spark's type inference, applied to logical paths.  A column has
the narrowest type that holds all of its values: int, bigint, decimal(p,0), double, date, timestamp,
string.  Two rules differ from Spark's: times in a path are in UTC, and text that only Java accepts
as a number (`1d`) is a string.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from graveler.core.errors import Invalid
from graveler.lake.dataset import is_data

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_NO_NUMBER: Final = ("NaN", "Infinity", "-Infinity")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_LENGTH: Final = 10
_TIME: Final = re.compile(_DATE.pattern + r" ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_INT_BITS, _BIGINT_BITS, _DIGITS_MAX = 31, 63, 38
_DIGITS: Final = {pa.int32(): 10, pa.int64(): 20}
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_TEXT: Final = pa.string()
_LONG_MAX: Final = 64  # no number, date or time has a longer spelling


class File(NamedTuple):
    """A data file: its logical path, its address, its size, its time, and the values in its path as
    they are spelled there."""

    path: str
    address: str
    size: int
    mtime: Any = 0
    values: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a table, and its partition columns with their types."""

    columns: Mapping[str, pa.DataType]
    files: tuple[File, ...]


def layout(files: Sequence[File], prefix: str) -> Layout:
    """Read the partition columns from the paths below `prefix`; hidden files are left out.  Raises
    `Invalid` if files lie in folders of different columns."""
    seen = [each for each in files if is_data(each.path[len(prefix) :])]
    pairs_of = [(each, _pairs(each.path[len(prefix) :])) for each in seen]
    names = [tuple(name for name, _ in pairs) for _, pairs in pairs_of]
    for own, (file, _) in zip(names, pairs_of, strict=True):
        if own != names[0] or len(set(own)) != len(own):
            raise Invalid(
                f"files lie in folders of different columns: {'/'.join(names[0]) or 'none'} and "
                f"{'/'.join(own) or 'none'}: path={file.path!r:.200}"
            )
    columns: dict[str, pa.DataType] = {}
    texts: list[Sequence[str | None]] = []
    for at, name in enumerate(names[0] if names else ()):
        values = [pairs[at][1] for _, pairs in pairs_of]
        columns[name] = column_type(values)
        texts.append(values)
    rows = zip(*texts, strict=True) if texts else [()] * len(seen)
    placed = (file._replace(values=tuple(row)) for file, row in zip(seen, rows, strict=True))
    return Layout(columns, tuple(placed))


def folder(names: Sequence[str], values: Sequence[Any]) -> str:
    """The folders of some values, each with a slash at its end.  The values are text in Spark's
    spelling."""
    return "".join(
        f"{_quoted(name)}={NULL if value in (None, '') else _quoted(value)}/"
        for name, value in zip(names, values, strict=True)
    )


def _quoted(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _pairs(path: str) -> list[tuple[str, str | None]]:
    pairs = []
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            pairs.append((unquote(name), None if value == NULL else unquote(value)))
    return pairs


def column_type(values: Sequence[str | None]) -> pa.DataType:
    """The type of a column with these values; None stands for null."""
    return _common({_kind(value) for value in values if value is not None})


def _common(kinds: Set[pa.DataType]) -> pa.DataType:
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds == {pa.date32(), _TIMESTAMP}:
        return _TIMESTAMP
    if kinds == {pa.int32(), pa.float64()}:
        return pa.float64()
    if kinds == {pa.int32(), pa.int64()}:
        return pa.int64()
    if kinds and all(map(_is_whole, kinds)):
        return pa.decimal128(max(_DIGITS.get(kind) or kind.precision for kind in kinds), 0)
    return _TEXT


def _is_whole(kind: pa.DataType) -> bool:
    return kind in _DIGITS or pa.types.is_decimal(kind)


def keeps_type(column: pa.DataType, added: pa.DataType) -> bool:
    """Whether a column of type `column` keeps its type with values of type `added`, or becomes a
    wider type of whole numbers."""
    return _common({column, added}) == column or (_is_whole(column) and _is_whole(added))


def _kind(text: str) -> pa.DataType:
    """The narrowest type of one value."""
    if len(text) > _LONG_MAX:
        return _TEXT
    if text in _NO_NUMBER:
        return pa.float64()
    if _NUMBER.fullmatch(text):
        return _number_kind(text)
    for kind in (pa.date32(), _TIMESTAMP):
        if _parsed(text, kind) is not None:
            return kind
    return _TEXT


def _number_kind(text: str) -> pa.DataType:
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the pattern takes finite numbers alone"
    if exponent < 0:
        return pa.float64()
    if text.lstrip("+-").isdigit():
        bits = max(int(text), -int(text) - 1).bit_length()
        if bits <= _BIGINT_BITS:
            return pa.int32() if bits <= _INT_BITS else pa.int64()
    digits = len(number.as_tuple().digits) + exponent
    return pa.decimal128(digits, 0) if digits <= _DIGITS_MAX else pa.float64()


def value_of(text: str | None, kind: pa.DataType) -> Any:
    """The value of `text` in a column of type `kind`: an int, Decimal, float, date, datetime or
    str; None for null.  Raises `Invalid` if the text is not a value of that type."""
    if text is None or pa.types.is_string(kind):
        return text
    value = _parsed(text, kind)
    if value is None:
        raise Invalid(f"the value in a folder's name is not of the column's type: {text!r} {kind}")
    return value


def _parsed(text: str, kind: pa.DataType) -> Any:
    """The value, or None if `text` is not a value of that type."""
    try:
        if pa.types.is_date(kind):
            return _date(text)
        if pa.types.is_timestamp(kind):
            return _time(text)
        if pa.types.is_floating(kind) and text in _NO_NUMBER:
            return float(text)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            _groups(_NUMBER, text)  # Python accepts more texts as numbers
            if pa.types.is_integer(kind):
                return int(text)
            return float(text) if pa.types.is_floating(kind) else Decimal(text)
        return pa.scalar(text, _TEXT).cast(kind).as_py()
    except (ValueError, pa.ArrowException):
        return None


def _time(text: str) -> datetime:
    """A date without a time means its midnight."""
    if _DATE.fullmatch(text):
        return datetime.combine(_date(text), time(), UTC)
    *_, hour, minute, second, fraction = _groups(_TIME, text)
    micros = int((fraction or "0").ljust(6, "0"))
    return datetime.combine(
        _date(text[:_DATE_LENGTH]), time(int(hour), int(minute), int(second), micros), UTC
    )


def _date(text: str) -> date:
    year, month, day = map(int, _groups(_DATE, text))
    return date(year, month, day)


def _groups(pattern: re.Pattern[str], text: str) -> Sequence[Any]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match.groups()


def is_value(text: str | None, kind: pa.DataType, value: Any) -> bool:
    """Whether the column value `text` of type `kind` equals the requested `value`.  None equals
    only null.  Text is compared by its spelling, everything else by its value, without rounding.  A
    time without a zone is in UTC."""
    if text is None or value is None:
        return text is None and value is None
    if isinstance(value, str) or pa.types.is_string(kind):
        return text == str(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return bool(value_of(text, kind) == value)
