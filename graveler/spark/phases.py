"""What is seen of a job: a line of the log for each phase, its name in Spark's UI, plain errors.

INFO graveler.spark.jobs: stored job=b1 to=sales/main/orders files=8 bytes=1048576 seconds=3.2
INFO graveler.spark.jobs: landed job=b1 … commit=https://lake.example.com/repositories/sales/…
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession

from graveler.core import errors
from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, Unavailable
from graveler.lake.bulk import BulkJob
from graveler.lake.session import below
from graveler.spark.lake import Lake, Target
from graveler.spark.tasks import context_of

_LOG: Final = logging.getLogger("graveler.spark.jobs")
_DESCRIPTION: Final = "spark.job.description"
_TAG: Final = "graveler:"
_API: Final = "/api/v1"
_EMBEDDED: Final = "http://embedded"
# An error of ours in the traceback of a worker: the last one is the one that ended the task.
_OURS: Final = re.compile(r"^graveler\.(?:core|lake)\.errors\.([A-Z]\w*): (.+)$", re.MULTILINE)
_LOST: Final = ("Python worker exited unexpectedly", "Python worker process crashed")
_NO_WORKER: Final = (
    "a Python worker of Spark died, probably for lack of memory outside of the heap; give "
    "executors more spark.executor.memoryOverhead (512m for each core), or more partitions"
)


def tell(phase: str, where: Target, job: BulkJob, **figures: Any) -> None:
    """Write a line of the log about a phase of a job."""
    if _LOG.isEnabledFor(logging.INFO):
        at = f"{where.repository}/{where.branch}/{where.prefix}".rstrip("/")
        known = " ".join(f"{name}={value}" for name, value in figures.items())
        _LOG.info("%s job=%s to=%s %s", phase, job.id, at, known)


def commit_address(lake: Lake, repository: str, commit: str) -> str:
    """The URL of a commit's page; of a store in this process, its address."""
    url = lake.session.url.removesuffix(_API)
    if url == _EMBEDDED:
        return f"{repository}/{commit}"
    return url + below("repositories", repository, "commits", commit)


@contextmanager
def shown(lake: Lake, where: Target, job: BulkJob, verb: str) -> Iterator[None]:
    """Begin and end a phase: two lines of the log.  Meanwhile Spark's jobs of this thread have the
    tag `graveler:<job>`, and where there is a context of Spark a description, unless the caller has
    set one."""
    clock = SystemClock()
    began = clock.steady_seconds()
    tell("began", where, job, verb=verb)
    with _tagged(lake.spark, _TAG + job.id), _described(lake.spark, f"graveler: {verb} ({job.id})"):
        yield
    tell("worked", where, job, seconds=round(clock.steady_seconds() - began, 3))


@contextmanager
def _tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """A context has tags since 3.5; over Connect, where there is none, the session has them."""
    context = context_of(spark)
    add = getattr(context, "addJobTag", None) or getattr(spark, "addTag", None)
    remove = getattr(context, "removeJobTag", None) or getattr(spark, "removeTag", None)
    if add is None or remove is None:
        yield
        return
    add(tag)
    try:
        yield
    finally:
        remove(tag)


@contextmanager
def _described(spark: SparkSession, text: str) -> Iterator[None]:
    context = context_of(spark)
    if context is None or context.getLocalProperty(_DESCRIPTION):
        yield
        return
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, None)


@contextmanager
def plain_errors() -> Iterator[None]:
    """An error of ours that a task raised arrives as it is, with one line, and a worker that died
    as `Unavailable` with the remedy; Spark's error is the cause.  Errors of the caller's own code
    stay Spark's."""
    try:
        yield
    except GravelerError:
        raise
    except Exception as error:
        plain = plain_error(error)
        if plain is None:
            raise
        raise plain from error


def plain_error(error: Exception) -> GravelerError | None:
    """The error that a failed job of Spark means; None if it is none of ours."""
    if not isinstance(error, PySparkException) and "py4j" not in type(error).__module__:
        return None
    text = str(error)
    if found := _OURS.findall(text):
        name, message = found[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, GravelerError):
            return kind(message.strip())
    if any(lost in text for lost in _LOST):
        return Unavailable(_NO_WORKER)
    return None
