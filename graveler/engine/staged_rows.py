"""Counts uncommitted rows, for whoever watches a deployment.  Used by the API."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from graveler import limits
from graveler.engine.ports import Ports
from graveler.engine.repositories import repository
from graveler.ids import StagingToken
from graveler.kv.store import Store
from graveler.refs.names import branches
from graveler.staging import area


class StagedRows(NamedTuple):
    """Uncommitted rows, and the branches whose rows were all counted."""

    rows: int
    branches: int


def count(ports: Ports, rows_max: int, goes_on: Callable[[], bool]) -> StagedRows:
    """The rows in the open and the sealed tokens of the branches of all repositories, in order of
    names.

    Ends with the page that reaches `rows_max`, or after which `goes_on` says no.  A commit or a
    reset that runs meanwhile may move rows in front of the count or behind it.
    Errors: `Unavailable`.  Cost: 1 KV request for each 1,000 repositories, for each 1,000 branches
    of a repository, and for each 1,000 rows of a shard, at least 1 for each.
    """
    rows = counted = 0
    for tokens in _tokens(ports):
        for page in (page for token in tokens for page in _pages(ports.kv, token)):
            rows += page
            if rows >= rows_max or not goes_on():
                return StagedRows(rows, counted)
        counted += 1
    return StagedRows(rows, counted)


def _tokens(ports: Ports) -> Iterator[tuple[StagingToken, ...]]:
    """The tokens of each branch."""
    for repo in repository.every(ports):
        for named in branches.every(repo.kv, repo.record):
            yield (named.branch.staging, *named.branch.sealed)


def _pages(kv: Store, token: StagingToken) -> Iterator[int]:
    """The numbers of rows of the pages of a token; at least one for each shard."""
    for number in range(area.shard_count(token)):
        start, more = b"", True
        while more:
            page = area.shard_page(kv, token, number, start, limits.page_count_max)
            yield len(page.rows)
            start = page.rows[-1][0] + b"\0" if page.rows else start
            more = page.more and bool(page.rows)
