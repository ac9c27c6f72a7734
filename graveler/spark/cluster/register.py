"""Making a lake known to Spark 4 under `format("graveler")`.  For whoever uses the package."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from graveler.errors import Unsupported
from graveler.spark.cluster import plans
from graveler.spark.lake import Lake

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(lake: Lake) -> None:
    """From now on `spark.read.format("graveler").load("repository/ref/folder")` reads of this lake.

    Options: `table`: files (the default: the table there; `format`, and `partitions` as a JSON
    object), entries (`prefix`), diff (`left`: its other ref, both without a folder; `prefix`), log
    (of a ref; `limit`) or ranges; `columns`: their names, with commas.  `schema` counts for files,
    as that of `read`.  With Spark's setting for the pushdown of filters to Python on when this is
    called, filters on the path of entries and of a diff leave ranges out.  The ref is looked up
    once: by `load`, or by the first action if a `schema` is given; the DataFrame stays at that
    commit.

    Credentials stay in this process, which answers the planning workers of Spark on this machine.
    Over Spark Connect to another machine, the environment of its server must have credentials.
    `Unsupported` before Spark 4.
    """
    if find_spec("pyspark.sql.datasource") is None:
        raise Unsupported("Spark has data sources of Python from 4.0 on; use read, entries, diff")
    pushes = str(lake.spark.conf.get(_PUSHDOWN, "false")).lower() == "true"
    sources = import_module("graveler.spark.datasource")
    planner = plans.planner_of(lake.session, lake.store, sources.answered)
    lake.spark.dataSource.register(sources.source_of(planner, pushes))
