"""Conditions leave out what does not match, and nothing else."""

import io
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.arrow.conditions import (
    Condition,
    Summary,
    fitted,
    holds,
    kept,
    may_hold,
    parse_conditions,
    parse_sql,
)
from graveler.block.adapter import CREATE
from graveler.block.memory import MemoryBlocks
from graveler.core.clock import SystemClock
from graveler.core.errors import Invalid
from graveler.spark.formats import Stretch, format_of
from tests import draws
from tests.support.conditions import KINDS, some_condition, some_table, sql

ADDRESS = "mem://bucket/file"


def test_rows_of_parquet_are_those_that_duckdb_finds() -> None:
    chance = random.Random(draws.seed())
    table = some_table(chance, 300)
    body = io.BytesIO()
    pq.write_table(table, body, row_group_size=20)
    blocks = MemoryBlocks(SystemClock())
    blocks.put(ADDRESS, [body.getvalue()], CREATE)
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("rows", table)
    read = 0
    for _ in range(150):
        given = [some_condition(chance) for _ in range(chance.choice((1, 1, 2)))]
        where = [fitted(each, KINDS[each.column][0]) for each in parse_conditions(given)]
        stretch = Stretch(ADDRESS, len(body.getvalue()), 0, len(body.getvalue()), where)
        batches = list(format_of("parquet").rows(blocks, stretch, table.schema))
        read += sum(batch.num_rows for batch in batches)
        found = [id for batch in batches for id in kept(batch, where).column("id").to_pylist()]
        text = " AND ".join(sql(each, spark=False) for each in given)
        expected = database.execute(f"SELECT id FROM rows WHERE {text} ORDER BY id").fetchall()
        assert found == [id for (id,) in expected], given
        rows = table.to_pylist()
        assert found == [row["id"] for row in rows if all(holds(c, row[c.column]) for c in where)]
    assert read < 150 * 300 * 0.9  # footers exclude some


def test_groups_of_rows_are_left_out_by_their_footers() -> None:
    def may(operator: str, *values: Any, nulls: int | None = 0, bounds: Any = (3, 5)) -> bool:
        return may_hold(Condition("c", operator, values), Summary(10, nulls, *bounds))

    assert [may("=", v) for v in (2, 3, 5, 6)] == [False, True, True, False]
    assert [may("in", 1, v) for v in (2, 4)] == [False, True]
    assert [may("<", 3), may("<=", 3), may(">", 5), may(">=", 5)] == [False, True, False, True]
    assert [may("is", nulls=n) for n in (0, 1, None)] == [False, True, True]
    assert [may("is not", nulls=n) for n in (9, 10)] == [True, False]
    assert not may("!=", 1, nulls=10) and may("!=", 4, bounds=(4, 4))
    assert may("=", 9, bounds=(None, None))
    # NaN is in no bounds, and greater than all of them.
    assert may(">", 9.0, bounds=(1.0, 2.0)) and not may("=", 9.0, bounds=(1.0, 2.0))
    assert may("=", float("nan"), bounds=(1.0, 2.0))


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("a >= 1 and b IN ('x', 'y')", [("a", ">=", 1), ("b", "in", ["x", "y"])]),
        ("a between -1 and 2.50", [("a", ">=", -1), ("a", "<=", Decimal("2.50"))]),
        ("`a b``c` is not null AND c IS NULL", [("a b`c", "is not", None), ("c", "is", None)]),
        ("d = DATE '2026-11-01'", [("d", "=", date(2026, 11, 1))]),
        ("a <> true AND b NOT IN (1)", [("a", "!=", True), ("b", "not in", [1])]),
    ],
)
def test_sql_of_a_simple_form_is_understood(text: str, conditions: Any) -> None:
    assert parse_sql(text) == parse_conditions(conditions)


@pytest.mark.parametrize(
    "text",
    [
        *("a = 1 OR b = 2", "a = b", "a", "", "a =", "a = 1 AND", "a + 1 = 2", "lower(a) = 'x'"),
        *("a = 'it''s'", r"a = 'x\n'", "NOT a = 1", "a LIKE 'x%'", "a = 1e3", "a IN ()", "a.b = 1"),
        *(
            "a IN (1",
            "a = DATE 'x'",
            "a = NULL",
            "a BETWEEN 1",
            "(a = 1)",
            "a = 1 b = 2",
            "a = 1 -- x",
        ),
    ],
)
def test_other_sql_is_left_to_spark(text: str) -> None:
    assert parse_sql(text) is None


def test_conditions_of_another_form_are_refused() -> None:
    for given, says in (
        (("a", "="), "must be a tuple"),
        ([["a", "=", 1]], "must be a tuple"),
        (("a", "~", 1), "operator must be one of"),
        (("a", "=", None), "use 'is'"),
        (("a", "is", 1), "with None only"),
        (("a", "in", []), "needs a list"),
        (("a", "in", [1, None]), "use 'is'"),
    ):
        with pytest.raises(Invalid, match=says):
            parse_conditions([given])
    with pytest.raises(Invalid, match="too many conditions"):
        parse_conditions([("a", "=", 1)] * 101)


def test_values_are_of_the_type_of_the_column() -> None:
    for kind, value, fit in (
        (pa.int8(), Decimal("1.0"), 1),
        (pa.float32(), 1, 1.0),
        (pa.date32(), "2026-11-01", date(2026, 11, 1)),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.decimal128(5, 2), 3, Decimal("3.00")),
    ):
        assert fitted(Condition("c", "=", (value,)), kind).values == (fit,)
    for kind, value in (
        (pa.int8(), 1.5),
        (pa.int64(), True),
        (pa.int64(), 1 << 63),
        (pa.string(), 1),
        (pa.date32(), "x"),
        (pa.date32(), datetime(2026, 1, 1)),
        (pa.timestamp("us"), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.decimal128(5, 2), Decimal("0.001")),
        (pa.list_(pa.int8()), [1]),
    ):
        with pytest.raises(Invalid, match="cannot compare"):
            fitted(Condition("c", "=", (value,)), kind)
