"""A table file in block storage, read by byte ranges.

The first request fetches the end of the file (64 KiB), which is kept until bytes before it are
read.  A file that is not longer than that is never requested again.
"""

from collections.abc import Sequence

from graveler.block.adapter import BlockStore
from graveler.committed.cache import BudgetedCache
from graveler.committed.table_end import TAIL_LENGTH, length_told
from graveler.errors import Corrupt, RangeUnsatisfiable
from graveler.records import ABSENT, Absent

_TAILS_LENGTH = 64 * TAIL_LENGTH  # the ends of files that were just opened and not read further

Tails = BudgetedCache["RemoteFile", bytes]


def room_for_tails() -> Tails:
    """A cache for the fetched ends of the files of one store."""
    return BudgetedCache(_TAILS_LENGTH)


class RemoteFile:
    """See `table.Source`.  Safe for any number of threads: a race costs only one more request."""

    def __init__(self, blocks: BlockStore, address: str, tails: Tails) -> None:
        self._blocks = blocks
        self.name = address
        self._size = -1
        self._whole = b""
        self._tails = tails
        self._is_tail_passed = False  # bytes before the fetched end were read

    @classmethod
    def written(
        cls, blocks: BlockStore, address: str, tails: Tails, content: Sequence[bytes]
    ) -> "RemoteFile":
        """The file that was just stored with this content, as if its first request was made."""
        file = cls(blocks, address, tails)
        file._hold(sum(map(len, content)), _end_of(content))
        return file

    def size(self) -> int:
        """The length in bytes.  Raises `NotFound`, `Corrupt`.  Cost: one request, the first
        time."""
        if self._size < 0:
            tail = self._blocks.read(self.name, -TAIL_LENGTH, TAIL_LENGTH)
            try:
                size = length_told(tail) if len(tail) == TAIL_LENGTH else len(tail)
            except Corrupt as error:
                raise Corrupt(f"{error}: table={self.name}") from error
            self._hold(size, tail)
        return self._size

    def _hold(self, size: int, tail: bytes) -> None:
        if size == len(tail):
            self._whole = tail
        else:
            self._tails.put(self, tail, len(tail))
        self._size = size

    @property
    def held(self) -> int:
        """The number of bytes that stay in memory as long as this object exists."""
        return len(self._whole)

    def read(self, offset: int, length: int) -> bytes:
        """These bytes.  Only bytes that are not in memory are requested."""
        if self._is_tail_passed:
            return self._asked(offset, length)
        tail = self._tail()
        begin = self.size() - len(tail)  # where the bytes in memory begin
        if not tail or offset + length <= begin:
            self._tails.forget(self)
            self._is_tail_passed = True
            return self._asked(offset, length)
        missing = max(0, begin - offset)
        at = max(0, offset - begin)
        known = exactly(tail[at : offset + length - begin], length - missing, self.name)
        return self._asked(offset, missing) + known if missing else known

    def _tail(self) -> bytes:
        """The bytes in memory: the whole file, its end, or nothing."""
        return self._whole or self._tails.get(self) or b""

    def _asked(self, offset: int, length: int) -> bytes:
        try:
            raw = self._blocks.read(self.name, offset, length)
        except RangeUnsatisfiable:  # the file ends before `offset`
            raw = b""
        return exactly(raw, length, self.name)

    def missing(self, offset: int, length: int) -> int:
        """How many of these bytes are not in memory."""
        tail = self._tail()
        return max(0, min(length, self.size() - len(tail) - offset)) if tail else length

    def whole(self) -> bytes | Absent:
        """All bytes, if they are in memory; otherwise ABSENT."""
        return self._whole if 0 <= self._size == len(self._whole) else ABSENT


def _end_of(content: Sequence[bytes]) -> bytes:
    """The last `TAIL_LENGTH` bytes, or all of them."""
    pieces: list[bytes] = []
    missing = TAIL_LENGTH
    for piece in reversed(content):
        if not missing:
            break
        pieces.append(piece[-missing:])
        missing -= len(pieces[-1])
    return b"".join(reversed(pieces))


def exactly(raw: bytes, length: int, name: str) -> bytes:
    """`raw`, if it has this length.  Otherwise raises `Corrupt`."""
    if len(raw) != length:
        raise Corrupt(f"table is shorter than its index states: table={name}")
    return raw
