"""Partition columns in the names of folders: `year=2024/city=S%C3%A3o/part-0.parquet`.

The rules are those of Hive and Spark, applied to logical paths: values are URL-encoded, one special
name stands for null, and the types are inferred from the values (`partitions.py`).  Pure; for this
package.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from graveler.errors import Invalid
from graveler.spark.files.partitions import column_type

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")


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
    """Read the partition columns from the paths below `prefix`; hidden files are left out.

    Raises `Invalid` if files lie in folders of different columns.
    """
    seen = [each for each in files if not _is_hidden(each.path[len(prefix) :])]
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


def _is_hidden(path: str) -> bool:
    return any(part[:1] in ("_", ".") and "=" not in part for part in path.split("/"))


def _pairs(path: str) -> list[tuple[str, str | None]]:
    pairs = []
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            pairs.append((unquote(name), None if value == NULL else unquote(value)))
    return pairs
