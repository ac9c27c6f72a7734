"""Committed entries as Arrow columns, decoded many at once; for one process, and for Spark's tasks.

This package and Spark's own pyarrow and numpy, which come with the extra `arrow`.  Importing the
package loads neither; calling `read_entries` does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graveler.lake.session import Session

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


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and where this process finds the objects of its repositories.

    `storage`: `local:FOLDER` (the folder `objects` in the served store) or `s3:BUCKET,BUCKET`,
    which is read with AWS's own chain of credentials.
    """

    session: Session
    storage: str


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
