"""Rounds over all repositories within a time limit, and the round of the janitor.

A round ends when its time runs out.  Each round begins at a random repository.  So every repository
is reached over time, whatever their number, and no state is kept between rounds.
Repositories whose store does not answer are skipped.  Used by the delivery layer.
"""

from collections.abc import Iterator
from typing import NamedTuple

from graveler.engine.ports import OpenRepository, Ports
from graveler.engine.repositories import repository
from graveler.engine.upkeep import janitor
from graveler.errors import GravelerError

_START_LENGTH = 2


class RoundResult(NamedTuple):
    """What a round did: repositories visited and failed, rows deleted, tokens that still wait, and
    whether it was completed.
    """

    repositories: int
    failed: int
    rows: int
    tokens_waiting: int
    whole: bool


def tend_all(ports: Ports, seconds: float) -> RoundResult:
    """Let the janitor sweep every repository, until soon after `seconds`.

    Errors of one repository are counted, not raised; errors of the list of repositories are raised.
    Cost: the list of repositories, and the sweep of each.
    """
    end = ports.clock.steady_seconds() + seconds
    tended = failed = rows = waiting = 0
    whole = True
    for repo in in_turn(ports):
        remaining = end - ports.clock.steady_seconds()
        whole = whole and remaining > 0
        if not whole:
            break
        try:
            swept = janitor.sweep(repo, remaining)
        except GravelerError:
            failed += 1
            continue
        tended += 1
        rows += swept.rows
        waiting += swept.waiting
        whole = swept.whole
    return RoundResult(tended, failed, rows, waiting, whole)


def in_turn(ports: Ports) -> Iterator[OpenRepository]:
    """All repositories, from a random one on, round to the one before it.

    For every round that may end before it has visited all.  Cost: 1 KV request for each page.
    """
    start = ports.ids.unique(_START_LENGTH)
    yield from repository.every(ports, start)
    for repo in repository.every(ports):
        if repo.id > start:
            return
        yield repo
