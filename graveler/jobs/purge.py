"""Purges of deleted repositories: as messages of the queue, or in the current thread.

    note of a deletion ──undo period──► message ──► purge … purge ──► nothing is left

If a message is lost, the next round sends it again: the note exists until everything is removed.
Used by the Lambda functions and the local service.
"""

import logging
from itertools import chain, islice, takewhile
from math import inf
from typing import Final

from graveler import limits
from graveler.engine.ports import Ports
from graveler.engine.repositories import purge
from graveler.errors import GravelerError, Invalid, Refused
from graveler.ids import RepositoryId, RepositoryUid
from graveler.jobs.queue import PurgeMessage, Queue
from graveler.records import ABSENT

_START_LENGTH: Final = 2
_SHOWN: Final = 100  # names in one line of the log
_LOG: Final = logging.getLogger("graveler.jobs")


def note_older(ports: Ports) -> None:
    """Record repositories that older releases deleted, so that they are purged a day from now.
    Errors and cost: those of `purge.note_older`.
    """
    noted = purge.note_older(ports)
    if noted:
        shown = ", ".join(noted[:_SHOWN]) + (", ..." if len(noted) > _SHOWN else "")
        _LOG.warning(
            "deleted by older releases, to be purged in a day: repositories=%d: %s",
            len(noted),
            shown,
        )


def order(ports: Ports, queue: Queue) -> int:
    """Enqueue a message for each repository that is due; returns how many.

    The round begins at a random name, so that a repository that cannot be purged does not block the
    others.  At most `limits.purges_ordered_max`.  Errors: `Unavailable`.  Cost: that of
    `purge.list_due`, and a message for each.
    """
    start = ports.ids.unique(_START_LENGTH)
    before = takewhile(lambda gone: gone.id <= start, purge.list_due(ports))
    due = list(islice(chain(purge.list_due(ports, start), before), limits.purges_ordered_max))
    for gone in due:
        queue.enqueue(PurgeMessage(gone.id, gone.uid))
    return len(due)


def run(ports: Ports, message: PurgeMessage, seconds: float) -> None:
    """Purge the repository of a message, or a part of it.

    After `seconds` the rest is left to the message of a later round, so that a long purge does not
    have two messages in the queue for long.

    Errors: `Unavailable`.  A refused removal is logged.  Cost: 1 KV request, and that of
    `purge.purge`.
    """
    gone = purge.find_due(ports, RepositoryId(message.repository), RepositoryUid(message.uid))
    if gone is ABSENT:
        return
    try:
        purge.purge(ports, gone, seconds)
    except (Refused, Invalid) as error:  # a retry would be refused too
        _LOG.warning("deleted repository not purged: repository=%s %s", gone.id, error)


def run_all(ports: Ports, seconds: float = inf) -> None:
    """Purge everything that is due, in this thread.  Errors of one repository are logged."""
    end = ports.clock.steady_seconds() + seconds
    for gone in purge.list_due(ports):
        remaining = end - ports.clock.steady_seconds()
        if remaining <= 0:
            return
        try:
            if purge.purge(ports, gone, remaining):
                _LOG.warning("deleted repository purged: repository=%s", gone.id)
        except GravelerError as error:
            _LOG.warning("deleted repository not purged: repository=%s %s", gone.id, error)
