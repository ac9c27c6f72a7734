"""Registers a lake with Spark 4 as `format("graveler")`.  For users of the package."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from graveler.errors import Unsupported
from graveler.spark.cluster import plans
from graveler.spark.lake import Lake

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(lake: Lake) -> None:
    """After this call, `spark.read.format("graveler").load("repository/ref/folder")` reads from
    this lake.

    Options:

    - `table`: `files` (the default: the table in the folder; with `format`, and `partitions` as a
      JSON object), `entries` (with `prefix`), `diff` (with `left`, the other ref, and `prefix`;
      both refs without a folder), `log` (of a ref; with `limit`) or `ranges`;
    - `columns`: names of columns, separated by commas;
    - `ref`: replaces the ref in the path.

    A `schema` applies to files, as in `read`.  If Spark's setting for the pushdown of filters to
    Python is on at this call, filters on the path of entries and of a diff leave ranges out.  The
    ref is resolved once: by `load`, or by the first action if a `schema` is given.  The DataFrame
    stays at that commit.

    The credentials stay in this process, which answers Spark's planning workers on this machine.
    Over Spark Connect to another machine, the environment of the Spark server must hold
    credentials.  Raises `Unsupported` before Spark 4.
    """
    if find_spec("pyspark.sql.datasource") is None:
        raise Unsupported(
            "data sources in Python need Spark 4.0 or newer; use read, entries and diff"
        )
    pushes = str(lake.spark.conf.get(_PUSHDOWN, "false")).lower() == "true"
    sources = import_module("graveler.spark.datasource")
    planner = plans.planner_of(lake.session, lake.store, sources.answered)
    lake.spark.dataSource.register(sources.source_of(planner, pushes))
