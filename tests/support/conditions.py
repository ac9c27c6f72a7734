"""Random rows of every type that is compared, and conditions on them as tuples and as SQL."""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
_NUMBERS = (-0.0, 0.0, 1.5, -3.25, 1e300, INF, -INF, NAN)
_TEXTS = ("", "a", "ab", "B", "é", "z\U0001f600", "~", "nan")
_START = datetime(2026, 1, 1)
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "i8": (pa.int8(), lambda chance: chance.randint(-4, 4)),
    "i64": (pa.int64(), lambda chance: chance.choice((0, 1, -(2**63), 2**63 - 1, 2**53 + 1))),
    "f32": (pa.float32(), lambda chance: chance.choice((0.5, 0.0, -0.0, NAN, INF, -2.0))),
    "f64": (pa.float64(), lambda chance: chance.choice(_NUMBERS)),
    "s": (pa.string(), lambda chance: chance.choice(_TEXTS)),
    "d": (pa.date32(), lambda chance: date(2026, 1, chance.randint(1, 9))),
    "t": (
        pa.timestamp("us", "UTC"),
        lambda chance: (_START + timedelta(hours=chance.randint(0, 9))).replace(tzinfo=UTC),
    ),
    "n": (pa.timestamp("us"), lambda chance: _START + timedelta(microseconds=chance.randint(0, 5))),
    "dec": (pa.decimal128(9, 2), lambda chance: Decimal(chance.randint(-300, 300)) / 100),
    "b": (pa.bool_(), lambda chance: chance.random() < 0.5),
}
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not")
Tuple = tuple[str, str, Any]


def some_table(chance: random.Random, count: int, begin: int = 0) -> pa.Table:
    """Rows that are near each other in some columns, so that footers can exclude row groups."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(begin, begin + count), pa.int64())}
    for name, (kind, draw) in KINDS.items():
        values: list[Any] = []
        while len(values) < count:  # runs of one value, and runs of nulls
            value = None if chance.random() < 0.2 else draw(chance)
            values += [value] * chance.choice((1, 1, 2, 15))
        columns[name] = pa.array(values[:count], kind)
    return pa.table(columns)


def some_condition(chance: random.Random) -> Tuple:
    name, operator = chance.choice(list(KINDS)), chance.choice(OPERATORS)
    draw = KINDS[name][1]
    if operator in ("is", "is not"):
        return name, operator, None
    if operator in ("in", "not in"):
        return name, operator, [draw(chance) for _ in range(chance.randint(1, 3))]
    return name, operator, draw(chance)


def sql(condition: Tuple, spark: bool) -> str:
    """The condition in the SQL of Spark, or in DuckDB's."""
    name, operator, value = condition
    if operator in ("is", "is not"):
        return f"{name} {operator} NULL"
    if operator in ("in", "not in"):
        return f"{name} {operator} ({', '.join(_literal(each, spark) for each in value)})"
    return f"{name} {operator} {_literal(value, spark)}"


def _literal(value: Any, spark: bool) -> str:
    if isinstance(value, bool | int | Decimal):
        return str(value) if value != -(2**63) else "(-9223372036854775807 - 1)"
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
        if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{text}'" if spark else f"TIMESTAMP '{text}'"
        return f"TIMESTAMP_LTZ '{text}+00:00'" if spark else f"TIMESTAMPTZ '{text}+00'"
    return f"DATE '{value}'" if isinstance(value, date) else f"'{value}'"
