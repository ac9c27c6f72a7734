"""How long a call takes."""

import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
