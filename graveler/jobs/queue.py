"""The queue between those who have work and the worker: a port, and its form in one process.

    {"kind": "job", "repository": …, "job": …}                     run a job that has a record
    {"kind": "batch", "repository": …, "rule": …, "batch": …}      commit a closed batch of events
    {"kind": "purge", "repository": …, "uid": …}                   remove what a deleted one had

A message may be delivered more than once, and late; whoever runs a job claims it first, and every
kind of job may be run again.  For this folder, the service and the functions.
"""

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final, NamedTuple, Protocol

from graveler.clock import Clock
from graveler.errors import GravelerError, Invalid, Unavailable
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
    """Where work is handed to."""

    def enqueue(self, message: Message) -> None:
        """Have it run by some worker, at least once, soon.

        Errors: `Unavailable`; `OutcomeUnknown` if nobody knows whether it was sent.
        """
        ...


def encode(message: Message) -> str:
    """A message as text.  Pure."""
    return json.dumps({"kind": _KINDS[type(message)], **message._asdict()})


def decode(text: str) -> Message:
    """What `encode` wrote; raises `Invalid` for anything else.  Pure."""
    try:
        said = json.loads(text)
        kind = said["kind"]
        if kind == BATCH:
            return BatchJob(str(said["repository"]), str(said["rule"]), str(said["batch"]))
        if kind == JOB:
            return JobMessage(str(said["repository"]), str(said["job"]))
        if kind == PURGE:
            return PurgeMessage(str(said["repository"]), str(said["uid"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(f"message is not a job: length={len(text)}") from error
    raise Invalid(f"message is a job of an unknown kind: kind={kind!r:.100}")


class LocalQueue:
    """The queue of one process: its messages die with it, the records of jobs do not.  A message
    whose store does not answer is delivered again for a while."""

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
            except Unavailable as error:
                _LOG.info("job is delivered again: message=%s error=%s", encode(message), error)
            except GravelerError as error:
                _LOG.error("job not run: message=%s", encode(message), exc_info=error)
                return
            self._clock.sleep(_PAUSE_SECONDS)
