"""What commands remember between calls, in `$XDG_STATE_HOME/graveler` (`~/.local/state/graveler`).

    undo.jsonl     old heads of what this client moved or deleted (journal.py)
    bisect.json    the search that runs (bisect.py)

No secrets are in these files; the folder has mode 0700, the files 0600.  For this folder.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from graveler.errors import Invalid, Unavailable

_FILE_BYTES_MAX: Final = 16 << 20


def folder(variables: Mapping[str, str]) -> Path:
    """Where the files are."""
    known = variables.get("XDG_STATE_HOME", "")
    home = Path(variables.get("HOME") or Path.home())
    return (Path(known) if known.startswith("/") else home / ".local" / "state") / "graveler"


def make(folder: Path) -> None:
    """Make a folder, and those above it that are missing, with mode 0700.  Raises `OSError`."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read(file: Path) -> str:
    """The text of a file; empty if it does not exist.  Raises `Unavailable`, `Invalid`."""
    try:
        with file.open("rb") as handle:
            content = handle.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Unavailable(f"file cannot be read: {file}: {error.strerror}") from error
    if len(content) > _FILE_BYTES_MAX:
        raise Invalid(f"file is too large: {file}")
    return content.decode("utf-8", "replace")


def write(file: Path, text: str) -> None:
    """Replace a file atomically.  Raises `Unavailable`."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        make(file.parent)
        try:
            with open(fresh, "w", encoding="utf-8", opener=_private) as handle:
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
            fresh.replace(file)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"file cannot be written: {file}: {error.strerror}") from error


def append(file: Path, line: str) -> None:
    """Add a line; lines of several processes do not mix.  Raises `Unavailable`."""
    try:
        make(file.parent)
        with open(file, "ab", buffering=0, opener=_private) as handle:
            handle.write(f"{line}\n".encode())
    except OSError as error:
        raise Unavailable(f"file cannot be written: {file}: {error.strerror}") from error
