"""Waiting for what another thread or process does: for the event itself, never for some time.

The bound is met by what hangs; a machine that is busy with something else stays far below it.
"""

import linecache
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

PATIENCE_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.01


def until(happened: Callable[[], object], what: str, look_seconds: float = _LOOK_SECONDS) -> None:
    """Return once `happened()` is true.  `look_seconds`: between two looks."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(look_seconds)


def stands_at(threads: Sequence[int], line: str) -> bool:
    """Whether one of the threads with these idents runs this line of source, or is blocked in
    it."""
    frames = sys._current_frames()
    standing = [frames[thread] for thread in threads if thread in frames]
    lines = {linecache.getline(each.f_code.co_filename, each.f_lineno) for each in standing}
    return line in map(str.strip, lines)
