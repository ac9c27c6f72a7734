"""A map in memory that forgets the least recently used once its budget is spent.

The sum of the costs that callers name never exceeds the budget; what costs more than the budget
alone is not kept.  Safe for any number of threads; a value that was handed out stays valid after it
is forgotten.  For the stores of this package.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BudgetedCache(Generic[K, V]):
    """Least recently used out first.  `get` and `put` take constant time."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._spent = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, now the most recently used; None if it is not kept."""
        entries = self._entries
        entry = entries.get(key)
        if entry is None:
            return None
        with suppress(KeyError):  # another thread has just pushed it out: as good as before
            entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Keep `value`, pushing out others as needed."""
        if cost > self._budget:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._spent -= old[1]
            self._entries[key] = (value, cost)
            self._spent += cost
            while self._spent > self._budget:
                _, (_, freed) = self._entries.popitem(last=False)
                self._spent -= freed

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._spent = 0

    @property
    def spent(self) -> int:
        """The sum of the costs of what is kept."""
        return self._spent
