"""The queue between the service and its workers: a port, and its implementation for one process.

    {"kind": "job", "repository": …, "job": …}                     run a job that has a record
    {"kind": "batch", "repository": …, "rule": …, "batch": …}      commit a closed batch of events
    {"kind": "purge", "repository": …, "uid": …}                   purge a deleted repository

A message may be delivered late and more than once.  So a worker claims a job before it runs it,
and every kind of job may run again.
"""

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from graveler.core.clock import Clock
from graveler.core.errors import Contended, GravelerError, Internal, Invalid, Unavailable, explained
from graveler.engine.ports import OpenRepository, P
from graveler.events.intake import BatchJob

JOB: Final = "job"
BATCH: Final = "batch"
PURGE: Final = "purge"
_DELIVERIES: Final = 10
_PAUSE_SECONDS: Final = 1.0
_LOG = logging.getLogger("graveler.jobs")


class JobMessage(NamedTuple):
    """A job that has a record."""

    repository: str
    job: str


class PurgeMessage(NamedTuple):
    """A deleted repository whose undo period is over."""

    repository: str
    uid: str


Message = JobMessage | BatchJob | PurgeMessage
_KINDS: Final[Mapping[type[Message], str]] = {JobMessage: JOB, BatchJob: BATCH, PurgeMessage: PURGE}


class Queue(Protocol):
    """Accepts messages for the workers."""

    def enqueue(self, message: Message) -> None:
        """Have a worker process the message, at least once, soon.

        Errors: `Unavailable`; `OutcomeUnknown` if it is unknown whether the message was sent.
        """
        ...


def encode(message: Message) -> str:
    """A message as text."""
    return json.dumps({"kind": _KINDS[type(message)], **message._asdict()})


def decode(text: str) -> Message:
    """The inverse of `encode`; raises `Invalid` for any other text."""
    try:
        fields = json.loads(text)
        kind = fields["kind"]
        if kind == BATCH:
            return BatchJob(str(fields["repository"]), str(fields["rule"]), str(fields["batch"]))
        if kind == JOB:
            return JobMessage(str(fields["repository"]), str(fields["job"]))
        if kind == PURGE:
            return PurgeMessage(str(fields["repository"]), str(fields["uid"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"message is not a job: length={len(text)}") from error
    raise Invalid(f"message is a job of an unknown kind: kind={kind!r:.100}")


def announcing(ports: P, queue: Queue) -> P:
    """The same ports, whose hooks hand the jobs of post-events to this queue.  No request."""

    def announce(repo: OpenRepository, job: str) -> None:
        queue.enqueue(JobMessage(repo.id, job))

    return replace(ports, hooks=ports.hooks.announcing(announce))


def log_failure(message: Message, error: BaseException, *, is_final: bool) -> None:
    """Write one line about a message that failed.  `is_final`: it is not delivered again."""
    is_bug = not isinstance(error, GravelerError) or isinstance(error, Internal)
    _LOG.log(
        logging.ERROR if is_final or is_bug else logging.WARNING,
        "job not run" if is_final else "job is delivered again",
        exc_info=error if is_bug else None,
        extra={
            "message_kind": _KINDS[type(message)],
            **message._asdict(),
            "cause": explained(error),
        },
    )


class LocalQueue:
    """The queue of one process.  Its messages are lost with the process; job records are not.

    If the store does not answer, the queue delivers the message again, for a while.  Later a round
    of the service enqueues the job again (sweeper.py).
    """

    def __init__(
        self, executor: Executor, clock: Clock, run: Callable[[Queue, Message], object]
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._run = run

    def enqueue(self, message: Message) -> None:
        self._executor.submit(self._deliver, message)

    def _deliver(self, message: Message) -> None:
        for _ in range(_DELIVERIES):
            try:
                self._run(self, message)
                return
            except (Unavailable, Contended) as error:
                log_failure(message, error, is_final=False)
            except GravelerError as error:
                log_failure(message, error, is_final=True)
                return
            self._clock.sleep(_PAUSE_SECONDS)
