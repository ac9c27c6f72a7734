"""The frame of every bulk job: it begins, sends heartbeats while Spark works, and lands or ends."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from graveler.core import limits
from graveler.core.errors import Conflict, GravelerError, Refused
from graveler.lake import bulk, turns
from graveler.lake.bulk import BulkJob
from graveler.lake.session import Session, below, with_query
from graveler.spark.lake import Lake, Target
from graveler.spark.phases import commit_address, plain_errors, shown, tell

Mode = Literal["replace", "merge"]


@contextmanager
def heartbeats(
    lake: Lake, where: Target, job: BulkJob, verb: str, progress: Callable[[], int]
) -> Iterator[None]:
    """Send a heartbeat with the job's `progress` every `job.heartbeat_seconds`, and tell the log.
    If the job was cancelled meanwhile, the heartbeats end, and landing the job then fails, as
    intended.  Any other failed heartbeat does no harm: the next one may arrive.  `verb`: for the
    log and Spark's UI."""
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(job.heartbeat_seconds):
            try:
                done = progress()
                tell("working", where, job, done=max(done, 0))
                bulk.heartbeat(lake.session, where.repository, job, done)
            except Conflict:
                return
            except GravelerError:
                continue

    thread = threading.Thread(target=beat, name=f"bulk-{job.id}", daemon=True)
    thread.start()
    try:
        with shown(lake, where, job, verb):
            yield
    finally:
        finished.set()
        thread.join()


@contextmanager
def cancelled_on_error(
    session: Session, repository: str, job: BulkJob, *, is_named: bool
) -> Iterator[None]:
    """Cancel a job whose work failed, so that no other job waits for it; then raise the error
    again, as `plain_errors`.  A job with a name from its caller is not cancelled: the next call
    with this name runs it again."""
    try:
        with plain_errors():
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
    """Hold the turn to collect these repositories: all of them or none.  Yields a function that the
    caller calls before it deletes anything: it raises `Conflict` if a turn was lost.  A failed
    heartbeat does no harm: the next one may arrive.  Errors: `Conflict` if another collection of a
    repository is running."""
    finished = threading.Event()

    def check() -> None:
        for repository in repositories:
            turns.beat(session, repository, turn)

    def beat() -> None:
        while not finished.wait(period):
            for repository in repositories:
                with suppress(GravelerError):
                    turns.beat(session, repository, turn)

    thread = threading.Thread(target=beat, name=f"turn-{turn}", daemon=True)
    try:
        for repository in repositories:
            turns.begin(session, repository, turn)
        thread.start()
        yield check
    finally:
        finished.set()
        if thread.ident is not None:
            thread.join()
        for repository in repositories:
            with suppress(GravelerError):  # the turn expires anyway
                turns.end(session, repository, turn)


@dataclass(frozen=True, slots=True)
class JobTerms:
    """The message and metadata of the commit, and the job's name if it may be run again.

    A job with a name is not cancelled when it fails.  A later call with the same name runs the same
    job on the same base, and lands it once.  If the job has landed, the call returns its commit.
    The name of a job of another verb, branch, folder or mode is a `Conflict`.  An import reuses
    what the attempt before has written.

    `stream`, `batch`, `on_rewind`: of a batch of a stream, as `bulk.begin` has them.
    """

    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    stream: str = ""
    batch: int = 0
    on_rewind: Literal["fail", "accept"] = "fail"


def begin_job(lake: Lake, where: Target, mode: Mode, id: str, verb: str) -> BulkJob:
    """A job on the head of the branch.  In the mode merge the metarange of the job is that of the
    whole branch, so the job has no prefix.  The folder and the `verb` stand in the job's
    purpose."""
    prefix = where.prefix if mode == "replace" else ""
    purpose = f"{verb} below {where.prefix!r}"
    return bulk.begin(
        *(lake.session, where.repository, where.branch, mode),
        prefix=prefix,
        id=id,
        purpose=purpose,
    )


def land(lake: Lake, where: Target, job: BulkJob, written: tuple[str, int], terms: JobTerms) -> str:
    """Land what was written, a metarange and a number of rows; return the id of the commit."""
    metarange, rows = written
    bulk.heartbeat(lake.session, where.repository, job, rows)
    landing = bulk.Landing(metarange, job.id, terms.message, terms.metadata)
    commit = bulk.finish(lake.session, where.repository, job, landing)
    tell("landed", where, job, rows=rows, commit=commit_address(lake, where.repository, commit))
    return commit


def check_nothing_staged(lake: Lake, where: Target, job: BulkJob) -> None:
    """Raise `Conflict` before the work if the folder has uncommitted changes, because the landing
    may raise it after the work.  A job that was landing before is left to the landing, and so are
    callers who may not list.  Cost: one request to the API."""
    if job.state != "running":
        return
    diff = below("repositories", where.repository, "branches", where.branch, "diff")
    try:
        query = with_query(diff, amount=1, prefix=where.prefix)
        changes = lake.session.call("GET", query)["results"]
    except Refused:
        return
    for change in changes:
        raise Conflict(
            "the target has uncommitted changes; commit or reset them first: "
            f"branch={where.branch} path={change['path']!r:.200}"
        )
