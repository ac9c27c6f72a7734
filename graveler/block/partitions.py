"""Folders for the bytes of new objects, `data/<partition>/`: one for each hour and 10,000 objects.

    data/<hour, newest first><seed>/<unique>

The seed of an hour's first folder follows from its owner, so that processes share it; later ones
are random.  A file system grows slow with very large folders, and a list that is cut by folders
needs many of them; an object store does not care.  A process counts what it names itself: 100
processes may put 100 times as many objects into the first folder.
"""

import threading
from collections import OrderedDict
from typing import NamedTuple

from graveler import limits
from graveler.block.address import data_address
from graveler.clock import Clock, Ids

_OWNERS_MAX = 1_000  # of which a count is kept
_HOUR_NS = 3_600 * limits.SECOND_NS
_SEED_LENGTH = 7


class _Folder(NamedTuple):
    hour: int
    seed: bytes
    objects: int


class Partitions:
    """Fresh addresses for the bytes of objects.  For any number of threads."""

    def __init__(self, objects_max: int = limits.data_partition_objects_max) -> None:
        self._objects_max = objects_max
        self._folders: OrderedDict[str, _Folder] = OrderedDict()
        self._lock = threading.Lock()

    def new_address(self, clock: Clock, ids: Ids, owner: str) -> str:
        """A fresh relative address for bytes of `owner`, which is the uid of a repository."""
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
