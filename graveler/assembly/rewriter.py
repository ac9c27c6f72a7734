"""A process that rewrites ranges of an embedded store for the process that serves it.

    request   length (8 bytes, little endian) ‖ version of the package, namespace, break parameters,
              range, changes, replace
    answer    length ‖ the ranges in its place, and three counts; or nothing: do it yourself

Both are values of Python's built-in types by `marshal`, on the standard input and output.  The
process ends at the end of its input.  It only creates files, so it may end at any moment: nobody
knows a new range before the other process names it in a metarange.  A range that exists already,
which garbage collection may be about to delete, is left to that process.
"""

import argparse
import marshal
import os
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from graveler import __version__
from graveler.block.adapter import Beat, ObjectHead, unwatched
from graveler.block.local import LocalBlocks
from graveler.committed.apply import rewritten
from graveler.committed.ranges import Keyspace, Rewrite, Rewritten
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import AlreadyExists, GravelerError
from graveler.core.records import ABSENT, TOMBSTONE, Absent, BreakParameters, RangeRef

SYNCED: Final = "synced"
_LENGTH: Final = struct.Struct("<Q")
_CACHE_BYTES: Final = 4 << 20  # a range is read once, from its first record to its last
_MESSAGE_BYTES_MAX: Final = 1 << 30


def encoded(namespace: str, breaks: BreakParameters, rewrite: Rewrite) -> bytes:
    """A request."""
    changes = [(key, None if new is TOMBSTONE else new) for key, new in rewrite.changes]
    rule = (breaks.min_size, breaks.max_size, breaks.raggedness, breaks.salt)
    return marshal.dumps(
        (__version__, namespace, rule, _fields(rewrite.ref), changes, rewrite.replace)
    )


def decoded(answer: bytes) -> Rewritten | Absent:
    """The answer to a request."""
    value = marshal.loads(answer)
    if value is None:
        return ABSENT
    refs, added, changed, removed = value
    return Rewritten(tuple(RangeRef(*ref) for ref in refs), added, changed, removed)


def send(stream: BinaryIO, message: bytes) -> None:
    """Write a message."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """The next message.  Raises `EOFError` at the end, and for one that is cut or too long."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > _MESSAGE_BYTES_MAX:
        raise EOFError("message is too long")
    return _exactly(stream, length)


def _exactly(stream: BinaryIO, length: int) -> bytes:
    read = stream.read(length)
    if len(read) < length:
        raise EOFError("the stream has ended")
    return read


def _fields(ref: RangeRef) -> tuple[Any, ...]:
    return ref.id, ref.min_key, ref.max_key, ref.size, ref.count, ref.identity


def _answer(store: SstRangeStore, request: bytes) -> bytes:
    version, *order = marshal.loads(request)
    if version != __version__:  # the package was replaced since the service began
        return marshal.dumps(None)
    namespace, rule, ref, changes, replace = order
    space = Keyspace(store, namespace, BreakParameters(*rule))
    staged = [(key, TOMBSTONE if new is None else new) for key, new in changes]
    done = rewritten(space, Rewrite(RangeRef(*ref), staged, replace))
    if done is ABSENT:
        return marshal.dumps(None)
    refs = [_fields(each) for each in done.refs]
    return marshal.dumps((refs, done.added, done.changed, done.removed))


class _NewObjects(LocalBlocks):
    """Objects that this process creates.  It replaces none."""

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        raise AlreadyExists(f"another process has to replace it: address={destination}")


def main(objects: str, synced: str) -> None:
    """Answer requests until the input ends.  `objects`: the folder of the store's objects.
    `synced`: `SYNCED`, or empty: nothing is synced."""
    blocks = _NewObjects(
        Path(objects), clock=SystemClock(), ids=SystemIds(), synced=synced == SYNCED
    )
    files = StoredFiles(blocks)
    try:
        while True:
            try:
                request = receive(sys.stdin.buffer)
            except EOFError:
                return
            store = SstRangeStore(files, _CACHE_BYTES, _CACHE_BYTES, is_near=True)
            try:
                answer = _answer(store, request)
            except (GravelerError, OSError):
                answer = marshal.dumps(None)
            try:
                send(sys.stdout.buffer, answer)
            except BrokenPipeError:  # the other process was killed
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
                return
    finally:
        blocks.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("objects", help="the folder of objects of a store")
    parser.add_argument("synced", help=f"{SYNCED!r}, or empty")
    given = parser.parse_args()
    main(given.objects, given.synced)
