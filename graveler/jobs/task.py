"""One attempt at a job: what the function of its kind receives.

An attempt continues what earlier ones have stored: checkpoints, or parts of the job's order.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from graveler.block.adapter import Beat, ObjectHead, unwatched
from graveler.committed.ranges import Rewriting, Rewritten
from graveler.core import limits
from graveler.core.records import ABSENT, Absent, CommitEntry, Job
from graveler.core.requests import preceded
from graveler.engine.commits.search import Once
from graveler.engine.hooks import Progress
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.checkpoints import Steps
from graveler.engine.jobs.record import Heartbeat, JobOrder
from graveler.engine.ports import OpenRepository, P

Landed = CommitEntry | Literal[Absent.ABSENT]  # ABSENT: the job is done, and lands no commit
DONE: Final[Landed] = ABSENT


class Task(NamedTuple):
    """One attempt.  `pulse` sends its heartbeats."""

    repo: OpenRepository
    job: Job
    order: JobOrder
    pulse: Heartbeat

    @property
    def fields(self) -> dict[str, Any]:
        """The request, as `JobRequest.body` has it."""
        fields: dict[str, Any] = json.loads(self.order.body)
        return fields

    @property
    def age_seconds(self) -> float:
        return (self.repo.clock.now_ns() - self.job.created_ns) / limits.SECOND_NS

    def again(self) -> "Task":
        """The task with its job and order as earlier attempts left them.  2 KV requests."""
        job, order = record.status(self.repo, self.job.id), record.ordered(self.repo, self.job.id)
        return self._replace(job=job, order=order)

    def once(self) -> Once:
        """The job's idempotency key, with the journal of its swaps."""
        key = record.once(self.job.id, self.order)
        return record.journaled(self.repo, key, self.job.id, self.order)

    def steps(self) -> Steps:
        """The checkpoints of the job, which cannot be cancelled any more.  Errors: `Stopped`,
        `Unavailable`.  Cost: 2 KV requests, and a list for each 1,000 checkpoints."""
        self.pulse.land(self.job.progress)
        return checkpoints.opened(self.repo, self.job, self.pulse)

    def hook_progress(self) -> Progress:
        """The hooks of a post-event that have answered, as parts of the job's order.  A worker that
        dies after an answer and before the note leaves a hook that is called again.

        Errors: `Unavailable`.  Cost: 1 KV request; 2 for each hook that begins, and each note.
        """
        return _HookProgress(self, dict(record.ordered(self.repo, self.job.id).parts))


class _HookProgress:
    def __init__(self, task: Task, parts: dict[str, str]) -> None:
        self._task = task
        self._parts = parts
        self._lock = threading.Lock()  # the row changes by compare-and-swap

    def known(self) -> Mapping[str, str]:
        return dict(self._parts)

    def begin(self) -> None:
        with self._lock:
            self._task.pulse.beat(len(self._parts), always=True)

    def note(self, name: str, value: str) -> None:
        with self._lock:
            record.keep_part(self._task.repo, self._task.job.id, name, value)
            self._parts[name] = value


# ---- heartbeats ----------------------------------------------------------------------------------


_OF_STORE = ("get_many", "scan", "set_many")
_OF_BLOCKS = ("list", "delete", "delete_all")
_OF_RANGES = (
    *("open_range", "read_metarange", "find_range", "write_range", "splice_range"),
    *("write_behind", "write_metarange"),
)


def beating(ports: P, beat: Beat) -> P:
    """The same ports, with `beat` called before each slow request.  A swap does not call it:
    what it decides must not be late.  Makes no request."""

    def first(*_: object, **__: object) -> None:
        beat()

    copied = ports.blocks.copy

    def copy(source: str, destination: str, inner: Beat = unwatched) -> ObjectHead:
        def both() -> None:
            beat()
            inner()

        beat()
        return copied(source, destination, both)

    begin = ports.ranges.begin_rewrite

    def begin_rewrite(*rewrite: Any) -> "_Beating | Absent":
        beat()
        begun = begin(*rewrite)
        return ABSENT if begun is ABSENT else _Beating(begun, beat)

    ranges = preceded(ports.ranges, dict.fromkeys(_OF_RANGES, first))
    ranges.begin_rewrite = begin_rewrite  # type: ignore[assignment,method-assign]
    blocks = preceded(ports.blocks, dict.fromkeys(_OF_BLOCKS, first))
    blocks.copy = copy  # type: ignore[assignment,method-assign]
    return replace(
        ports,
        kv=preceded(ports.kv, dict.fromkeys(_OF_STORE, first)),
        blocks=blocks,
        ranges=ranges,
    )


class _Beating(NamedTuple):
    """See `Rewriting`.  Who waits for it beats."""

    begun: Rewriting
    beat: Beat

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        def both() -> None:
            self.beat()
            check()

        return self.begun.result(both)

    def abandon(self) -> None:
        self.begun.abandon()
