"""Chooses the folder for the bytes of new objects: `data/<hour, newest first><seed>/<unique>`.

A process begins a new folder for each hour and each 10,000 objects.  The seed of an hour's first
folder is derived from its owner, so that processes share it; later seeds are random.
"""

import threading
from collections import OrderedDict
from typing import NamedTuple

from graveler import limits
from graveler.block.address import data_address
from graveler.clock import Clock, Ids

_OWNERS_MAX = 1_000  # owners whose objects are counted
_HOUR_NS = 3_600 * limits.SECOND_NS
_SEED_LENGTH = 7


class _Folder(NamedTuple):
    hour: int
    seed: bytes
    objects: int


class Partitions:
    """Makes fresh addresses for the bytes of objects.  Thread-safe."""

    def __init__(self, objects_max: int = limits.data_partition_objects_max) -> None:
        self._objects_max = objects_max
        self._folders: OrderedDict[str, _Folder] = OrderedDict()
        self._lock = threading.Lock()

    def new_address(self, clock: Clock, ids: Ids, owner: str) -> str:
        """A fresh relative address for bytes of `owner`, the uid of a repository."""
        now_ns = clock.now_ns()
        return data_address(now_ns, ids, self._seed(now_ns // _HOUR_NS, ids, owner))

    def _seed(self, hour: int, ids: Ids, owner: str) -> bytes:
        with self._lock:
            folder = self._folders.pop(owner, None)
            if folder is None or folder.hour != hour:
                folder = _Folder(hour, owner.encode(), 0)
            elif folder.objects >= self._objects_max:
                folder = _Folder(hour, ids.unique(_SEED_LENGTH).encode(), 0)
            self._folders[owner] = folder._replace(objects=folder.objects + 1)
            if len(self._folders) > _OWNERS_MAX:
                self._folders.popitem(last=False)
        return folder.seed
