"""A Chromium for the tests of the page: `$CHROMIUM`, one of PATH, else Debian's package.

python -m tests.ui.chromium     prints its path; installs it where that is possible
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_INSTALL: Final = ("apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium")
_INSTALL_SECONDS: Final = 600
_REMEDY: Final = (
    "the tests of the page need a Chromium: install one (Debian: apt-get install chromium), or "
    "name one with CHROMIUM=PATH"
)


class NoChromium(Exception):
    """None is there, and none could be installed."""


def chromium() -> Path:
    """The program.  Raises `NoChromium`."""
    chosen = os.environ.get("CHROMIUM", "")
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise NoChromium(f"CHROMIUM={chosen} is no program; {_REMEDY}")
        return Path(chosen)
    found = _of_path()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        found = _installed()
    if found is None:
        raise NoChromium(_REMEDY)
    return found


def _installed() -> Path:
    """The program, installed by one process while the others wait: apt-get takes no second."""
    with (Path(tempfile.gettempdir()) / "graveler-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _of_path()
        if found is None:
            said = _install()
            found = _of_path()
            if found is None:
                raise NoChromium(f"{_REMEDY}; apt-get said: {said[-600:]}")
        return found


def _of_path() -> Path | None:
    return next((Path(place) for name in _NAMES if (place := shutil.which(name))), None)


def _install() -> str:
    text = ""
    for command in (("apt-get", "update", "-q"), _INSTALL):
        done = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        text += done.stdout + done.stderr
    return text


if __name__ == "__main__":
    argparse.ArgumentParser(description="Finds or installs a Chromium.").parse_args()
    try:
        print(chromium())
    except NoChromium as error:
        raise SystemExit(str(error)) from error
