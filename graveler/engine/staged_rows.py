"""Uncommitted rows: their count, and the rows of one shard of a token, page by page."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from graveler.core import limits
from graveler.core.errors import Invalid, NotFound
from graveler.core.ids import StagingToken, parse_branch_id, parse_path
from graveler.core.records import TOMBSTONE, Branch, Staged
from graveler.engine.commits.heads import fresh
from graveler.engine.ports import OpenRepository, Ports
from graveler.engine.repositories import repository
from graveler.kv.store import Store
from graveler.refs import branches
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


class StagedToken(NamedTuple):
    """A token that a branch names.  `sealed`: no row that is acknowledged from now on enters it."""

    token: StagingToken
    shards: int
    sealed: bool


class StagedPage(NamedTuple):
    """Rows in the order of their paths; `more`: rows may follow after the last one."""

    rows: list[tuple[str, Staged]]
    more: bool


def tokens(repo: OpenRepository, branch: str) -> list[StagedToken]:
    """The tokens that the branch names now, newest first.  The newest token with a row of a path
    decides its value.  1 KV request.
    """
    return tokens_of(fresh(repo, parse_branch_id(branch)).branch)


def tokens_of(record: Branch) -> list[StagedToken]:
    """The tokens that a record names, newest first.  Pure."""
    return [
        StagedToken(token, area.shard_count(token), token != record.staging)
        for token in record.tokens_newest_first
    ]


def page(
    repo: OpenRepository, branch: str, token: str, shard: int, after: str, amount: int
) -> StagedPage:
    """Rows of a shard of a token after the path `after`, tombstones included: at most `amount`,
    and about `bulk_page_bytes_max` of values.

    Errors: `NotFound` unless the branch names the token now; `Invalid` for a shard that the token
    does not have.  Cost: 2 KV requests.
    """
    record = fresh(repo, parse_branch_id(branch)).branch
    known = next((each for each in record.tokens_newest_first if each == token), None)
    if known is None:
        raise NotFound(
            f"staging token does not belong to the branch: token={token:.80} branch={branch}"
        )
    if not 0 <= shard < area.shard_count(known):
        raise Invalid(f"shard must be 0 to {area.shard_count(known) - 1}: shard={shard}")
    start = parse_path(after, "after") + b"\0" if after else b""
    limit = max(1, min(amount, limits.bulk_page_count_max))
    rows, more = area.shard_page(repo.kv, known, shard, start, limit)
    length = 0
    for count, (_, staged) in enumerate(rows, start=1):
        length += 0 if staged.value is TOMBSTONE else len(staged.value)
        if length >= limits.bulk_page_bytes_max and count < len(rows):
            rows, more = rows[:count], True
            break
    return StagedPage([(key.decode(), staged) for key, staged in rows], more)
