"""Purges of deleted repositories as work of the queue, or here and now.

    note of a deletion ──undo period──► message ──► purge … purge ──► nothing is left

A message that is lost is sent again by the next round: the note stands until all is gone.  For the
functions and the local service.
"""

import logging
from itertools import islice
from math import inf
from typing import Final

from graveler import limits
from graveler.engine import purge
from graveler.engine.ports import Ports
from graveler.errors import GravelerError, Refused
from graveler.jobs.queue import PurgeMessage, Queue

_LOG: Final = logging.getLogger("graveler.jobs")


def order(ports: Ports, queue: Queue) -> int:
    """Hand on what is due; how many repositories.

    At most `limits.purges_ordered_max`.  Errors: `Unavailable`.  Cost: that of `purge.list_due`,
    and a message each."""
    due = list(islice(purge.list_due(ports), limits.purges_ordered_max))
    for gone in due:
        queue.enqueue(PurgeMessage(gone.id, gone.uid))
    return len(due)


def run(ports: Ports, queue: Queue, message: PurgeMessage, seconds: float) -> None:
    """Do what a message asks for, or part of it: after `seconds` the rest is enqueued again.

    Errors: `Unavailable`.  What may not be removed is said in the log."""
    for gone in purge.list_due(ports):
        if PurgeMessage(gone.id, gone.uid) != message:
            continue
        try:
            if not purge.purge(ports, gone, seconds):
                queue.enqueue(message)
        except Refused as error:
            _LOG.warning("deleted repository not purged: %s", error)


def run_all(ports: Ports, seconds: float = inf) -> None:
    """Purge whatever is due, in this thread.  Errors of one repository are said in the log."""
    end = ports.clock.steady_seconds() + seconds
    for gone in purge.list_due(ports):
        left = end - ports.clock.steady_seconds()
        if left <= 0:
            return
        try:
            if purge.purge(ports, gone, left):
                _LOG.warning("deleted repository purged: repository=%s", gone.id)
        except GravelerError as error:
            _LOG.warning("deleted repository not purged: repository=%s %s", gone.id, error)
