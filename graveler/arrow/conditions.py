"""Conditions on columns, as Spark compares values; they leave out files, row groups and rows.

    [("day", ">=", date(2026, 11, 1)), ("city", "in", ["Oslo", "Bergen"])]     all of them hold
    "day >= '2026-11-01' AND city IN ('Oslo', 'Bergen')"                       the same as SQL

A comparison with null does not hold.  NaN equals NaN and is greater than every number.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from graveler.core.errors import Invalid

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_SETS: Final = ("=", "!=", "in", "not in")
_NULLS: Final = ("is", "is not")
_OPERATORS: Final = (*_SETS, *_ORDERS, *_NULLS)
_SPELLED: Final = {"==": "=", "<>": "!="}
_CONDITIONS_MAX: Final = 100
_VALUES_MAX: Final = 10_000
_INT64: Final = 1 << 63
_KERNELS: Final = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_is = pa.types


class Condition(NamedTuple):
    """A condition on one column.  `operator`: =, !=, in, not in (with a tuple of values), <, <=, >,
    >= (with one), is, is not (with none: null is meant)."""

    column: str
    operator: str
    values: tuple[Any, ...] = ()


class Summary(NamedTuple):
    """What a footer states about a column in a group of rows: the number of rows, how many of them
    are null (None: unknown), and bounds of the others (None: unknown)."""

    rows: int
    nulls: int | None = None
    least: Any = None
    greatest: Any = None


def parse_conditions(where: Iterable[Sequence[Any]]) -> tuple[Condition, ...]:
    """The conditions in tuples (column, operator, value), as pyarrow's filters have them.  Also
    ("city", "is", None) and "is not".  Raises `Invalid`."""
    parsed = [_parsed(each) for each in where]
    if len(parsed) > _CONDITIONS_MAX:
        raise Invalid(f"too many conditions: {len(parsed)} > {_CONDITIONS_MAX}")
    return tuple(parsed)


def _parsed(given: Any) -> Condition:
    if not isinstance(given, list | tuple) or len(given) != 3 or not isinstance(given[0], str):
        raise Invalid(
            "a condition must be a tuple like ('day', '>=', value), and all must hold: "
            f"{given!r:.200}"
        )
    column, name, value = given
    operator = " ".join(str(name).lower().split())
    operator = _SPELLED.get(operator, operator)
    if operator not in _OPERATORS:
        raise Invalid(f"operator must be one of {', '.join(_OPERATORS)}: {given!r:.200}")
    if operator in _NULLS:
        if value is not None:
            raise Invalid(f"{operator!r} compares with None only: {given!r:.200}")
        return Condition(column, operator)
    values = (value,)
    if operator in ("in", "not in"):
        if not isinstance(value, list | tuple | set | frozenset) or not value:
            raise Invalid(f"{operator!r} needs a list of values: {given!r:.200}")
        values = tuple(value)
    if None in values or len(values) > _VALUES_MAX:
        raise Invalid(
            f"a value must not be None, use 'is' or 'is not'; at most {_VALUES_MAX} values: "
            f"{given!r:.200}"
        )
    return Condition(column, operator, values)


# ---- SQL -----------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'[^'\\]*')"
    r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?)(?![\w.])|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,))",
    re.ASCII,
)
_WORDS: Final = ("and", "or", "not", "in", "is", "null", "between", "date", "true", "false", "like")
_SQL_MAX: Final = 100_000


def parse_sql(text: str) -> tuple[Condition, ...] | None:
    """The conditions of a text such as "a >= 1 AND b IN ('x', 'y') AND c IS NOT NULL"; None for
    SQL of another form, which only Spark understands."""
    tokens = _tokens(text.strip())
    try:
        return tuple(_clauses(iter(tokens))) if tokens else None
    except (_Other, StopIteration, RuntimeError):  # a generator turns the second into the third
        return None


class _Other(Exception):
    """The SQL has another form."""


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = list[tuple[str, str]](), 0
    while at < len(text) <= _SQL_MAX:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            return []
        token = match[match.lastgroup]
        kind = match.lastgroup
        if kind == "word" and token.lower() in _WORDS:
            kind, token = "keyword", token.lower()
        tokens.append((kind, token))
        at = match.end()
    return tokens


def _clauses(tokens: Iterator[tuple[str, str]]) -> Iterator[Condition]:
    while True:
        yield from _clause(tokens)
        after = next(tokens, None)
        if after is None:
            return
        if after != ("keyword", "and"):
            raise _Other


def _clause(tokens: Iterator[tuple[str, str]]) -> Iterator[Condition]:
    kind, name = next(tokens)
    if kind not in ("word", "quoted"):
        raise _Other
    column = name if kind == "word" else name[1:-1].replace("``", "`")
    kind, operator = next(tokens)
    negated = (kind, operator) == ("keyword", "not")
    if negated:
        kind, operator = next(tokens)
    if operator == "in" and kind == "keyword":
        yield Condition(column, "not in" if negated else "in", tuple(_listed(tokens)))
    elif negated:
        raise _Other
    elif (kind, operator) == ("keyword", "is"):
        yield Condition(column, _null_test(tokens))
    elif (kind, operator) == ("keyword", "between"):
        yield Condition(column, ">=", (_literal(tokens),))
        if next(tokens) != ("keyword", "and"):
            raise _Other
        yield Condition(column, "<=", (_literal(tokens),))
    elif kind == "sign" and (spelled := _SPELLED.get(operator, operator)) in _OPERATORS:
        yield Condition(column, spelled, (_literal(tokens),))
    else:
        raise _Other


def _null_test(tokens: Iterator[tuple[str, str]]) -> str:
    token = next(tokens)
    is_negated = token == ("keyword", "not")
    if (next(tokens) if is_negated else token) != ("keyword", "null"):
        raise _Other
    return "is not" if is_negated else "is"


def _listed(tokens: Iterator[tuple[str, str]]) -> Iterator[Any]:
    token = next(tokens)
    if token != ("sign", "("):
        raise _Other
    while token != ("sign", ")"):
        yield _literal(tokens)
        token = next(tokens)
        if token not in (("sign", ","), ("sign", ")")):
            raise _Other


def _literal(tokens: Iterator[tuple[str, str]]) -> Any:
    kind, token = next(tokens)
    if (kind, token) == ("keyword", "date"):
        kind, token = next(tokens)
        try:
            return date.fromisoformat(_text(token)) if kind == "text" else _other()
        except ValueError:
            raise _Other from None
    if kind == "text":
        return _text(token)
    if kind == "number":
        return Decimal(token) if "." in token else int(token)
    if kind == "keyword" and token in ("true", "false"):
        return token == "true"
    return _other()


def _text(token: str) -> str:
    return token[1:-1]


def _other() -> Any:
    raise _Other


# ---- types ---------------------------------------------------------------------------------------


def family(kind: pa.DataType) -> str:
    """Which values a column of this type is compared with; empty if with none."""
    if _is.is_timestamp(kind):
        return "local time" if kind.tz is None else "time"
    tests: Sequence[tuple[str, Callable[[pa.DataType], bool]]] = (
        ("boolean", _is.is_boolean),
        ("whole number", _is.is_integer),
        ("fraction", _is.is_floating),
        ("decimal", _is.is_decimal128),
        ("text", lambda each: _is.is_string(each) or _is.is_large_string(each)),
        ("bytes", lambda each: _is.is_binary(each) or _is.is_large_binary(each)),
        ("date", _is.is_date32),
    )
    return next((name for name, test in tests if test(kind)), "")


def fitted(condition: Condition, kind: pa.DataType) -> Condition:
    """The condition with values of the column's type.  A time without a zone means UTC; a date may
    be text.  Raises `Invalid` if a value is not of the type, or not without rounding."""
    kindred = family(kind)
    values = []
    for value in condition.values:
        try:
            values.append(_FITS[kindred](value, kind))
        except (KeyError, ValueError, TypeError, OverflowError, pa.ArrowException):
            raise Invalid(
                f"cannot compare this column with this value: column={condition.column} "
                f"type={kind} value={value!r:.200}"
            ) from None
    return condition._replace(values=tuple(values))


def _of(*kinds: type) -> Callable[[Any, pa.DataType], Any]:
    def fit(value: Any, _kind: pa.DataType) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError
        return value

    return fit


def _whole(value: Any, kind: pa.DataType) -> int:
    number = int(_of(int, Decimal)(_plain(value), kind))
    if number != value or not -_INT64 <= number < _INT64:
        raise ValueError
    return number


def _fraction(value: Any, kind: pa.DataType) -> float:
    return float(_of(int, float, Decimal)(_plain(value), kind))


def _decimal(value: Any, kind: pa.DataType) -> Any:
    number = Decimal(_of(int, Decimal)(_plain(value), kind))
    return pa.scalar(number, kind).as_py()


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _date(value: Any, kind: pa.DataType) -> date:
    if isinstance(value, datetime):
        raise TypeError
    return date.fromisoformat(value) if isinstance(value, str) else _of(date)(value, kind)


def _time(value: Any, kind: pa.DataType) -> datetime:
    moment: datetime = _of(datetime)(value, kind)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _local_time(value: Any, kind: pa.DataType) -> datetime:
    moment: datetime = _of(datetime)(value, kind)
    if moment.tzinfo is not None:
        raise ValueError
    return moment


_FITS: Final[Mapping[str, Callable[[Any, pa.DataType], Any]]] = {
    "boolean": _of(bool),
    "whole number": _whole,
    "fraction": _fraction,
    "decimal": _decimal,
    "text": _of(str),
    "bytes": _of(bytes),
    "date": _date,
    "time": _time,
    "local time": _local_time,
}
_COMPARED: Final[Mapping[str, pa.DataType]] = {
    "whole number": pa.int64(),
    "fraction": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "time": pa.timestamp("us", "UTC"),
    "local time": pa.timestamp("us"),
}


# ---- what holds ----------------------------------------------------------------------------------


def _ordered(value: Any) -> Any:
    """What Python orders as Spark orders the value."""
    if isinstance(value, float):
        return (True, 0.0) if value != value else (False, value)
    return value


def holds(condition: Condition, value: Any) -> bool:
    """Whether a fitted condition holds for one value."""
    operator = condition.operator
    if operator in _NULLS or value is None:
        return operator == ("is" if value is None else "is not")
    known, wanted = _ordered(value), [_ordered(each) for each in condition.values]
    if operator in _SETS:
        return (known in wanted) == (operator in ("=", "in"))
    return _ORDERS[operator](known, wanted[0])


def may_hold(condition: Condition, summary: Summary) -> bool:
    """Whether a fitted condition may hold for a row of a group.  Bounds leave NaN out, and bounds
    of texts may be shortened outward."""
    rows, nulls, least, greatest = summary
    operator, values = condition.operator, condition.values
    if operator == "is":
        return nulls != 0
    if nulls == rows:
        return False
    if operator in ("is not", "!=", "not in") or least is None or greatest is None:
        return True
    numbers = [each for each in (*values, least, greatest) if isinstance(each, float)]
    if any(each != each for each in numbers) or (numbers and operator in (">", ">=")):
        return True
    if operator in ("<", "<="):
        return _ORDERS[operator](least, values[0])
    if operator in (">", ">="):
        return _ORDERS[operator](greatest, values[0])
    return any(least <= value <= greatest for value in values)


def kept(batch: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """The rows for which all fitted conditions hold."""
    if not conditions:
        return batch
    mask = reduce(pc.and_, (_mask(batch.column(each.column), each) for each in conditions))
    # Null in a mask leaves the row out.
    return batch if mask.true_count == batch.num_rows else batch.filter(mask)


def _mask(column: pa.Array, condition: Condition) -> pa.Array:
    operator, values = condition.operator, condition.values
    if operator in _NULLS:
        return pc.is_null(column) if operator == "is" else pc.is_valid(column)
    kindred = family(column.type)
    kind = _COMPARED.get(kindred, column.type)
    column = column.cast(kind)
    if kindred == "fraction":
        return _mask_of_fractions(column, operator, values)
    if operator in _KERNELS:
        return pc.call_function(_KERNELS[operator], [column, pa.scalar(values[0], kind)])
    return _among(column, operator, pc.is_in(column, value_set=pa.array(values, kind)))


def _among(column: pa.Array, operator: str, equal: pa.Array) -> pa.Array:
    if operator in ("=", "in"):
        return equal
    return pc.and_(pc.invert(equal), pc.is_valid(column))


def _mask_of_fractions(column: pa.Array, operator: str, values: Sequence[float]) -> pa.Array:
    """Arrow has no order for NaN."""
    nan = pc.is_nan(column)
    if operator not in _KERNELS:
        masks = [nan if each != each else pc.equal(column, each) for each in values]
        return _among(column, operator, reduce(pc.or_, masks))
    (value,) = values
    if value != value:
        always = pa.repeat(pa.scalar(operator == "<="), len(column))
        wanted = {"<": pc.invert(nan), ">=": nan}.get(operator, always)
        return pc.and_(wanted, pc.is_valid(column))
    mask = pc.call_function(_KERNELS[operator], [column, pa.scalar(value)])
    return pc.or_(mask, nan) if operator in (">", ">=") else mask
