"""Bulk work on Spark: jobs that are too large for one process run on the user's own cluster.

    from graveler.spark import Credentials, connect, entries, import_

    with connect(spark, "https://host", Credentials("KEY", "secret")) as lake:
        landed = import_(lake, rows, "repository/branch/folder", mode="merge")
        entries(lake, "repository/branch").groupBy("content_type").count().show()

The package works on PySpark 3.5 and 4.  It uses only DataFrames and `mapInArrow`: no RDD, no JVM
gateway, no jar.  The driver asks the API for references.  The executors read and write ranges in
the object store with the role of the job, and never see the API's secret.  This package is the
only owner of pyspark, and with `graveler.arrow`, which decodes entries, of pyarrow and numpy.
Importing it loads none of them; the first use of a name does.

    lake           the connection to the API, and where executors find objects; start here
    verbs/         what users call: import, commit, pack, entries, tables, read, write
    gc/            garbage collection of many repositories
    core/          tasks make and read ranges: cut, check, encode, build, scan, merge, compare
    files/         data files of tables: formats, folders with partition values
    cluster/       how a job works on a cluster: places, progress, results, credentials
    datasource     Spark 4's `format("graveler")`
    job, job_runs  the entry point of spark-submit, EMR and Glue; what it runs
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graveler.spark.cluster.register import register
    from graveler.spark.cluster.server import Credentials
    from graveler.spark.gc.collect import Careful, Collection, collect
    from graveler.spark.lake import Lake, connect
    from graveler.spark.verbs.commit import Committed, commit
    from graveler.spark.verbs.entries import entries
    from graveler.spark.verbs.land import BadRows, Imported, JobTerms, import_
    from graveler.spark.verbs.pack import Packed, pack
    from graveler.spark.verbs.read import read
    from graveler.spark.verbs.tables import diff, log, ranges
    from graveler.spark.verbs.write import Saved, SaveOptions, write

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

_HOMES: Final = {
    "BadRows": "verbs.land",
    "Careful": "gc.collect",
    "Collection": "gc.collect",
    "Committed": "verbs.commit",
    "Credentials": "cluster.server",
    "Imported": "verbs.land",
    "JobTerms": "verbs.land",
    "Lake": "lake",
    "Packed": "verbs.pack",
    "SaveOptions": "verbs.write",
    "Saved": "verbs.write",
    "collect": "gc.collect",
    "commit": "verbs.commit",
    "connect": "lake",
    "diff": "verbs.tables",
    "entries": "verbs.entries",
    "import_": "verbs.land",
    "log": "verbs.tables",
    "pack": "verbs.pack",
    "ranges": "verbs.tables",
    "read": "verbs.read",
    "register": "cluster.register",
    "write": "verbs.write",
}


def __dir__() -> list[str]:
    """The names that users call."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
