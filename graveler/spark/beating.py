"""Keeping a bulk job alive while Spark works on it.  For this package."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from graveler.client import Session, bulk
from graveler.client.bulk import BulkJob
from graveler.errors import Conflict, GravelerError


@contextmanager
def beating(
    session: Session, repository: str, job: BulkJob, progress: Callable[[], int]
) -> Iterator[None]:
    """Say every `job.heartbeat_seconds` that the job is alive, and its `progress`.

    If it was cancelled meanwhile, the beating ends; landing it then fails, as it should.  What else
    keeps a beat from arriving does no harm: the next one may."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(job.heartbeat_seconds):
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
        over.set()
        thread.join()


@contextmanager
def cancelled_on_error(
    session: Session, repository: str, job: BulkJob, *, is_named: bool
) -> Iterator[None]:
    """Cancel a job whose work has failed, so that nobody waits for it; what failed is raised.

    A job that is named by its caller stays as it is: the next call of that name runs it again."""
    try:
        yield
    except BaseException:
        if not is_named:
            with suppress(GravelerError):
                bulk.cancel(session, repository, job)
        raise
