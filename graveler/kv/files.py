"""The files of a RocksDB database, checked before RocksDB opens them.  The check changes nothing.

RocksDB replaces a database without `CURRENT`, drops all behind the first damaged record of a log,
and does not miss a removed log.  This module refuses such files, so that they can be saved.

    CURRENT           the name of the manifest
    MANIFEST-<n>      a log of edits: which tables and logs count
    <n>.log           a log of rows that are in no table yet
    <n>.sst           a table; RocksDB misses one that was removed

    log               blocks of 32 KiB; a record does not cross the end of a block
    record            masked CRC32C of type and payload (4) ‖ length (2) ‖ type (1) ‖ payload
    type              1 whole, 2 first, 3 middle, 4 last piece; numbers are little-endian
    payload           of a log of rows: number of the first row (8) ‖ count of rows (4) ‖ rows

A crash may tear the end of the last log.  Then no whole record is behind the end.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from graveler.core.errors import Corrupt, Unavailable
from graveler.core.identity import extended, is_torn

_BLOCK_BYTES: Final = 32 * 1024
_HEAD: Final = struct.Struct("<IHB")
_ROWS: Final = struct.Struct("<QI")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MASK: Final = 0xA282EAD8
_CURRENT: Final = re.compile(rb"MANIFEST-\d{6,19}\n")
_MANIFEST_NEW: Final = "MANIFEST-000001"  # until the creation of the database is complete
_LOG: Final = re.compile(r"(\d{6,19})\.log")
_DATA: Final = re.compile(r"\d{6,19}\.(sst|log|blob)|MANIFEST-\d+|OPTIONS-\d+")
BACK_UP: Final = "docs/how-to/back-up.md"
_REMEDY: Final = f"nothing was changed: restore the store from a back-up ({BACK_UP})"
# Tags of an edit, and those of numbers among them.  The tags of tables come behind them.
_LOG_NUMBER, _NEXT_FILE, _LAST_ROW = 2, 3, 4
_NUMBERS: Final = frozenset((_LOG_NUMBER, _NEXT_FILE, _LAST_ROW, 9, 10, 203))
_COMPARATOR: Final = 1
_SKIPPED: Final = 1 << 13  # tags with this bit have a length, and a reader may skip them


def holds_database(path: str) -> bool:
    """Whether the folder has a database.  Raises `Corrupt` if it has the files of one without
    `CURRENT`."""
    names = frozenset(os.listdir(path))
    if "CURRENT" in names:
        return True
    left = sorted(name for name in names if _DATA.fullmatch(name))
    if any(name != _MANIFEST_NEW for name in left):
        raise Corrupt(f"open kv store: the file is lost: file=kv/CURRENT left={left}; {_REMEDY}")
    return False  # nothing, or what a creation left that was interrupted


def check(path: str) -> None:
    """Raises `Corrupt` if a file is lost or damaged, so that opening would lose rows.

    Not noticed: tables, which RocksDB checks itself; a log that was cut, which looks as after a
    crash.  Cost: reads the manifest and the logs once.  Raises `Unavailable` if a file cannot be
    read."""
    try:
        _check(Path(path))
    except OSError as error:
        raise Unavailable(
            "open kv store: a file cannot be read: "
            f"file=kv/{os.path.basename(str(error.filename))} reason={error.strerror}"
        ) from error


def _check(folder: Path) -> None:
    manifest = folder / _manifest_name(folder)
    edits = _edits(manifest)
    matches = [match for match in map(_LOG.fullmatch, os.listdir(folder)) if match]
    logs = {int(match[1]): folder / match[0] for match in matches}
    numbers = sorted(number for number in logs if number >= edits.log_number)
    if manifest.name != _MANIFEST_NEW and not any(number < edits.next_file for number in numbers):
        raise Corrupt(
            f"open kv store: a log is lost, or the end of the manifest: file=kv/*.log "
            f"manifest={manifest.name} log_number={edits.log_number} left={numbers}; {_REMEDY}"
        )
    last = edits.last_row
    for number in numbers:
        last = _check_rows(logs[number], last)


def _manifest_name(folder: Path) -> str:
    content = (folder / "CURRENT").read_bytes()
    name = content.decode("ascii", "replace").strip()
    if not _CURRENT.fullmatch(content):
        raise Corrupt(f"open kv store: the file is damaged: file=kv/CURRENT; {_REMEDY}")
    if not (folder / name).is_file():
        raise Corrupt(
            f"open kv store: the file that CURRENT names is lost: file=kv/{name}; {_REMEDY}"
        )
    return name


class _Edits(NamedTuple):
    """What the edits of a manifest say: logs from `log_number` on count; files up to `next_file`
    existed when the last edit was written; the number of the last row then."""

    log_number: int
    next_file: int
    last_row: int


def _edits(manifest: Path) -> _Edits:
    numbers = {_LOG_NUMBER: 0, _NEXT_FILE: 0, _LAST_ROW: 0}
    log = _Log(manifest.read_bytes())
    for edit in log.records():
        numbers.update(_numbers(edit))
    if log.is_damaged():
        raise Corrupt(
            f"open kv store: the file is damaged: file=kv/{manifest.name} {log}; {_REMEDY}"
        )
    return _Edits(numbers[_LOG_NUMBER], numbers[_NEXT_FILE], numbers[_LAST_ROW])


def _numbers(edit: bytes) -> Iterator[tuple[int, int]]:
    """The numbers of an edit, up to the first tag of a table."""
    at = 0
    while at < len(edit):
        tag, at = _varint(edit, at)
        if tag not in _NUMBERS and tag != _COMPARATOR and not tag & _SKIPPED:
            return
        value, at = _varint(edit, at)
        if tag in _NUMBERS:
            yield tag, value
        else:
            at += value


def _varint(stored: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while at < len(stored):
        value |= (stored[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if stored[at - 1] < 0x80:
            break
    return value, at


def _check_rows(path: Path, last: int) -> int:
    """The number of the last row of a log, which continues after row `last`."""
    log = _Log(path.read_bytes())
    for record in log.records():
        if len(record) < _ROWS.size:
            continue
        first, count = _ROWS.unpack_from(record)
        if first > last + 1:
            raise Corrupt(
                f"open kv store: rows are lost before a record: file=kv/{path.name} "
                f"lost={last + 1} to {first - 1}; {_REMEDY}, or copy the folder and keep only what "
                f"is before them: `truncate -s {log.start} kv/{path.name}`, and remove the logs of "
                "higher numbers"
            )
        last = max(last, first + count - 1)
    if log.is_damaged():
        raise Corrupt(
            f"open kv store: the log is damaged: file=kv/{path.name} {log}; {_REMEDY}, or copy the "
            "folder and keep only what is before the damage: "
            f"`truncate -s {log.end} kv/{path.name}`, and remove the logs of higher numbers"
        )
    return last


class _Log:
    """The content of a log.  After `records` has ended: `end` is the end of the last whole record,
    and `broken` the place of the first piece that is not whole."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._whole = 0
        self._behind = 0
        self.start = 0
        self.end = 0
        self.broken = 0

    def __str__(self) -> str:
        return f"at={self.broken} records_before={self._whole} records_behind={self._behind}"

    def records(self) -> Iterator[bytes]:
        """The records, up to the first that is not whole.  `start`: where this one begins."""
        pieces: list[bytes] = []
        for at, kind, payload in self._pieces(0):
            if (kind in (_WHOLE, _FIRST)) == bool(pieces):
                self.broken = at
                return
            if kind in (_WHOLE, _FIRST):
                self.start = at
            pieces.append(payload)
            if kind in (_WHOLE, _LAST):
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
                pieces.clear()
                self._whole += 1
                self.end = self.broken

    def is_damaged(self) -> bool:
        """Whether the log is broken otherwise than a crash may tear its end."""
        content, at = self._content, self.broken
        if content.count(b"\0", at) == len(content) - at:
            return False  # nothing, or room that was never written
        self._behind = self._count_behind(at)
        if self._behind or len(content) - at < _HEAD.size:
            return bool(self._behind)
        _, length, _ = _HEAD.unpack_from(content, at)
        room = _BLOCK_BYTES - at % _BLOCK_BYTES
        end = at + _HEAD.size + length
        if end > len(content) and length + _HEAD.size <= room:
            return _is_whole(content, at, len(content) - at - _HEAD.size)  # with another length
        return not is_torn(content, at, min(end, at + room, len(content)))

    def _pieces(self, at: int) -> Iterator[tuple[int, int, bytes]]:
        """Place, type and payload of the pieces from `at` on.  Sets `broken` to the end of each."""
        content = self._content
        while True:
            if _BLOCK_BYTES - at % _BLOCK_BYTES < _HEAD.size:
                at += _BLOCK_BYTES - at % _BLOCK_BYTES
            self.broken = min(at, len(content))
            if at + _HEAD.size > len(content):
                return
            _, length, kind = _HEAD.unpack_from(content, at)
            if not _is_whole(content, at, length):
                return
            end = at + _HEAD.size + length
            self.broken = end
            yield at, kind, content[at + _HEAD.size : end]
            at = end

    def _count_behind(self, at: int) -> int:
        """How many records begin behind `at`: in the rest of its block at any byte, and then from
        the beginning of each block on."""
        content = self._content
        block = at - at % _BLOCK_BYTES + _BLOCK_BYTES
        starts = (
            *range(at + 1, min(block, len(content))),
            *range(block, len(content), _BLOCK_BYTES),
        )
        count = reached = 0
        for start in starts:
            if start < reached or start + _HEAD.size > len(content):
                continue
            if _WHOLE <= content[start + _HEAD.size - 1] <= _LAST:
                for place, kind, payload in self._pieces(start):
                    count += kind in (_WHOLE, _FIRST)
                    reached = place + _HEAD.size + len(payload)
        self.broken = at
        return count


def _is_whole(content: bytes, at: int, length: int) -> bool:
    """Whether a piece of this length begins at `at`, and has its checksum."""
    masked, _, kind = _HEAD.unpack_from(content, at)
    end = at + _HEAD.size + length
    room = _BLOCK_BYTES - at % _BLOCK_BYTES
    if not _WHOLE <= kind <= _LAST or end > len(content) or length + _HEAD.size > room:
        return False
    value = extended(0, content[at + _HEAD.size - 1 : end])
    return int(masked) == ((value >> 15 | value << 17) + _MASK) & 0xFFFFFFFF
