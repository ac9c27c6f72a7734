"""Files and folders for their owner alone: modes 0600 and 0700.

For what is secret, and for what other users must not change.  Every layer may use it.
"""

import os
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, with mode 0700.  Folders that exist keep
    their modes.  Raises `OSError`."""
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            place.mkdir(mode=0o700, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open`: a file that it makes has mode 0600."""
    return os.open(path, flags, 0o600)


def replace(file: Path, content: bytes) -> None:
    """Replace a file atomically; the new one has mode 0600.  Its content is durable before it has
    the name.  A link at the temporary name is removed, not followed.  Raises `OSError`; the file is
    as it was then."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)  # a process of this number was killed, or somebody planted it
    handle = os.open(fresh, _NEW, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(fresh, file)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
