"""Keeping bulk jobs, and turns of collection, alive while Spark works.  For this package."""

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


@contextmanager
def turns_held(
    session: Session,
    repositories: Sequence[str],
    turn: str,
    period: float = limits.collect_turn_seconds / 10,
) -> Iterator[Callable[[], None]]:
    """Have the turn to collect these repositories; all or none.

    Given is what to call before anything is deleted: it raises `Conflict` if a turn was lost.  What
    keeps a beat from arriving does no harm: the next one may.  Errors: `Conflict` if another
    collection is on its way."""
    over = threading.Event()

    def check() -> None:
        for repository in repositories:
            collections.beat(session, repository, turn)

    def beat() -> None:
        while not over.wait(period):
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
        over.set()
        if thread.ident is not None:
            thread.join()
        for repository in repositories:
            with suppress(GravelerError):  # over after a while by itself
                collections.end(session, repository, turn)
