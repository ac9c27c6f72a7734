"""A process that repeats the same fixed work, and a measurement of how long the work takes.

The work is a small copy of what a request does: the process is woken through a pipe, runs some
Python, hashes, syncs a page of a file beside the store, and answers through a pipe.  So it becomes
slower when processors or the disk are busy, and never because a store grows.  It ends when its
stdin is closed.  For tests only.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

_BLOCK = bytes(512 * 1024)
_PAGE_BYTES = 4096


class FixedWork:
    """The process, as its caller sees it.  It writes one file into `folder`."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", __name__, str(folder / "fixed-work")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def milliseconds(self) -> float:
        """The time from the request to the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        begun = time.monotonic()
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError("the fixed work ended")
        return 1000 * (time.monotonic() - begun)

    def close(self) -> None:
        self._process.communicate()


def _answer(file: str) -> None:
    page = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    for turn, _ in enumerate(sys.stdin.buffer):
        for number in range(2_000):
            hashlib.sha256(b"%d" % number).digest()
        hashlib.sha256(_BLOCK).digest()
        os.pwrite(page, bytes([turn % 256]) * _PAGE_BYTES, 0)
        os.fsync(page)
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Repeats fixed work until stdin is closed.")
    parser.add_argument("folder", help="where the work syncs a file")
    _answer(parser.parse_args().folder)
