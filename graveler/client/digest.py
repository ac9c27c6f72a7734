"""The MD5 of bytes that are on their way, computed in a second thread.

hashlib releases Python's lock, so a transfer and its checksum use two cores.  Few bytes are hashed
at once: a thread would cost more than it saves.  Only the standard library is needed.  For this
package, and for commands that transfer objects.
"""

import queue
import threading
from hashlib import md5
from typing import Final

_THREAD_BYTES_MIN: Final = 4 << 20
_AHEAD: Final = 8  # pieces that wait for the thread
Piece = bytes | memoryview


class Digest:
    """An MD5 of about `length` bytes.  Use it in a `with` block, which ends its thread."""

    def __init__(self, length: int) -> None:
        self._digest = md5(usedforsecurity=False)
        self._queue: queue.Queue[Piece | None] | None = None
        self._thread: threading.Thread | None = None
        if length >= _THREAD_BYTES_MIN:
            self._queue = queue.Queue(_AHEAD)
            self._thread = threading.Thread(target=self._run, name="digest", daemon=True)
            self._thread.start()

    def update(self, piece: Piece) -> None:
        """Add bytes.  They may be hashed later, so they must not be changed."""
        if self._queue is not None:
            self._queue.put(piece)
        else:
            self._digest.update(piece)

    def hexdigest(self) -> str:
        """The MD5 of all bytes; no more may follow."""
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """End the thread, after all bytes."""
        if self._thread is not None and self._queue is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = self._queue = None

    def __enter__(self) -> "Digest":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        waiting = self._queue
        assert waiting is not None
        while (piece := waiting.get()) is not None:
            self._digest.update(piece)
