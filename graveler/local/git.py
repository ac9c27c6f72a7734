"""A linked folder in a working copy of Git: Git ignores its files, and commits name that of Git.

Git is run as a program; without it, or outside of a working copy, nothing happens.  For the
command.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from graveler.local.entries import STATE_FILE

MARKER: Final = "# ignored by lakectl local:"
COMMIT_KEY: Final = "git_commit_id"
_SECONDS: Final = 10


def ignore(root: Path) -> Path | None:
    """Add the folder to `.gitignore` of its working copy, unless it is there.  Returns the file if
    it was changed."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if not top:
        return None
    folder = root.resolve().relative_to(Path(top).resolve()).as_posix()
    head = "" if folder == "." else f"{folder}/"
    file = Path(top) / ".gitignore"
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
    """The working copy that a folder is in."""
    text = _git(root, "rev-parse", "--show-toplevel")
    return Path(text) if text else None


def _git(folder: Path, *words: str) -> str:
    """What git prints; nothing if it fails."""
    if not any(os.path.lexists(each / ".git") for each in (folder, *folder.parents)):
        return ""  # saves a process
    try:
        result = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
