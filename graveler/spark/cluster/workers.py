"""Processes of Python that Spark starts for tasks: what each would do again for every task.

Before each task a worker of Spark has Python forget what it knows of its path, and of every archive
there Python then reads the whole directory anew: Spark puts two or three of its own first, which
takes longer than a small task (0.15 s of CPU).  These never change while a process lives.  After
each task it looks for garbage among all that was ever imported (0.03 s).  For this package.
"""

import gc
import os
import sys
from collections.abc import Iterable
from zipimport import zipimporter

from pyspark import TaskContext

from graveler.settings import environment


def settle() -> None:
    """Make this process ready for many tasks, if it is one that runs tasks.  Harmless when it is
    repeated, and wherever else it is called."""
    if TaskContext.get() is not None:
        settle_archives()
        gc.freeze()


class _Settled(zipimporter):
    """An archive whose directory stays as it was read."""

    def invalidate_caches(self) -> None:
        """Nothing: see the module."""


def settle_archives(paths: Iterable[str] = ()) -> None:
    """Keep what Python knows of the archives that this process was started with (`PYTHONPATH`, or
    `paths`); what is added to the path later is looked at as ever."""
    archives = list(paths) or environment().get("PYTHONPATH", "").split(os.pathsep)
    stems = {archive for archive in archives if os.path.isfile(archive)}
    for path, finder in list(sys.path_importer_cache.items()):
        # A folder within an archive has a finder of its own.
        if type(finder) is zipimporter and finder.archive in stems:
            sys.path_importer_cache[path] = _Settled(path)
