"""Calls of delta-rs in the process of `called.py`, with answers that can be pickled."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
from deltalake import DeltaTable, QueryBuilder, write_deltalake


class Table:
    """A table that is open at one version."""

    def __init__(self, uri: str, storage: dict[str, str]) -> None:
        self._table = DeltaTable(uri, storage_options=storage)

    def append(self, rows: pyarrow.Table) -> None:
        """Commit after the version that is open; a version that another writer has made meanwhile
        is read first."""
        write_deltalake(self._table, rows, mode="append")

    def merge(self, rows: pyarrow.Table) -> None:
        """Update rows of the same id, and insert the others."""
        merger = self._table.merge(
            rows, "target.id = source.id", source_alias="source", target_alias="target"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, predicate: str) -> None:
        self._table.delete(predicate)

    def compact(self) -> None:
        self._table.optimize.compact()

    def vacuum(self) -> Sequence[str]:
        """Delete the files of the folder that this version does not need: their paths."""
        return self._table.vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
        )

    def checkpoint(self) -> None:
        self._table.create_checkpoint()

    def rows(self, **more: Any) -> pyarrow.Table:
        found: pyarrow.Table = self._table.to_pyarrow_table(**more)
        return found.sort_by("id")

    def operations(self) -> Sequence[str]:
        """What made each version, the first one first."""
        history: Sequence[Mapping[str, Any]] = self._table.history()
        return [each["operation"] for each in reversed(history)]

    def files(self) -> Sequence[str]:
        return sorted(self._table.file_uris())


def query(uri: str, storage: dict[str, str], statement: str, **more: Any) -> pyarrow.Table:
    """What a statement about the table `t` returns.  The engine of queries reads files anywhere;
    `to_pyarrow_table` reads those below the table alone."""
    table = DeltaTable(uri, storage_options=storage, **more)
    return pyarrow.table(QueryBuilder().register("t", table).execute(statement).read_all())
