"""What each Python process of the tests runs first: it makes many small tasks cheap.

Before each task a Python worker of Spark drops what it knows of its path; of each archive there
(Spark puts three of its own first) Python then reads the whole directory anew, which took most of
the tests' time.  So archives come off the path: the packages of the environment are the same ones,
unpacked.

A worker is a fork of Spark's daemon, and imports what its first task needs; after each task it
collects garbage among all that it has imported.  So the daemon imports that once, before its first
fork, and keeps it out of every collection.
"""

import gc
import importlib
import os
import sys

_NEEDED = ("pandas", "pyarrow", "graveler.spark", "pyspark.sql.pandas.serializers")

sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()


def _prepare() -> None:
    if not gc.get_freeze_count():
        for name in _NEEDED:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()


if "pyspark.daemon" in sys.orig_argv:
    os.register_at_fork(before=_prepare)
