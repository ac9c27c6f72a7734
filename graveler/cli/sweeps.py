"""Rounds over all repositories, now and then, in a thread of their own: the janitor's, and if asked
for garbage collection's.

A repository whose work fails is logged and the next round tries again; stopping waits for the
repository that is being seen to, for a bounded time.  For service.py.
"""

import json
import logging
import threading
from collections.abc import Callable

from graveler.engine.events import expire
from graveler.engine.jobs import record
from graveler.engine.ports import Ports
from graveler.engine.upkeep import janitor
from graveler.engine.upkeep.rounds import in_turn
from graveler.errors import GravelerError
from graveler.jobs import purge, rota, worker
from graveler.jobs.handover import Desk
from graveler.jobs.queue import JobMessage, Message
from graveler.records import JobState, Repository

FIRST_SECONDS = 30.0
PERIOD_SECONDS = 300.0
COLLECT_FIRST_SECONDS = 600.0
_STOP_SECONDS = 10.0
_TEND_SECONDS = 60.0  # of a round, for one repository
_NOT_OURS = "Refused"  # the files are somebody else's
_LOG = logging.getLogger("graveler.janitor")

Work = Callable[[Ports, Repository], object]


class _Here:
    """A queue for who runs himself what he orders."""

    def enqueue(self, message: Message) -> None:
        """Nobody else is told."""


def tend(ports: Ports, repo: Repository) -> None:
    """The janitor's work, and what a store that forgets by itself would do; what there is no time
    for is left to the next round."""
    janitor.sweep(ports, repo, _TEND_SECONDS)
    expire.expire(ports, repo, _TEND_SECONDS)


def collect_garbage(ports: Ports, repo: Repository) -> None:
    """One run that deletes, in this thread; says in the log what came of it.

    It is a job, so that it never runs beside one that was ordered through the API: where there is
    such a one it is that one, and nothing happens if a thread of the service runs it already."""
    queue = _Here()
    job = rota.order(Desk(ports, repo, queue))
    worker.run(ports, queue, JobMessage(repo.id, job.id))
    ended, order = record.status(ports, repo, job.id), record.ordered(ports, repo, job.id)
    if ended.state is JobState.DONE:
        found = json.loads(order.result)
        deleted, condemned = found["deleted"]["count"], found["condemned"]["count"]
        if deleted or condemned:
            said = "garbage collected: repository=%s deleted=%d condemned=%d run=%s"
            _LOG.warning(said, repo.id, deleted, condemned, found["run"])
    elif ended.ended and order.error_kind != _NOT_OURS:
        _LOG.warning("garbage not collected: repository=%s error=%s", repo.id, ended.error)


def purge_deleted(ports: Ports) -> None:
    """Removes what deleted repositories had, once their undo period is over."""
    purge.note_older(ports)
    purge.run_all(ports, _TEND_SECONDS)


class Sweeper:
    """Does its work on every repository of `ports`, from `start` to `stop`; before each round what
    is to be done `first`."""

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
        """Begin; the first round comes after a while."""
        self._thread.start()

    def stop(self) -> None:
        """End, before the store is closed; a work that is stopped may be half done."""
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
                self._work(self._ports, repo)
            except GravelerError as error:
                _LOG.warning("round failed: repository=%s %s", repo.id, error)
