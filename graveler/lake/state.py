"""What commands remember between calls, in `$XDG_STATE_HOME/graveler` (`~/.local/state/graveler`).

    undo.jsonl     old heads of what this client moved or deleted (journal.py)
    bisect.json    the search that runs (bisect.py)
    local/         records of linked folders (transfers/records.py)
    uploads/       uploads in parts that are not complete (transfers/send.py)

No credentials are in these files; the folder has mode 0700, the files 0600.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from graveler.core import private_files
from graveler.core.errors import Invalid, Unavailable

_FILE_BYTES_MAX: Final = 16 << 20


def folder(variables: Mapping[str, str]) -> Path:
    """Where the files are."""
    known = variables.get("XDG_STATE_HOME", "")
    home = Path(variables.get("HOME") or Path.home())
    return (Path(known) if known.startswith("/") else home / ".local" / "state") / "graveler"


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
    try:
        private_files.make_folder(file.parent)
        private_files.replace(file, text.encode())
    except OSError as error:
        raise Unavailable(f"file cannot be written: {file}: {error.strerror}") from error


def append(file: Path, line: str) -> None:
    """Add a line; lines of several processes do not mix.  Raises `Unavailable`."""
    try:
        private_files.make_folder(file.parent)
        with open(file, "ab", buffering=0, opener=private_files.opener) as handle:
            handle.write(f"{line}\n".encode())
    except OSError as error:
        raise Unavailable(f"file cannot be written: {file}: {error.strerror}") from error
