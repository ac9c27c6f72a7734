"""Stores whose pages are shorter than asked for, as their contracts allow."""

from typing import Any

from graveler.block.adapter import Blocks, ObjectPage
from graveler.kv.store import ScanPage, Store


class ShortScans:
    """A key-value store whose pages have at most `rows_max` rows."""

    def __init__(self, kv: Store, rows_max: int) -> None:
        self._kv = kv
        self._rows_max = rows_max

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._kv, verb)

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        return self._kv.scan(partition, start, end, min(limit, self._rows_max))


class ShortLists:
    """An object store whose pages have at most `lines_max` lines."""

    def __init__(self, blocks: Blocks, lines_max: int) -> None:
        self._blocks = blocks
        self._lines_max = lines_max

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._blocks, verb)

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        return self._blocks.list(prefix, after, min(limit, self._lines_max))
