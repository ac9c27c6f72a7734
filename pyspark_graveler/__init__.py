"""Spark 4 finds `format("graveler")` here, by the name of this package: nothing is registered.

The work is in `graveler.spark.datasource`, which is imported when the format is used: Spark imports
this package whenever it looks for formats.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):  # type: ignore[misc]
    """The data source.  Spark makes an instance for each load and save, and sends it to executors,
    so it has names and no secret.  `planner`: of a lake that `graveler.spark.register` has given to
    the session; else the lake is that of `graveler.connect`."""

    planner: Any = None
    is_sent = False  # whether this is a copy that Spark has sent

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.source = import_module("graveler.spark.datasource").source(self.planner, options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": self.source.pinned(), "is_sent": True}

    @classmethod
    def name(cls) -> str:
        return "graveler"

    def schema(self) -> Any:
        self.source = self.source.pinned()
        return self.source.schema()

    def reader(self, schema: Any) -> Any:
        return self.source.pinned().reader(schema)

    def streamReader(self, schema: Any) -> Any:
        return self.source.stream_reader(schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self.source.writer(schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        # Of each batch, Spark plans the tasks by a new instance, and lands it by a sent one.
        writer = self.source.stream_writer(schema, overwrite)
        return writer if self.is_sent else writer.planned()
