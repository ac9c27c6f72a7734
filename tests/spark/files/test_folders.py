"""Partition columns in the names of folders."""

import pyarrow as pa
import pytest

from graveler.core.errors import Invalid
from graveler.lake.folders import File, folder, layout


def kind(*values: str) -> tuple[pa.DataType, list[str | None]]:
    files = [File(f"t/a={value}/{at}", "x", 1) for at, value in enumerate(values)]
    found = layout(files, "t/")
    return found.columns["a"], [each.values[0] for each in found.files]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "02", "-3"], (pa.int32(), ["1", "02", "-3"])),
        (["2147483647", "-2147483648"], (pa.int32(), ["2147483647", "-2147483648"])),
        (["1", "2147483648"], (pa.int64(), ["1", "2147483648"])),
        (["-9223372036854775808"], (pa.int64(), ["-9223372036854775808"])),
        (["9223372036854775808"], (pa.decimal128(19, 0), ["9223372036854775808"])),
        (["1", "2.5", "2e-3"], (pa.float64(), ["1", "2.5", "2e-3"])),
        (["1", "x"], (pa.string(), ["1", "x"])),
        (["1_0"], (pa.string(), ["1_0"])),
        (["٣"], (pa.string(), ["٣"])),
        (["1", "__HIVE_DEFAULT_PARTITION__"], (pa.int32(), ["1", None])),
        (["__HIVE_DEFAULT_PARTITION__"], (pa.string(), [None])),
        (["a%2Fb%25", "é"], (pa.string(), ["a/b%", "é"])),
    ],
)
def test_types_are_the_narrowest_that_take_all(
    values: list[str], expected: tuple[pa.DataType, list[str | None]]
) -> None:
    assert kind(*values) == expected


def test_names_that_are_written_are_read_again() -> None:
    names = ["plain", "a=b", "ü x"]
    values = ["50%/'\"*:?\\{}[]^\x01", None, ""]
    made = folder(names, values)
    assert made.count("/") == 3 and "é" in folder(["é"], ["é"])
    found = layout([File(f"{made}f", "x", 1)], "")
    assert list(found.columns) == names
    assert found.files[0].values == (values[0], None, None)


@pytest.mark.parametrize(
    "paths",
    [["a=1/f", "f"], ["a=1/f", "b=1/f"], ["a=1/b=1/f", "b=1/a=1/f"], ["a=1/a=2/f"]],
)
def test_folders_of_different_columns_are_refused(paths: list[str]) -> None:
    with pytest.raises(Invalid, match="different columns"):
        layout([File(path, "x", 1) for path in paths], "")


def test_hidden_files_are_left_out() -> None:
    paths = ["_SUCCESS", ".x", "_d/f", "a/.b/f", "_a=1/f"]
    found = layout([File(path, "x", 1) for path in paths], "")
    assert [each.path for each in found.files] == ["_a=1/f"] and list(found.columns) == ["_a"]
