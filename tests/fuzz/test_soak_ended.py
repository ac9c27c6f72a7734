"""A soak that is ended early takes all that it started along, and says what it has."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.soak.leash import SIGNALS
from simulator.soak.run import Signals
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
_LOOK_SECONDS = 0.25  # a look reads the environment of every process of the machine
# Whoever runs the tests may ignore a signal, and children would inherit that.
_SOAK = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from simulator.soak.run import main
from simulator.soak.tracks import TRACKS
for name in sys.argv[1:]:
    del TRACKS[name]
sys.exit(main(["--minutes", "9", "--cores", "1"]))
"""
# Tracks that start no other programs than the rest do.
_LIKE_OTHERS = ("load", "collection", "programs", "exhaustive")


def _of(folder: Path) -> list[str]:
    """The processes whose environment names the folder."""
    mark, found = f"TMPDIR={folder}".encode(), []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (each / "environ").read_bytes():
                found.append((each / "cmdline").read_text())
        except OSError:
            continue  # it ended meanwhile
    return found


def _served(folder: Path) -> int:
    return sum("serve" in each for each in _of(folder))


@pytest.mark.parametrize("number", SIGNALS)
def test_each_signal_asks_for_an_early_end(number: signal.Signals) -> None:
    """The first of several counts; afterwards signals do what they did before."""
    others = {each: signal.signal(each, signal.SIG_IGN) for each in SIGNALS}
    signal.signal(number, signal.default_int_handler)
    try:
        with Signals() as signals:
            assert signals.number == 0
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGTERM)
            assert signals.number == number
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        for each, handler in others.items():
            signal.signal(each, handler)


@pytest.mark.parametrize(
    ("number", "left_out"),
    [(signal.SIGHUP, ()), (signal.SIGKILL, _LIKE_OTHERS)],
    ids=["hang-up", "kill"],
)
def test_nothing_is_left(tmp_path: Path, number: signal.Signals, left_out: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SOAK, *left_out],
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as soak:
        until(lambda: _served(tmp_path) >= 2, "two stores are served", _LOOK_SECONDS)
        soak.send_signal(number)
        out, _ = soak.communicate(timeout=PATIENCE_SECONDS)
    until(lambda: not _of(tmp_path), "all of its processes have ended", _LOOK_SECONDS)
    if number == signal.SIGKILL:
        assert soak.returncode == -number
        return  # nobody is left to tidy up
    assert soak.returncode == 128 + number
    figures = json.loads(out.splitlines()[-1])
    assert figures["signal"] == number
    assert figures["violations"] == 0, out
    assert list(tmp_path.iterdir()) == []
