"""Where the records of a linked folder are, and which server it was linked on.  For this folder."""

import os
from pathlib import Path

from graveler.cli.support import state
from graveler.clock import SystemClock
from graveler.errors import Contended, Unavailable
from graveler.local.disk import identity
from graveler.local.records import Records
from graveler.variables import environment


def real_path(directory: Path) -> Path:
    """The one path of a folder: its state is kept by it, and its parents are the folders that it is
    in, as those of `sales/../raw` are not."""
    return Path(os.path.realpath(directory))


def records_file(root: Path) -> Path:
    """The file with the records of the folder `root`."""
    return state.folder(environment()) / "local" / f"{identity(real_path(root))}.db"


def known_server(root: Path) -> str:
    """The URL of the server that a folder was linked on; empty if it is not known here."""
    file = records_file(root)
    if not file.exists():
        return ""
    try:
        records = Records(file, SystemClock())
    except (Contended, Unavailable):  # another command works in it, or it cannot be read
        return ""
    try:
        return records.note("server")
    finally:
        records.close()
