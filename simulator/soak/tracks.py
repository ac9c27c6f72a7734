"""The tracks of a soak: they run at the same time, each in its own process, until they must end.

    schedules     the production verbs under random schedules, and readers of bytes under fuzzing
    programs      random programs, compared with the model step by step
    exhaustive    all schedules of the small programs, with greater bounds than in the tests
    requests      drawn requests against a served store
    schemathesis  requests that schemathesis draws from the OpenAPI document
    kills         a served store that is killed
    steady        a mixed load on a served store
    collection    a short mixed load; then garbage is collected, with a clock days later

A track sends `Report`s while it runs.  For run.py.
"""

import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from simulator.soak.leash import end_with_parent
from simulator.soak.programs import exhausted, programs
from simulator.soak.records import Failure, Report, Reports
from simulator.soak.schedules import schedules
from simulator.soak.service_tracks import collection, kills, requests, schemathesis, steady


class Track(NamedTuple):
    """The function, its `nice` value (plentiful work yields to the rest), and the number of copies
    (more for a track that mostly waits for answers)."""

    run: Callable[[Reports, Event], None]
    nice: int = 0
    copies: int = 1


TRACKS: dict[str, Track] = {
    "requests": Track(requests, 5),
    "schemathesis": Track(schemathesis, copies=2),
    "kills": Track(kills, 5),
    "steady": Track(steady),
    "collection": Track(collection, 5),
    "programs": Track(programs, 10),
    "exhaustive": Track(exhausted, 10),
}
SCHEDULES = Track(schedules, 5)


def perform(name: str, reports: Reports, ended: Event, folder: Path) -> None:
    """Run a track to its end; its temporary files lie below `folder`."""
    end_with_parent()
    tempfile.tempdir = str(folder)
    track = TRACKS.get(name, SCHEDULES)
    os.nice(track.nice)
    begun = time.monotonic()
    try:
        track.run(reports, ended)
    except Exception as error:
        seconds = time.monotonic() - begun
        said = f"{name} broke off after {seconds:.0f} s: {type(error).__name__}: {error}"
        reports.put(Report(failures=[Failure("", "", said)]))
