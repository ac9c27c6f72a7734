"""What a transfer shows on a terminal while it runs.

The clock of these tests is the transfer itself: a second is over when 1 MiB has moved.  So what is
shown depends on no speed.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from graveler.cli.support.progress import Display
from graveler.lake.transfers.workers import Tally
from tests.cli.commands import Terminal, opened_terminal

MIB = 1 << 20
DRAWINGS_MAX = 300


@dataclass(frozen=True)
class ClockOfBytes:
    """A clock that runs with a tally."""

    tally: Tally

    def now_ns(self) -> int:
        return int(self.steady_seconds() * 10**9)

    def steady_seconds(self) -> float:
        return self.tally.bytes_moved / MIB

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a display waits for its thread, and never for the clock")


@contextmanager
def displayed(tally: Tally, patch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """The terminal that shows a transfer; standard error is on it."""
    ours, theirs = opened_terminal()
    patch.setenv("TERM", "xterm")
    with open(theirs, "w", 1, encoding="utf-8") as stream, patch.context() as streams:
        streams.setattr(sys, "stderr", stream)
        display = Display(tally, ClockOfBytes(tally))
        display.start()
        try:
            yield Terminal(None, ours)
        finally:
            display.stop()
    os.close(ours)


def until(shown: Terminal, words: str) -> None:
    """Read until these words have been shown, or it is drawn so often that they will not be."""
    for _ in range(DRAWINGS_MAX):
        if words in shown.text:
            return
        assert shown.reads(), shown.text
    raise AssertionError(f"the bar does not show {words!r}: {shown.text[-400:]!r}")


def test_a_bar_shows_the_rate_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()
    for _ in range(2):
        tally.expect(50 * MIB)
    with displayed(tally, monkeypatch) as shown:
        until(shown, "0/2")
        for moved in (10, 20, 30):
            tally.moved(10 * MIB)
            until(shown, f"{moved}.0/100.0 MiB")
        until(shown, "1.0 MiB/s")
        until(shown, "0:01:10")
        shown.text = ""
        tally.moved(20 * MIB)
        tally.ended()
        until(shown, "1/2")
        until(shown, "50.0/100.0 MiB")
        until(shown, "0:00:50")
        assert "1.0 MiB/s" in shown.text
