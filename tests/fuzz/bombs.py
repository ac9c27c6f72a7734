"""Small files that would grow: tables whose blocks are right but for what they expand to.

As a program of its own it reads those in a folder and prints what each ended with, and by how many
KiB the process had grown by then.
"""

import argparse
import resource
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import cramjam

from graveler.core import limits
from graveler.core.errors import Corrupt
from graveler.core.identity import varint
from simulator.damage import footer, payload_of, read_table, sealed

_TRAILER = b"\1" + bytes(7)
_LENGTH = limits.table_block_length_bytes_max - 100
_ONE_RESTART = struct.pack("<II", 0, 1)


def dense(count: int) -> bytes:
    """As many whole entries as fit, each as short as it can be."""
    return payload_of([(at.to_bytes(3, "big") + _TRAILER, b"") for at in range(count)])


def repeated() -> bytes:
    """Three bytes an entry, each the key before it once more."""
    return b"\0\x08\0" + _TRAILER + b"\x08\0\0" * (_LENGTH // 3) + _ONE_RESTART


def long_keys() -> bytes:
    """One key of two megabytes, and then again and again."""
    key = b"a" * (_LENGTH // 2) + _TRAILER
    again = varint(len(key)) + b"\0\0"
    return b"\0" + varint(len(key)) + b"\0" + key + again * 300 + _ONE_RESTART


def shared() -> bytes:
    """Keys of a thousand bytes in order, of which each says twelve."""
    raw = bytearray(b"\0" + varint(1_008) + b"\0" + b"a" * 1_000 + _TRAILER)
    while len(raw) < _LENGTH:
        raw += varint(1_000) + b"\x0c\0" + len(raw).to_bytes(4, "big") + _TRAILER
    return bytes(raw) + _ONE_RESTART


def wide() -> bytes:
    """Whole keys of a thousand bytes, nearly as many as an index may have."""
    count = limits.table_index_expanded_bytes_max // 1_150
    return payload_of([(b"%08d" % at + b"a" * 1_000 + _TRAILER, b"\0\1") for at in range(count)])


def zeros() -> bytes:
    """A block of nothing, beyond what blocks may have."""
    return bytes(limits.table_block_length_bytes_max + 1)


BOMBS: dict[str, Callable[[], bytes]] = {
    "as many records as a block may have": lambda: dense(limits.table_block_records_count_max),
    "more records than that": lambda: dense(limits.table_block_records_count_max + 1),
    "repeated": repeated,
    "long keys": long_keys,
    "shared": shared,
    "wide": wide,
    "zeros": zeros,
}


def table(data: bytes, index: bytes = b"") -> bytes:
    """A table of this data block; `index`: with this in place of an index that is right."""
    raw = bytearray()

    def add(payload: bytes) -> bytes:
        stored = sealed(bytes(cramjam.snappy.compress_raw(payload)), 1)
        handle = varint(len(raw)) + varint(len(stored) - 5)
        raw.extend(stored)
        return handle

    first = add(data)
    metaindex = add(payload_of([]))
    entries = add(index or payload_of([(b"\xff" * 4 + _TRAILER, first)]))
    return bytes(raw) + footer(metaindex + entries)


def tables() -> Iterator[tuple[str, bytes]]:
    """Every bomb where records stand, and where the index stands."""
    for name, make in BOMBS.items():
        payload = make()
        yield f"{name}, data", table(payload)
        yield f"{name}, index", table(payload_of([]), payload)


def main(folder: Path) -> None:
    """Read every file of a folder, one after the other."""
    read_table(table(payload_of([(b"a" + _TRAILER, b"b")])))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for file in sorted(folder.iterdir()):
        try:
            read_table(file.read_bytes())
            ended = "read"
        except Corrupt:
            ended = "corrupt"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"{file.name}\t{ended}\t{grown}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="with the tables to read")
    main(parser.parse_args().folder)
