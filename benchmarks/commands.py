"""Runs commands as a user would, and times them: for starts.py and transfers.py."""

import os
import subprocess
import time
from pathlib import Path
from typing import Final

PROGRAM: Final = "import sys; from graveler.cli.entry import main; sys.exit(main())"
_ROOT: Final = Path(__file__).parent.parent
_SECONDS_MAX: Final = 600


def variables(home: Path) -> dict[str, str]:
    """The variables of a user with this home, who uses this checkout."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(_ROOT),
        "TERM": "dumb",
    }


def ended(
    command: list[str], variables: dict[str, str], *, said: str = "", shows: str = ""
) -> float:
    """The seconds until the command has ended.  `said`: its input.  Raises `RuntimeError` if it
    fails, or does not print `shows`."""
    begun = time.perf_counter()
    ran = subprocess.run(
        command,
        env=variables,
        input=said,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    seconds = time.perf_counter() - begun
    if ran.returncode or shows not in ran.stdout:
        raise RuntimeError(f"the command failed: {command} {ran.stdout} {ran.stderr}")
    return seconds
