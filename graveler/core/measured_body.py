"""A body that is counted and hashed while a consumer stores it.

    chunks ──┬──► consumer: verifies, writes
             └──► thread: MD5, for what comes after the first MiB

MD5 takes longer than any other step of a large body, and hashing leaves the interpreter's lock to
others.  So a thread of its own lets the body move at the speed of MD5 alone.  Lower than every
other package; used by engine/ and the local driver of block/.
"""

import hashlib
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import Queue
from typing import Final, Literal

from graveler.core.records import ABSENT, Absent

_INLINE_BYTES: Final = 1024 * 1024
_WAITING_COUNT_MAX: Final = 4  # chunks that the thread has not hashed
_END: Final = b""


class MeasuredBody:
    """A body that counts and hashes its bytes while a consumer reads it.  The hash is MD5, as in
    the etags of S3.

    Memory holds a few chunks more than the consumer does.  One reader at a time.  The thread ends
    with the iteration, also if the consumer stops early or the body fails.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._digest = hashlib.md5(usedforsecurity=False)
        self._waiting: Queue[bytes] | Literal[Absent.ABSENT] = ABSENT
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._chunks:
                self._add(chunk)
                yield chunk
        finally:
            waiting, self._waiting = self._waiting, ABSENT
            if waiting is not ABSENT:
                waiting.put(_END)
                waiting.join()

    @property
    def checksum(self) -> str:
        """The MD5, in hex digits, of the bytes read so far."""
        if self._waiting is not ABSENT:
            self._waiting.join()
        return self._digest.hexdigest()

    def _add(self, chunk: bytes) -> None:
        if self._waiting is ABSENT and self.size >= _INLINE_BYTES:
            self._begin()
        self.size += len(chunk)
        if self._waiting is ABSENT:
            self._digest.update(chunk)
        elif chunk:
            self._waiting.put(chunk)

    def _begin(self) -> None:
        """Start the thread.  If the system starts none, the reader goes on hashing."""
        waiting: Queue[bytes] = Queue(_WAITING_COUNT_MAX)
        thread = threading.Thread(target=self._hash, args=(waiting,), name="md5", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            self._waiting = waiting

    def _hash(self, waiting: "Queue[bytes]") -> None:
        is_ended = False
        while not is_ended:
            chunk = waiting.get()
            self._digest.update(chunk)
            is_ended = chunk == _END
            del chunk  # while the thread waits, it keeps no bytes alive
            waiting.task_done()
