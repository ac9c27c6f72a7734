"""Purges of deleted repositories: as messages of the queue, or in the current thread.

    note of a deletion ──undo period──► message ──► purge … purge ──► nothing is left

The note exists until everything is removed, so a lost message is sent again in the next round.  A
purge that still fails after `limits.purge_eager_seconds` is tried once a day, and is an error in
the log.  One that does not fail, but needs many workers, is continued in every round.
"""

import logging
from contextlib import suppress
from itertools import chain, islice, takewhile
from math import inf
from typing import Final

from graveler.core import limits
from graveler.core.errors import Contended, GravelerError, Unavailable
from graveler.core.ids import RepositoryId, RepositoryUid
from graveler.core.records import ABSENT
from graveler.engine.ports import Ports
from graveler.engine.repositories import purge
from graveler.jobs.queue import PurgeMessage, Queue
from graveler.refs import lifecycle
from graveler.refs.lifecycle import Deletion

_START_LENGTH: Final = 2
_DAY_SECONDS: Final = 24 * 3600
_SHOWN: Final = 100  # names in one line of the log
_LOG: Final = logging.getLogger("graveler.jobs")


def order(ports: Ports, queue: Queue) -> int:
    """Enqueue a message for each repository that is due; returns how many.

    The round begins at a random name, so that a repository that cannot be purged does not block the
    others.  At most `limits.purges_ordered_max`.  A purge that has been due for long, and failed
    less than a day ago, is left out.  Errors: `Unavailable`.  Cost: that of `purge.list_due`, a
    message for each, and 1 KV request for each that has been due for long.
    """
    start = ports.ids.unique(_START_LENGTH)
    before = takewhile(lambda gone: gone.id <= start, purge.list_due(ports))
    ready = (gone for gone in chain(purge.list_due(ports, start), before) if _has_turn(ports, gone))
    due = list(islice(ready, limits.purges_ordered_max))
    for gone in due:
        queue.enqueue(PurgeMessage(gone.id, gone.uid))
    return len(due)


def run(ports: Ports, message: PurgeMessage, seconds: float) -> None:
    """Purge the repository of a message, or a part of it.

    After `seconds` the rest is left to the message of a later round, so that a long purge does not
    have two messages in the queue for long.

    Errors: `Unavailable`, `Contended`, unless the purge has been due for long.  Every other failure
    is logged.  Cost: 1 KV request, and that of `purge.purge`; 1 more if a purge that has been due
    for long does not end.
    """
    gone = purge.find_due(ports, RepositoryId(message.repository), RepositoryUid(message.uid))
    if gone is ABSENT:
        return
    try:
        _attempt(ports, gone, seconds)
    except GravelerError as error:
        if isinstance(error, Unavailable | Contended) and not _is_old(ports, gone):
            raise
        _log_failure(ports, gone, error)


def run_all(ports: Ports, seconds: float = inf) -> None:
    """Purge everything that is due, in this thread, except what `order` would leave out.  Errors of
    one repository are logged."""
    end = ports.clock.steady_seconds() + seconds
    for gone in purge.list_due(ports):
        remaining = end - ports.clock.steady_seconds()
        if remaining <= 0:
            return
        try:
            if _has_turn(ports, gone) and _attempt(ports, gone, remaining):
                _LOG.warning("deleted repository purged: repository=%s", gone.id)
        except GravelerError as error:
            _log_failure(ports, gone, error)


def _attempt(ports: Ports, gone: Deletion, seconds: float) -> bool:
    """Purge a repository, or a part of it.  If a part is left, the next round continues, also after
    an earlier failure."""
    whole = purge.purge(ports, gone, seconds)
    if not whole and _is_old(ports, gone):
        lifecycle.forget_failure(ports.kv, gone.uid)
    return whole


def _log_failure(ports: Ports, gone: Deletion, error: GravelerError) -> None:
    """Log a failure.  That of a purge that has been due for long is an error, and is recorded, so
    that rounds leave the purge out for a day."""
    if not _is_old(ports, gone):
        _LOG.warning("deleted repository not purged: repository=%s %s", gone.id, error)
        return
    days = int(_waited_seconds(ports, gone) // _DAY_SECONDS)
    _LOG.error("deleted repository not purged for %d days: repository=%s %s", days, gone.id, error)
    with suppress(GravelerError):  # then the next round tries again
        lifecycle.note_failure(ports.kv, gone.uid, ports.clock.now_ns(), ports.ids.stamp())


def _has_turn(ports: Ports, gone: Deletion) -> bool:
    """Whether this round tries a purge that is due.  1 KV request if it has been due for long."""
    if not _is_old(ports, gone):
        return True
    since_ns = ports.clock.now_ns() - lifecycle.failed_ns(ports.kv, gone.uid)
    return since_ns >= limits.purge_retry_seconds * limits.SECOND_NS


def _is_old(ports: Ports, gone: Deletion) -> bool:
    return _waited_seconds(ports, gone) >= limits.purge_eager_seconds


def _waited_seconds(ports: Ports, gone: Deletion) -> float:
    """How long a purge has been due."""
    age_ns = ports.clock.now_ns() - gone.deleted_ns
    return age_ns / limits.SECOND_NS - limits.collect_undo_seconds
