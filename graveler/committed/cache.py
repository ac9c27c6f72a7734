"""An in-memory cache with a budget that evicts entries that were not used recently (second chance).

Callers state the cost of each entry; the sum never exceeds the budget.  A read takes no lock and
only marks its entry; eviction starts at the oldest entry and spares marked ones once.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _CachedValue(Generic[V]):
    __slots__ = ("cost", "used", "value")

    def __init__(self, value: V, cost: int) -> None:
        self.value = value
        self.cost = cost
        self.used = False


class CacheFigures(NamedTuple):
    """How often a cache had a value, how often it had none, and the costs of what it holds.

    Threads count without a lock, so a few look-ups may be missing.
    """

    hits: int
    misses: int
    spent: int


class BudgetedCache(Generic[K, V]):
    """A map with a budget.  `get` takes constant time, `put` constant time on average."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._spent = 0
        self._entries: OrderedDict[K, _CachedValue[V]] = OrderedDict()  # oldest first
        self._lock = threading.Lock()
        self._hits = 0
        self._misses = 0

    def get(self, key: K) -> V | None:
        """The value, or None if it is not kept."""
        entry = self._entries.get(key)
        if entry is None:
            self._misses += 1
            return None
        self._hits += 1
        entry.used = True
        return entry.value

    def put(self, key: K, value: V, cost: int) -> None:
        """Keep `value`, and evict other entries as needed."""
        if cost > self._budget:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._spent -= old.cost
            while self._spent + cost > self._budget:
                self._forget_one()
            self._entries[key] = _CachedValue(value, cost)
            self._spent += cost

    def _forget_one(self) -> None:
        """Evict one entry.  The loop ends, because it unmarks each entry before it reaches it
        again."""
        while True:
            key, entry = self._entries.popitem(last=False)
            if not entry.used:
                self._spent -= entry.cost
                return
            entry.used = False
            self._entries[key] = entry

    def fits(self, cost: int) -> bool:
        """Whether an entry of this cost can be kept."""
        return cost <= self._budget

    def forget(self, key: K) -> None:
        """Drop one entry, if it is kept."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._spent -= entry.cost

    def forget_if(self, is_unwanted: Callable[[V], bool]) -> None:
        """Drop the entries whose values `is_unwanted` names.  It is called under the lock."""
        with self._lock:
            for key in [key for key, each in self._entries.items() if is_unwanted(each.value)]:
                self._spent -= self._entries.pop(key).cost

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._spent = 0

    @property
    def spent(self) -> int:
        """The sum of the costs of all entries."""
        return self._spent

    @property
    def figures(self) -> CacheFigures:
        """What the cache has done so far."""
        return CacheFigures(self._hits, self._misses, self._spent)


class Allowance:
    """An amount that may be spent before room must be made; 0 at first.  Safe for any number of
    threads."""

    def __init__(self) -> None:
        self._left = 0
        self._lock = threading.Lock()

    def spend(self, amount: int) -> bool:
        """Spend `amount` if that much is left.  Returns whether it was spent."""
        with self._lock:
            if self._left < amount:
                return False
            self._left -= amount
            return True

    def renew(self, amount: int) -> None:
        """Set the amount that is left."""
        with self._lock:
            self._left = amount
