"""Committed entries as Arrow columns, decoded many at once; for one process, and for Spark's tasks.

    entries        what `read_entries`, the public reader, does; start here
    server         a server as the source of a reader
    decode         records to columns, and their names and types
    entry_columns  the same for the usual form of an entry, field by field
    scan           the records of a range as slices of buffers
    vectors        slices of one buffer, and numbers in it

This package and Spark's own pyarrow and numpy, which come with the extra `arrow`.  Importing the
package loads neither; calling `read_entries` does.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from graveler.arrow.server import Server

if TYPE_CHECKING:
    import pyarrow as pa

    from graveler.engine.ports import Ports

__all__ = ["COLUMNS", "Server", "read_entries"]

COLUMNS: Final = (
    "path",
    "address",
    "size",
    "checksum",
    "mtime",
    "metadata",
    "content_type",
    "identity",
)
_NEEDED: Final = ("numpy", "pyarrow")


def read_entries(
    source: "Ports | Server",
    repository: str,
    ref: str,
    columns: Sequence[str] = COLUMNS,
    *,
    prefix: str = "",
) -> "Iterator[pa.RecordBatch]":
    """The committed entries at a ref, in path order, as batches of the columns `columns`.

    `source`: the ports of an open store (`open_embedded(folder).ports`), or a server.  `ref`: a
    branch (its last commit; nothing that is only staged), a tag, a commit, or one of these with a
    modifier such as `~1`.  `columns`: some of `COLUMNS`, in the wanted order.  `prefix`: only
    paths that begin with it.

    The ref is resolved before the function returns, so later commits do not change what is read.
    Errors of the call: `Invalid`, `NotFound`, `Gone`, `Unavailable`.  Errors of the iteration:
    `Corrupt` if what is read disagrees with the metarange, `Gone`, `Unavailable`; what was returned
    before is right.  Cost: two or three KV requests, or two to the API; the metarange; one or a few
    requests to the object store for each range that may hold the prefix.  Memory: the metarange,
    and a few MiB.  Needs the extra `arrow`: without pyarrow, raises `ModuleNotFoundError`.
    """
    try:
        from graveler.arrow.entries import entries
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        raise ModuleNotFoundError(
            f"package {error.name} is not installed: it comes with pip install 'graveler[arrow]'",
            name=error.name,
        ) from error
    return entries(source, repository, ref, columns, prefix)
