"""A file of a table in block storage, read by ranges.

The first request fetches the end of the file, and from what stands there follows how long the file
is: no request asks for its size.  The end is kept until something before it is read, so that what
opening needs costs nothing more; all files of a store share the room for such ends.  A file that is
not longer than that is kept whole and never asked for again.  For `tiers.py`.
"""

from graveler.block.adapter import BlockStore
from graveler.committed.cache import BudgetedCache
from graveler.committed.table import TAIL_LENGTH, length_told
from graveler.errors import Corrupt
from graveler.records import ABSENT, Absent

_TAILS_LENGTH = 64 * TAIL_LENGTH  # of files that are being opened, or were and not read since

Tails = BudgetedCache["RemoteFile", bytes]


def room_for_tails() -> Tails:
    """Where the files of one store keep their ends."""
    return BudgetedCache(_TAILS_LENGTH)


class RemoteFile:
    """See `table.Source`.  Safe for any number of threads: a race costs a request, no more."""

    def __init__(self, blocks: BlockStore, address: str, tails: Tails) -> None:
        self._blocks = blocks
        self.name = address
        self._size = -1
        self._whole = b""
        self._tails = tails

    def size(self) -> int:
        """Raises `NotFound`.  Cost: one request, the first time."""
        if self._size < 0:
            tail = self._blocks.read(self.name, -TAIL_LENGTH, TAIL_LENGTH)
            try:
                size = length_told(tail) if len(tail) == TAIL_LENGTH else len(tail)
            except Corrupt as error:
                raise Corrupt(f"{error}: table={self.name}") from error
            if size == len(tail):
                self._whole = tail
            else:
                self._tails.put(self, tail, len(tail))
            self._size = size
        return self._size

    @property
    def held(self) -> int:
        """Bytes that are kept as long as this is."""
        return len(self._whole)

    def read(self, offset: int, length: int) -> bytes:
        """Only what is not at hand is asked for."""
        tail = self._tail()
        begin = self.size() - len(tail)  # where what is at hand begins
        if not tail or offset + length <= begin:
            self._tails.forget(self)
            return self._asked(offset, length)
        missing = max(0, begin - offset)
        at = max(0, offset - begin)
        known = exactly(tail[at : offset + length - begin], length - missing, self.name)
        return self._asked(offset, missing) + known if missing else known

    def _tail(self) -> bytes:
        """What is at hand of the file's end."""
        return self._whole or self._tails.get(self) or b""

    def _asked(self, offset: int, length: int) -> bytes:
        return exactly(self._blocks.read(self.name, offset, length), length, self.name)

    def missing(self, offset: int, length: int) -> int:
        """How many of these bytes are not at hand."""
        tail = self._tail()
        return max(0, min(length, self.size() - len(tail) - offset)) if tail else length

    def whole(self) -> bytes | Absent:
        """All bytes, if they are at hand."""
        return self._whole if 0 <= self._size == len(self._whole) else ABSENT


def exactly(raw: bytes, length: int, name: str) -> bytes:
    """`raw`, if it has this length.  Raises `Corrupt`."""
    if len(raw) != length:
        raise Corrupt(f"table is shorter than its index says: table={name}")
    return raw
