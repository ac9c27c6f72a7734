"""The report of a track of the soak.  For run.py and the tracks."""

from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from typing import Any, TypeAlias

from simulator.soak.growth import Sample


@dataclass(frozen=True, slots=True)
class Failure:
    """A violation, and the seed line that reproduces it.  `kind` selects the file where the seed is
    kept; empty if no seed reproduces the failure."""

    kind: str
    seed: str
    said: str


@dataclass(slots=True)
class Report:
    """The results of a track since its last report."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    traces: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


Reports: TypeAlias = "Queue[Any]"
