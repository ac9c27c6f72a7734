"""Bulk work on Spark: what is too much for one process runs on the users' own cluster.

    from graveler.spark import connect, entries, import_

    with connect(spark, "https://host", ("KEY", "secret")) as lake:
        landed = import_(lake, rows, "repository/branch/folder", mode="merge")
        entries(lake, "repository/branch").groupBy("content_type").count().show()

Works on PySpark 3.5 and 4, with DataFrames and `mapInArrow` alone: no RDD, no JVM gateway, no jar.
The driver asks the API for references; the executors read and write ranges in the object store with
the role of the job, and never see the API's secret.  The one owner of pyspark, pyarrow and numpy,
none of which is loaded before something is asked for.

    lake        connect: a session with the API, and where executors find objects
    landing     import_: begin a bulk job, import, land
    committing  commit: very many uncommitted rows     overlaying  newest rows onto a base
      staged    how the rows reach the executors       pieces      tables in the object store
    importing   a DataFrame into ranges and a metarange: the two passes and what the driver does
      columns   any DataFrame's columns in one form         checking   which rows can be entries
      cuts      break keys, buckets, tasks                  encoding   framed values
      tasks     what runs on the executors                  merging    onto a base
      joining   the ranges of all buckets, seams mended by tasks
      results   what tasks send back                        places     how a worker opens the store
      markers   what is finished, for a driver that comes after
    reading     entries at a ref as a DataFrame             decoding   records as Arrow columns
    loading     read: a table at a ref                      folders    partition columns in paths
      formats   Parquet, ORC, CSV, JSON                     pinned     a ref held fast
      files     objects as files; Parquet                   texts      CSV, JSON
    saving      write: a table, as one commit               storing    what its tasks do
    collecting  collect: garbage of many repositories       scopes     roots, earlier runs
      listing   what is stored      uses      what is in use      sweeping  deletes
    packing     pack: the head in other ranges               repacking  its tasks
      layouts   what ranges cost, how many there would be
    tables      diff, log, ranges as DataFrames             comparing  stretches of two commits
    registering register: Spark 4's format("graveler")      source     the data source
      planning  how planning workers reach the driver
    inventories an S3 Inventory as rows of an import
    job         the entry point of spark-submit, EMR and Glue    job_runs   what its jobs do
      credentials  of the API, for a job
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from graveler.spark.collecting import Careful, Collection, collect
    from graveler.spark.committing import Committed, commit
    from graveler.spark.lake import Lake, connect
    from graveler.spark.landing import BadRows, Imported, JobTerms, import_
    from graveler.spark.loading import read
    from graveler.spark.packing import Packed, pack
    from graveler.spark.reading import entries
    from graveler.spark.registering import register
    from graveler.spark.saving import Saved, SaveOptions, write
    from graveler.spark.tables import diff, log, ranges

__all__ = [
    "BadRows",
    "Careful",
    "Collection",
    "Committed",
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
    "BadRows": "landing",
    "Careful": "collecting",
    "Collection": "collecting",
    "Committed": "committing",
    "Imported": "landing",
    "JobTerms": "landing",
    "Lake": "lake",
    "Packed": "packing",
    "SaveOptions": "saving",
    "Saved": "saving",
    "collect": "collecting",
    "commit": "committing",
    "connect": "lake",
    "diff": "tables",
    "entries": "reading",
    "import_": "landing",
    "log": "tables",
    "pack": "packing",
    "ranges": "tables",
    "read": "loading",
    "register": "registering",
    "write": "saving",
}


def __getattr__(name: str) -> Any:
    """What stands in `__all__`."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
