"""What a track of the soak reports.  For run.py and its tracks."""

from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from typing import Any, TypeAlias

from simulator.soak.growth import Sample


@dataclass(frozen=True, slots=True)
class Failure:
    """Something wrong, and the seed line that shows it again; `kind` is where it is kept, empty if
    no seed determines it."""

    kind: str
    seed: str
    said: str


@dataclass(slots=True)
class Report:
    """What a track did since its last report."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    traces: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


Reports: TypeAlias = "Queue[Any]"
