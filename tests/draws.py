"""Which cases a random test draws: the same in every run, so that a change does not fail for what
another one left.

GRAVELER_DRAWS=all draws more.  GRAVELER_SEED=fresh draws others, and GRAVELER_SEED=n those of a run
that failed.
"""

import os
import random

ALL = os.environ.get("GRAVELER_DRAWS") == "all"


def seeds(some: int, every: int) -> range:
    """The seeds of this run, from 0 on."""
    return range(every if ALL else some)


def seed() -> int:
    """The seed of this run, which is printed."""
    named = os.environ.get("GRAVELER_SEED", "1")
    drawn = random.randrange(1 << 32) if named == "fresh" else int(named)
    print(f"GRAVELER_SEED={drawn}")
    return drawn
