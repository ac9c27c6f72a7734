"""Ways into a lake that need packages of an extra: a store in this process, and fsspec."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graveler.lake.errors import needing, raising
from graveler.lake.lake import Lake

if TYPE_CHECKING:
    from graveler.lake.embedded import EmbeddedLake
    from graveler.lake.filesystem import GravelerFileSystem


@raising
def open_lake(
    folder: str | os.PathLike[str], *, import_roots: Sequence[str | os.PathLike[str]] = ()
) -> "EmbeddedLake":
    """The store in a folder, which is created if it does not exist or is empty.

    No server is needed, and whoever opens it may do everything.  One process at a time has a store
    open; a process that opens it again gets the same store, which closes with the last of these
    lakes.  `import_roots`: folders that imports may read.  Raises `Conflict` if another process has
    the store open: to use it from both, serve it (`graveler serve`) and connect; `Invalid` if the
    folder has other files; `Corrupt` for a damaged store.  Needs the extra `server`.
    """
    with needing("server"):
        from graveler.lake import embedded
    return embedded.opened(folder, import_roots)


def fs(lake: Lake | None = None, **more: Any) -> "GravelerFileSystem":
    """The file system of fsspec, with paths `REPOSITORY/REF/PATH`, for what takes one: DuckDB's
    `register_filesystem`, Dask, Ray.

    `lake`: an open one; without it that of `connect()`.  `more`: `endpoint_url`, `key`, `secret`,
    `token`, `profile` instead of a lake, and what fsspec knows.  Needs the extra `fsspec`.
    """
    with needing("fsspec"):
        from graveler.lake.filesystem import GravelerFileSystem
    return GravelerFileSystem(**({} if lake is None else {"lake": lake}), **more)
