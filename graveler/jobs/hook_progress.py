"""How far the attempts at a post-event have come, kept in the order of its job.

    hook answers ──► noted as a part of the job ──► its log is stored ──► the next hook
                           │
                           └── an attempt that follows calls the rest alone

A worker that dies after an answer and before the note leaves a hook that is called again.
"""

import threading
from collections.abc import Mapping

from graveler.core.ids import JobId
from graveler.core.records import Job
from graveler.engine.hooks import Progress
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Heartbeat
from graveler.engine.ports import OpenRepository


def of(repo: OpenRepository, job: Job, pulse: Heartbeat) -> Progress:
    """The progress of a job as it is now.  Errors: `Unavailable`.  Cost: 1 KV request."""
    return _JobProgress(repo, job.id, pulse, dict(record.ordered(repo, job.id).parts))


class _JobProgress:
    """`Progress` in the parts of a job.  `begin` costs 2 KV requests, `note` too."""

    def __init__(
        self, repo: OpenRepository, job_id: JobId, pulse: Heartbeat, parts: dict[str, str]
    ) -> None:
        self._repo = repo
        self._job_id = job_id
        self._pulse = pulse
        self._parts = parts
        self._turn = threading.Lock()  # the row changes by compare-and-swap

    def known(self) -> Mapping[str, str]:
        return dict(self._parts)

    def begin(self) -> None:
        with self._turn:
            self._pulse.beat(len(self._parts), always=True)

    def note(self, name: str, value: str) -> None:
        with self._turn:
            record.keep_part(self._repo, self._job_id, name, value)
            self._parts[name] = value
