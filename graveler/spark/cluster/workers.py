"""Settles Python worker processes of Spark, so that they do not repeat work for every task.

Before each task, a Spark worker makes Python invalidate its import caches.  Python then reads the
directory of every archive on the path again.  Spark puts two or three of its own archives first,
and reading them takes longer than a small task (0.15 s of CPU).  These archives never change while
a process lives.  After each task the worker runs a garbage collection over everything that was ever
imported (0.03 s).  For this package.
"""

import gc
import os
import sys
from collections.abc import Iterable
from zipimport import zipimporter

from pyspark import TaskContext

from graveler.settings import environment


def settle() -> None:
    """Prepare this process for many tasks, if it runs tasks.  Calling it again, or in any other
    process, does no harm."""
    if TaskContext.get() is not None:
        settle_archives()
        gc.freeze()


class _CachedImporter(zipimporter):
    """An importer for an archive whose directory is read once."""

    def invalidate_caches(self) -> None:
        """Do nothing (see the module)."""


def settle_archives(paths: Iterable[str] = ()) -> None:
    """Keep the directories of the archives with which this process was started (`PYTHONPATH`, or
    `paths`).  Archives that are added to the path later are read as usual."""
    archives = list(paths) or environment().get("PYTHONPATH", "").split(os.pathsep)
    stems = {archive for archive in archives if os.path.isfile(archive)}
    for path, finder in list(sys.path_importer_cache.items()):
        # A folder within an archive has its own finder.
        if type(finder) is zipimporter and finder.archive in stems:
            sys.path_importer_cache[path] = _CachedImporter(path)
