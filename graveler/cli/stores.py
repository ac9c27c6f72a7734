"""Opens an existing store for a command that does not serve it.  For this folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graveler.assembly import Embedded, open_embedded, open_to_read
from graveler.errors import Conflict, NotFound, Unavailable


@contextmanager
def opened(
    folder: Path, import_roots: Sequence[Path] = (), *, remedy: str = "", read_only: bool = False
) -> Iterator[Embedded]:
    """The open store; it is closed at the end of the block.  `remedy`: what to do instead while a
    service has the store open.  `read_only`: see `open_to_read`.  Errors: `NotFound` if the folder
    has no store, `Unavailable` if another process has it open; those of `open_embedded`."""
    if not any((folder / part).exists() for part in ("kv", "key", "objects")):
        raise NotFound(
            f"no store in this folder: start `graveler serve` once to create it: store={folder}"
        )
    try:
        opening = open_to_read if read_only else open_embedded
        store = opening(folder, import_roots=import_roots)
    except Conflict as error:
        raise Unavailable(
            f"another process has this store open, for example `graveler serve`: store={folder}",
            remedy=remedy or "stop that process first",
        ) from error
    try:
        yield store
    finally:
        store.close()
