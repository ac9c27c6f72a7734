"""Opens a store in memory, which keeps nothing.  For tests, the model and benchmarks."""

from graveler.assembly.drivers import Drivers, ports_of
from graveler.block.memory import MemoryBlocks
from graveler.committed.memory import MemoryRangeStore
from graveler.core.clock import Clock, Ids, SystemClock, SystemIds
from graveler.core.fanout import Sequential
from graveler.engine.ports import Ports
from graveler.kv.memory import MemoryStore

_SECRET = bytes(32)


def open_memory(clock: Clock | None = None, ids: Ids | None = None) -> Ports:
    """Ports on the memory drivers.  Storage namespaces are `mem://…`."""
    clock, ids = clock or SystemClock(), ids or SystemIds()
    blocks = MemoryBlocks(clock)
    drivers = Drivers(MemoryStore(), blocks, MemoryRangeStore(), clock, ids, Sequential())
    return ports_of(drivers, _SECRET)
