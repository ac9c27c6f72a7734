"""Heartbeats of bulk jobs, and of the turns of collections, while Spark works.

For this package.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from graveler import limits
from graveler.client import Session, bulk, collections
from graveler.client.bulk import BulkJob
from graveler.errors import Conflict, GravelerError


@contextmanager
def beating(
    session: Session, repository: str, job: BulkJob, progress: Callable[[], int]
) -> Iterator[None]:
    """Send a heartbeat with the job's `progress` every `job.heartbeat_seconds`.

    If the job was cancelled meanwhile, the heartbeats end, and landing the job then fails, as
    intended.  Any other failed heartbeat does no harm: the next one may arrive.
    """
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(job.heartbeat_seconds):
            try:
                bulk.heartbeat(session, repository, job, progress())
            except Conflict:
                return
            except GravelerError:
                continue

    thread = threading.Thread(target=beat, name=f"bulk-{job.id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


@contextmanager
def cancelled_on_error(
    session: Session, repository: str, job: BulkJob, *, is_named: bool
) -> Iterator[None]:
    """Cancel a job whose work failed, so that no other job waits for it; then raise the error
    again.

    A job with a name from its caller is not cancelled: the next call with this name runs it again.
    """
    try:
        yield
    except BaseException:
        if not is_named:
            with suppress(GravelerError):
                bulk.cancel(session, repository, job)
        raise


@contextmanager
def turns_held(
    session: Session,
    repositories: Sequence[str],
    turn: str,
    period: float = limits.collect_turn_seconds / 10,
) -> Iterator[Callable[[], None]]:
    """Hold the turn to collect these repositories: all of them or none.

    Yields a function that the caller calls before it deletes anything: it raises `Conflict` if a
    turn was lost.  A failed heartbeat does no harm: the next one may arrive.  Errors: `Conflict` if
    another collection of a repository is running.
    """
    finished = threading.Event()

    def check() -> None:
        for repository in repositories:
            collections.beat(session, repository, turn)

    def beat() -> None:
        while not finished.wait(period):
            for repository in repositories:
                with suppress(GravelerError):
                    collections.beat(session, repository, turn)

    thread = threading.Thread(target=beat, name=f"turn-{turn}", daemon=True)
    try:
        for repository in repositories:
            collections.begin(session, repository, turn)
        thread.start()
        yield check
    finally:
        finished.set()
        if thread.ident is not None:
            thread.join()
        for repository in repositories:
            with suppress(GravelerError):  # the turn expires anyway
                collections.end(session, repository, turn)
