"""A Chromium for the tests of the page: `$CHROMIUM`, one of PATH, else Debian's package."""

import os
import shutil
import subprocess
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
        installed = _install()
        found = _of_path()
        if found is None:
            raise NoChromium(f"{_REMEDY}; apt-get said: {installed[-600:]}")
    if found is None:
        raise NoChromium(_REMEDY)
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
