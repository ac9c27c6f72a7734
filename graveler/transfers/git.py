"""A linked folder in a working copy of Git: Git ignores its files, and commits name that of Git.

Git is run as a program; without it, or outside of a working copy, nothing happens.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from graveler.transfers.link import STATE_FILE

MARKER: Final = "# ignored by lakectl local:"
COMMIT_KEY: Final = "git_commit_id"
_SECONDS: Final = 10
# Files of a branch are no repository, whatever their names.
_SAFE: Final = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")


def ignore(root: Path) -> Path | None:
    """Add the folder to `.gitignore` of its working copy, unless it is there.  Returns the file if
    it was changed.  A file that cannot be written, or is not UTF-8, stays as it is."""
    place = top(root)
    if place is None:
        return None
    try:
        return _ignore(root, place)
    except (OSError, ValueError):
        return None


def _ignore(root: Path, place: Path) -> Path | None:
    folder = root.resolve().relative_to(place.resolve()).as_posix()
    head = "" if folder == "." else f"{folder}/"
    file = place / ".gitignore"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if f"{head}*" in text.splitlines():
        return None
    section = f"\n{MARKER}\n{head}*\n!{head}{STATE_FILE}\n\n"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(section if not text or text.endswith("\n") else f"\n{section}")
    return file


def metadata(root: Path) -> dict[str, str]:
    """What a commit says of the working copy."""
    commit = _git(root, "rev-parse", "--short", "HEAD")
    return {COMMIT_KEY: commit} if commit else {}


def top(root: Path) -> Path | None:
    """The working copy that a folder is in.  A configuration that names another place is not
    followed."""
    text = _git(root, "rev-parse", "--show-toplevel")
    if not text or not os.path.lexists(Path(text) / ".git"):
        return None
    return Path(text) if root.resolve().is_relative_to(Path(text).resolve()) else None


def _git(folder: Path, *words: str) -> str:
    """What git prints; nothing if it fails."""
    if not any(os.path.lexists(each / ".git") for each in (folder, *folder.parents)):
        return ""  # saves a process
    try:
        result = subprocess.run(
            ["git", *_SAFE, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
