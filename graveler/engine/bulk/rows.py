"""The staged rows of one shard of a token, page by page.

A commit whose scan is spread over many readers begins with them.  Used by the service.
"""

from typing import NamedTuple

from graveler import limits
from graveler.engine.commits.heads import fresh
from graveler.engine.ports import OpenRepository
from graveler.errors import Invalid, NotFound
from graveler.ids import StagingToken, parse_branch_id, parse_path
from graveler.records import TOMBSTONE, Branch, Staged
from graveler.staging import area


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
