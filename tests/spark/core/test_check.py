"""Addresses are judged as `block.address` judges them; text that is no text is found."""

import numpy as np
import pyarrow as pa
import pytest

from graveler.block import address
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.spark.import_columns import REASONS, Addresses, CheckedTable, Rules, check

RULES = Rules("s3://lake/repository")
TEXTS = [
    "s3://source/a",
    "s3a://source/a",
    "S3N://source/a b/é",
    "s3://source/a/",
    "s3://source/a//b",
    "s3://source//a",
    "s3://source/",
    "s3://source",
    "s3:///a",
    "s3://source/./a",
    "s3://source/a/..",
    "s3://source/.a/..b/c..",
    "s3://../a",
    "s3://source/a\\b",
    "s3://source/a\0b",
    "s3://source/a\nb",
    "s3://source/" + "x" * 2_036,
    "s3://source/" + "x" * 2_037,
    "no scheme",
    "1://source/a",
]


def judged(
    addresses: list[object],
    rules: Rules = RULES,
    kind: pa.DataType | None = None,
    metadata: pa.Array | None = None,
) -> CheckedTable:
    count = len(addresses)
    columns = {
        "path": pa.array([b"p%d" % number for number in range(count)], pa.binary()),
        "address": pa.array(addresses, kind or pa.string()),
        "size": pa.array([1] * count, pa.int64()),
        "checksum": pa.array(['"sum"'] * count, pa.string()),
        "mtime": pa.array([1] * count, pa.int64()),
        "metadata": pa.array([None] * count, pa.map_(pa.string(), pa.string())),
        "content_type": pa.array([None] * count, pa.string()),
    }
    if metadata is not None:
        columns["metadata"] = metadata
    if kind is not None:
        columns["address"] = columns["address"].view(pa.string())
    return check(pa.table(columns), rules)


@pytest.mark.parametrize("text", TEXTS)
def test_addresses_are_those_of_objects(text: str) -> None:
    try:
        expected = address.split(text).address
        is_s3 = expected.startswith("s3://")
    except Invalid:
        expected, is_s3 = "", True
    made = judged([text])
    if not expected:
        assert REASONS[made.reasons[0]] == "address is not one of an object"
    elif is_s3:
        assert (made.reasons[0], made.good.column("address").to_pylist()) == (0, [expected])
    else:
        assert "another scheme" in REASONS[made.reasons[0]]


@pytest.mark.parametrize("text", ["s3a://lake/repository/data/x", "s3://lake/repository/_lakefs/y"])
def test_what_lies_in_the_repository_is_no_source(text: str) -> None:
    assert "own storage namespace" in REASONS[judged([text]).reasons[0]]


def test_its_neighbour_is_one() -> None:
    assert not judged(["s3://lake/repository-2/x"]).reasons.any()


def test_own_writes_lie_below_data() -> None:
    rules = Rules(RULES.namespace, Addresses.RELATIVE)
    texts: list[object] = ["data/a/b", "data/..", "data/../x", "data", "_lakefs/x", "s3://lake/x"]
    assert list(judged(texts, rules).reasons != 0) == [False, True, True, True, True, True]


def test_bytes_that_are_no_text_are_told() -> None:
    made = judged([b"s3://source/\xff", b"s3://source/a"], kind=pa.binary())
    assert [REASONS[number] for number in made.reasons] == ["text is not UTF-8", ""]


def test_quotes_around_a_checksum_go() -> None:
    assert judged(["s3://source/a"]).good.column("checksum").to_pylist() == ["sum"]


def test_metadata_is_what_entries_may_have() -> None:
    most = limits.object_metadata_length_bytes_max
    rows: dict[int, list[tuple[str, str | None]] | None] = {
        0: None,
        1: [],
        2: [
            ("k", "v" * (most - 1)),
        ],
        3: [("", "v")],
        4: [("a", "1"), ("k", None)],
        5: [("k", "v" * most)],
        6: [(str(number), "") for number in range(limits.metadata_pairs_max)],
        7: [(str(number), "") for number in range(limits.metadata_pairs_max + 1)],
        8: [("k", "")],
        9: [("k", "é" * (most // 2))],
        10: [("k", "\ufffd")],
    }
    column = pa.array(list(rows.values()), pa.map_(pa.string(), pa.string()))
    reasons = judged(["s3://source/a"] * len(rows), metadata=column).reasons
    assert np.flatnonzero(reasons).tolist() == [3, 4, 5, 7, 9]
    assert {REASONS[number] for number in reasons} == {
        "",
        "metadata has an empty key or a null value, or is too large",
    }


def test_metadata_that_is_no_text_is_told() -> None:
    raw = pa.array([b"ok", b"\xff"], pa.binary()).view(pa.string())
    pairs = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["k", "k"]), raw)
    reasons = judged(["s3://source/a"] * 2, metadata=pairs).reasons
    assert (reasons[0], REASONS[reasons[1]][:8]) == (0, "metadata")


@pytest.mark.parametrize("name", ["path", "address", "checksum"])
@pytest.mark.parametrize("text", [None, b""])
def test_columns_without_any_text_are_told(name: str, text: bytes | None) -> None:
    table = judged(["s3://source/a"] * 2).table
    at = table.schema.get_field_index(name)
    column = pa.array([text] * 2, pa.binary()).cast(table.schema.field(name).type)
    reasons = check(table.set_column(at, name, column), RULES).reasons
    assert {REASONS[number] for number in reasons} == {f"{name} is null or empty"}
