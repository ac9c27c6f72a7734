"""Bulk work on Spark: jobs that are too large for one process run on the user's own cluster.

    with connect(spark, "https://host", Credentials("KEY", "secret")) as lake:
        import_(lake, rows, "repository/branch/folder", mode="merge")

PySpark 3.5 and 4, DataFrames and `mapInArrow` only: no RDD, no jar.  Importing this package loads
neither PySpark nor pyarrow; the first use of a name does.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from graveler.core.errors import Unsupported

if TYPE_CHECKING:
    from graveler.spark.bulk_jobs import JobTerms
    from graveler.spark.commits import Committed, commit
    from graveler.spark.diffs import diff
    from graveler.spark.gc.collect import Careful, Collection, collect
    from graveler.spark.imports import Imported, import_
    from graveler.spark.lake import Credentials, Lake, connect
    from graveler.spark.packs import Packed, pack
    from graveler.spark.reads import count, read
    from graveler.spark.tables import entries, log, ranges
    from graveler.spark.tasks import BadRows
    from graveler.spark.writes import Saved, SaveOptions, write

__all__ = [
    "BadRows",
    "Careful",
    "Collection",
    "Committed",
    "Credentials",
    "Imported",
    "JobTerms",
    "Lake",
    "Packed",
    "SaveOptions",
    "Saved",
    "collect",
    "commit",
    "connect",
    "count",
    "diff",
    "entries",
    "import_",
    "log",
    "pack",
    "ranges",
    "read",
    "register",
    "write",
]

_NAMES: Final = {
    "bulk_jobs": ("JobTerms",),
    "commits": ("Committed", "commit"),
    "diffs": ("diff",),
    "gc.collect": ("Careful", "Collection", "collect"),
    "imports": ("Imported", "import_"),
    "lake": ("Credentials", "Lake", "connect"),
    "packs": ("Packed", "pack"),
    "reads": ("count", "read"),
    "tables": ("entries", "log", "ranges"),
    "tasks": ("BadRows",),
    "writes": ("SaveOptions", "Saved", "write"),
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
    """After this call, `spark.read.format("graveler").load("repository/ref/folder")` reads from
    this lake.

    Options:

    - `table`: `files` (the default: the table in the folder; with `format`, and `partitions` as a
      JSON object), `entries` (with `prefix`), `diff` (with `left`, the other ref, and `prefix`;
      both refs without a folder), `log` (of a ref; with `limit`) or `ranges`;
    - `columns`: names of columns, separated by commas;
    - `where`: conditions on the rows of files, as SQL of the form that `read` has;
    - `ref`: replaces the ref in the path.

    A `schema` applies to files, as in `read`.  Filters of Spark are applied after the read: name
    what can be left out before with `where`, `columns`, `prefix` and `partitions`.  The
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
    sources = import_module("graveler.spark.datasource")
    planner = sources.planner_of(lake.session, lake.store, sources.answered)
    lake.spark.dataSource.register(sources.source_of(planner))
