"""Which objects requests leave in cycles, where only Python's collector finds them."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tests.api.serving import Served
from tests.waiting import until

COUNT = 10
_KINDS = ("graveler.", "uvloop.", "asyncio.", "_asyncio.")


def left_by(live: Served, request: Callable[[Served], object]) -> Mapping[str, int]:
    """The kinds of objects that most of `COUNT` requests leave, and how many of each."""
    request(live)  # what it makes once may stay
    until(lambda: _is_idle(live), "the first request has ended")
    with _uncollected() as found:
        for _ in range(COUNT):
            request(live)
        until(lambda: _is_idle(live), "all requests have ended")
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in found)
    kinds = Counter(name for name in names if name.startswith(_KINDS))
    return {kind: count for kind, count in kinds.items() if count >= COUNT // 2}


def _is_idle(live: Served) -> bool:
    state = live.server.server_state
    return not state.connections and not state.tasks


@contextmanager
def _uncollected() -> Iterator[list[object]]:
    """The objects in cycles that the body of the statement leaves, at its end."""
    found: list[object] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
