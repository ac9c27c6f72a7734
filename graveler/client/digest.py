"""Uses the bytes of a transfer in a second thread, and computes their MD5 so.

The file system and hashlib release Python's lock, so a transfer and what is done with its bytes use
two cores.  Few bytes are used at once: a thread would cost more than it saves.  Bytes that are
received go through a few buffers, which are used again: new ones would cost the zeroing and the
page faults of each.

    take ──► a free buffer, filled ──► used ──► free again
                      └─► to the caller, who is done with it at the next call

Only the standard library is needed.  For this package, and for commands that transfer objects.
"""

import queue
import threading
from collections.abc import Callable
from hashlib import md5
from types import TracebackType
from typing import Final, TypeAlias

_THREAD_BYTES_MIN: Final = 4 << 20
_AHEAD: Final = 16  # pieces that wait for the thread
_BUFFER_BYTES: Final = 1 << 17  # the system takes longer for writes of more, if memory is full
_BUFFER_BYTES_MIN: Final = 1 << 12
_Item: TypeAlias = tuple[bytes | memoryview, memoryview | None]


class Pipeline:
    """Calls `use` with pieces, in their order; about `length` bytes in all.  Use it in a `with`
    block, which ends its thread.  After an error of `use` it is not called again.  Ctrl-C in the
    main thread may leave the thread behind, so use it there only if the process ends then."""

    def __init__(self, use: Callable[[bytes | memoryview], object], length: int) -> None:
        self._use = use
        self._error: BaseException | None = None
        # One more than the last byte, but not few: the content may be longer than it was said.
        self._buffer_bytes = min(max(length + 1, _BUFFER_BYTES_MIN), _BUFFER_BYTES)
        self._free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self._buffers_left = 1  # that are not made yet
        self._queue: queue.Queue[_Item | None] | None = None
        self._thread: threading.Thread | None = None
        if length >= _THREAD_BYTES_MIN:
            self._buffers_left = _AHEAD
            self._queue = queue.Queue(_AHEAD)
            self._thread = threading.Thread(target=self._run, name="pipeline", daemon=True)
            self._thread.start()

    def add(self, piece: bytes | memoryview, buffer: memoryview | None = None) -> None:
        """Use a piece, now or later.  `buffer`: for this class.  Raises the error of `use`, also
        for an earlier piece."""
        self._check()
        if self._queue is not None:
            self._queue.put((piece, buffer))
        else:
            self._try(piece, buffer)
            self._check()

    def take(self, read_into: Callable[[memoryview], int]) -> memoryview:
        """Add the bytes that `read_into` puts into a buffer, and return them; none at the end.
        They are valid until the next call.  Raises what `add` raises, before it reads."""
        self._check()
        buffer = self._buffer()
        try:
            piece = buffer[: read_into(buffer)]
        except BaseException:
            self._free.put(buffer)
            raise
        self.add(piece, buffer)
        return piece

    def close(self) -> None:
        """End the thread, after all pieces.  Raises the error of `use`."""
        self._end()
        self._check()

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._end()
        if kind is None:
            self._check()

    def _end(self) -> None:
        if self._thread is not None and self._queue is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = self._queue = None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _buffer(self) -> memoryview:
        """A buffer that is free, if need be after the thread is done with one."""
        if self._buffers_left and self._free.empty():
            self._buffers_left -= 1
            return memoryview(bytearray(self._buffer_bytes))
        return self._free.get()

    def _run(self) -> None:
        waiting = self._queue
        assert waiting is not None
        while (item := waiting.get()) is not None:
            self._try(*item)

    def _try(self, piece: bytes | memoryview, buffer: memoryview | None) -> None:
        try:
            if self._error is None:
                self._use(piece)
        except BaseException as error:  # the caller raises it
            self._error = error
        if buffer is not None:
            self._free.put(buffer)


class Digest:
    """An MD5 of about `length` bytes.  Use it in a `with` block, which ends its thread."""

    def __init__(self, length: int) -> None:
        self._digest = md5(usedforsecurity=False)
        self._pieces = Pipeline(self._digest.update, length)

    def update(self, piece: bytes) -> None:
        """Add bytes."""
        self._pieces.add(piece)

    def take(self, read_into: Callable[[memoryview], int]) -> memoryview:
        """As `Pipeline.take`."""
        return self._pieces.take(read_into)

    def hexdigest(self) -> str:
        """The MD5 of all bytes; no more may follow."""
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """End the thread, after all bytes."""
        self._pieces.close()

    def __enter__(self) -> "Digest":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
