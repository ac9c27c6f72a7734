"""Rounds over all repositories, within a time; that of clean-up.

A round that has no time left ends; the next one begins elsewhere.  Where a round begins is drawn by
chance, so that with any number of repositories each has its turn, and nothing need be kept between
rounds.  Repositories whose store does not answer are passed over.  For delivery.
"""

from collections.abc import Iterator
from typing import NamedTuple

from graveler import limits
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.engine.upkeep import janitor
from graveler.errors import GravelerError
from graveler.records import Repository

_START_LENGTH = 2


class Tended(NamedTuple):
    """What a round did: repositories tended and failed, rows deleted, tokens that still wait, and
    whether it came to its end."""

    repositories: int
    failed: int
    rows: int
    tokens_waiting: int
    whole: bool


def tend_all(ports: Ports, seconds: float) -> Tended:
    """Let the janitor sweep every repository, until soon after `seconds`.

    Errors of one repository are counted, not raised; those of the list are raised.  Cost: the list
    of repositories, and each one's sweep."""
    end = ports.clock.steady_seconds() + seconds
    tended = failed = rows = waiting = 0
    whole = True
    for repo in in_turn(ports):
        left = end - ports.clock.steady_seconds()
        whole = whole and left > 0
        if not whole:
            break
        try:
            swept = janitor.sweep(ports, repo, left)
        except GravelerError:
            failed += 1
            continue
        tended += 1
        rows += swept.rows
        waiting += swept.waiting
        whole = swept.whole
    return Tended(tended, failed, rows, waiting, whole)


def in_turn(ports: Ports) -> Iterator[Repository]:
    """All repositories, from one that is drawn by chance, round to the one before it.

    For every round that may end before it came to all of them.  Cost: one KV request for each page.
    """
    start = ports.ids.unique(_START_LENGTH)
    yield from _after(ports, start)
    for repo in _after(ports, ""):
        if repo.id > start:
            return
        yield repo


def _after(ports: Ports, after: str) -> Iterator[Repository]:
    more = True
    while more:
        found, more = repository.list_page(ports, "", "", after, limits.page_count_max)
        for repo in found:
            yield repo
            after = repo.id
