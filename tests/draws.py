"""How many seeds a random test draws: some in every run, all of them with GRAVELER_DRAWS=all.

Every run takes the same seeds, from 0 on, so a change does not fail for what another one left.
"""

import os

ALL = os.environ.get("GRAVELER_DRAWS") == "all"


def seeds(some: int, every: int) -> range:
    """The seeds of this run."""
    return range(every if ALL else some)
