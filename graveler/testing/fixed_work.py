"""A process that does always the same, and is asked now and then how long that takes.

What a request does in small: it is woken through a pipe, runs some Python, hashes, and answers
through a pipe.  So it slows as the machine becomes busy, and never because a store grows.  It ends
with whoever holds its stdin.  For tests only.
"""

import hashlib
import subprocess
import sys
import time

_BLOCK = bytes(512 * 1024)


class FixedWork:
    """The process, seen by who asks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def milliseconds(self) -> float:
        """From the question to the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        begun = time.monotonic()
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError("the fixed work ended")
        return 1000 * (time.monotonic() - begun)

    def close(self) -> None:
        self._process.communicate()


def _answer() -> None:
    for _ in sys.stdin.buffer:
        for number in range(2_000):
            hashlib.sha256(b"%d" % number).digest()
        hashlib.sha256(_BLOCK).digest()
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _answer()
