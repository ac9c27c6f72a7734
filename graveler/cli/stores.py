"""Opens an existing store for a command that does not serve it.  For this folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graveler.assembly import Embedded, open_embedded
from graveler.errors import NotFound


@contextmanager
def opened(folder: Path, import_roots: Sequence[Path] = ()) -> Iterator[Embedded]:
    """The open store; it is closed at the end of the block.  Errors: `NotFound` if the folder has
    no store; those of `open_embedded`."""
    if not (folder / "kv").is_dir():
        raise NotFound(
            f"no store in this folder: start `graveler serve` once to create it: store={folder}"
        )
    store = open_embedded(folder, import_roots=import_roots)
    try:
        yield store
    finally:
        store.close()
