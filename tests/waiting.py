"""Waiting for what another thread or process does: for the event itself, never for some time.

The bound is met by what hangs; a machine that is busy with something else stays far below it.
"""

import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.01


def until(happened: Callable[[], object], what: str) -> None:
    """Return once `happened()` is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(_LOOK_SECONDS)
