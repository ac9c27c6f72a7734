"""Runs periodic work on all repositories in a background thread: the janitor, garbage collection.

If the work on a repository fails, it is logged, and the next round tries again.  Stopping waits for
the repository in progress, for a bounded time.
"""

import json
import logging
import threading
from collections.abc import Callable

from graveler.core.errors import GravelerError
from graveler.core.records import JobState
from graveler.engine import janitor
from graveler.engine.events import rules
from graveler.engine.janitor import in_turn
from graveler.engine.jobs import record
from graveler.engine.ports import OpenRepository, Ports
from graveler.jobs import purge, rounds, worker
from graveler.jobs.queue import JobMessage, Message, Queue
from graveler.jobs.schedule import Scheduler, revive_silent

FIRST_SECONDS = 30.0
PERIOD_SECONDS = 300.0
COLLECT_FIRST_SECONDS = 600.0
_STOP_SECONDS = 10.0
_TEND_SECONDS = 60.0  # for one repository in one round
_NOT_OURS = "Refused"  # the files belong to another system
_LOG = logging.getLogger("graveler.janitor")

Work = Callable[[OpenRepository], object]


class _Here:
    """A queue for a caller that runs its orders itself."""

    def enqueue(self, message: Message) -> None:
        """Does nothing: the caller runs the job."""


def tend(repo: OpenRepository) -> None:
    """Do the janitor's work, and delete expired confirmations of event deliveries, which a store
    with a time to live deletes itself.  If the time is over, the next round continues."""
    janitor.sweep(repo, _TEND_SECONDS)
    rules.expire_confirmations(repo, _TEND_SECONDS)


def tending(queue: Queue) -> Work:
    """Work that also enqueues the jobs whose worker has gone silent, as after an outage that was
    longer than the queue delivers a message again."""

    def work(repo: OpenRepository) -> None:
        tend(repo)  # first: a record of a job that cannot be read must not keep it from its work
        revive_silent(Scheduler(repo, queue))

    return work


def collect_garbage(repo: OpenRepository) -> None:
    """Run one collection that deletes, in this thread, and log the result.

    It is a job, so it never runs beside a collection that was ordered through the API.  If such a
    collection is ordered, this call runs that one; if a thread of the service runs it already,
    this call does nothing.
    """
    queue = _Here()
    job = rounds.order(Scheduler(repo, queue))
    worker.run(repo, queue, JobMessage(repo.id, job.id))
    ended, order = record.status(repo, job.id), record.ordered(repo, job.id)
    if ended.state is JobState.DONE:
        result = json.loads(order.result)
        deleted, condemned = result["deleted"]["count"], result["condemned"]["count"]
        if deleted or condemned:
            message = "garbage collected: repository=%s deleted=%d condemned=%d run=%s"
            _LOG.warning(message, repo.id, deleted, condemned, result["run"])
    elif ended.ended and order.error_kind != _NOT_OURS:
        _LOG.warning("garbage not collected: repository=%s error=%s", repo.id, ended.error)


def purge_deleted(ports: Ports) -> None:
    """Delete the content of deleted repositories, once their undo period is over."""
    purge.run_all(ports, _TEND_SECONDS)


class Sweeper:
    """Runs `work` on every repository of `ports`, round after round, from `start` to `stop`.

    Each round begins with `first`.  The first round begins after `first_seconds`, a further one
    `period` seconds after the end of the one before.
    """

    def __init__(
        self,
        ports: Ports,
        first_seconds: float = FIRST_SECONDS,
        period: float = PERIOD_SECONDS,
        work: Work = tend,
        first: Callable[[Ports], object] = purge_deleted,
    ) -> None:
        self._ports = ports
        self._first = first
        self._work = work
        self._waits = (first_seconds, period)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="janitor", daemon=True)

    def start(self) -> None:
        """Start the thread.  The first round begins after `first_seconds`."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait at most 10 seconds.  Call this before closing the store.  The work in
        progress may remain unfinished."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        wait, period = self._waits
        while not self._ended.wait(wait):
            wait = period
            try:
                self._round()
            except GravelerError as error:
                _LOG.warning("round failed: %s", error)
            except Exception:
                _LOG.exception("round failed")

    def _round(self) -> None:
        self._first(self._ports)
        for repo in in_turn(self._ports):
            if self._ended.is_set():
                return
            try:
                self._work(repo)
            except GravelerError as error:
                _LOG.warning("round failed: repository=%s %s", repo.id, error)
