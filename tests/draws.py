"""Which cases a random test draws: the same in every run, so that a change fails only for its own
faults.

GRAVELER_DRAWS=all draws more.  GRAVELER_SEED=fresh draws others, and GRAVELER_SEED=n those of a run
that failed.
"""

import os
import random
from functools import cache

ALL = os.environ.get("GRAVELER_DRAWS") == "all"


def seeds(some: int, every: int) -> range:
    """The seeds of this run, from 0 on."""
    return range(every if ALL else some)


def seed() -> int:
    """The seed of this process, which is printed."""
    drawn = _drawn()
    print(f"GRAVELER_SEED={drawn}")
    return drawn


@cache
def _drawn() -> int:
    named = os.environ.get("GRAVELER_SEED", "1")
    return random.randrange(1 << 32) if named == "fresh" else int(named)
