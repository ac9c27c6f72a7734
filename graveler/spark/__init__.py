"""Tables on branches, from PySpark; and bulk jobs, which run on the user's own cluster.

    lake = graveler.spark.connect(spark)
    main = lake.repository("shop").branch("main")
    main.table("orders").append(df, partition_by="day")
    main.table("orders").read(at="v1.0", where=[("day", ">=", "2026-11-01")]).show()

PySpark 3.5 and 4, DataFrames and `mapInArrow` only: no RDD, no jar.  Importing this package loads
neither PySpark nor pyarrow; the first use of a name does.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from graveler.core.errors import Unsupported

if TYPE_CHECKING:
    from graveler.spark.commits import commit
    from graveler.spark.connection import Lake, connect
    from graveler.spark.diffs import diff
    from graveler.spark.gc.collect import Collection, CollectionLimits, collect
    from graveler.spark.imports import import_
    from graveler.spark.lake import Credentials
    from graveler.spark.landing import Landed
    from graveler.spark.packs import Packed, pack
    from graveler.spark.streams import write_stream
    from graveler.spark.table import Table, TableSchema
    from graveler.spark.tables import entries, log, ranges
    from graveler.spark.tasks import BadRows

__all__ = [
    "BadRows",
    "Collection",
    "CollectionLimits",
    "Credentials",
    "Lake",
    "Landed",
    "Packed",
    "Table",
    "TableSchema",
    "collect",
    "commit",
    "connect",
    "diff",
    "entries",
    "import_",
    "log",
    "pack",
    "ranges",
    "register",
    "write_stream",
]

_NAMES: Final = {
    "commits": ("commit",),
    "connection": ("Lake", "connect"),
    "diffs": ("diff",),
    "gc.collect": ("CollectionLimits", "Collection", "collect"),
    "imports": ("import_",),
    "lake": ("Credentials",),
    "landing": ("Landed",),
    "packs": ("Packed", "pack"),
    "streams": ("write_stream",),
    "table": ("Table", "TableSchema"),
    "tables": ("entries", "log", "ranges"),
    "tasks": ("BadRows",),
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names}


def __dir__() -> list[str]:
    """The names that users call."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def register(lake: "Lake") -> None:
    """After this call, `format("graveler")` of this session reads, writes and follows this lake.

    Without it, Spark finds the format by itself, and the lake is that of `graveler.connect` where
    Spark plans.  The options are in `docs/reference/spark.md`; unknown ones are refused.  The ref
    of a load is resolved once: by `load`, or by the first action if a `schema` is given.  The
    DataFrame stays at that commit.

    The credentials stay in this process, which answers Spark's planning workers on this machine.
    Over Spark Connect to another machine, the environment of the Spark server must hold
    credentials.  Raises `Unsupported` before Spark 4.
    """
    if find_spec("pyspark.sql.datasource") is None:
        raise Unsupported(
            "data sources in Python need Spark 4.0 or newer; use "
            'lake.repository(…).branch(…).table("orders"): its read, append, overwrite and other '
            "verbs; and entries and diff"
        )
    sources = import_module("graveler.spark.datasource")
    planner = import_module("graveler.spark.planner").planner_of(
        lake.session, lake.store, sources.answered
    )
    lake.spark.dataSource.register(sources.source_of(planner))
