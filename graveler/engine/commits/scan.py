"""Scanning: reads the rows of sealed tokens and applies them to a base metarange.

This module holds all rows in memory.  For more rows a cluster scans them (`bulk/land.py`).  Used by
commit.py and by code that folds tokens as it does.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler.committed.apply import apply
from graveler.engine.ports import Deadline, OpenRepository, keyspace
from graveler.ids import MetarangeId, StagingToken
from graveler.records import ABSENT, Absent
from graveler.staging import area, stack


class Overlaid(NamedTuple):
    """The result of a base overlaid by tokens.

    `metarange`: the new content.  `differs`: it differs from the base.  `rows`: the number of rows
    of the tokens.
    """

    metarange: MetarangeId
    differs: bool
    rows: int


class Folding(NamedTuple):
    """The tokens to fold in, oldest first, and a function that applies them.

    `content` takes a base metarange and the tokens that the branch record still shows as sealed,
    and returns the base overlaid by them.
    """

    tokens: tuple[StagingToken, ...]
    content: Callable[[MetarangeId, tuple[StagingToken, ...]], Overlaid]


def scan(
    repo: OpenRepository, tokens: tuple[StagingToken, ...], deadline: Deadline
) -> Folding | Literal[Absent.ABSENT]:
    """Read every row of sealed tokens, which are given oldest first.

    Returns ABSENT if they have more than `commit_rows_max` rows; it then requests no further page.
    After `deadline`, the function of the result opens no further range and raises `Unavailable`.
    Cost: 1 KV request for each shard, and for each 10,000 rows of a shard.
    """
    rows_max = repo.settings.commit_rows_max
    try:
        deltas = stack.deltas(repo.kv, tokens, repo.fanout, rows_max)
    except area.TooManyRows:
        return ABSENT
    space = keyspace(repo, deadline.checking("commit"))

    def content(base: MetarangeId, tokens_left: tuple[StagingToken, ...]) -> Overlaid:
        applied = apply(space, base, stack.combine([deltas[token] for token in tokens_left]))
        rows = sum(len(deltas[token]) for token in tokens_left)
        return Overlaid(applied.metarange_id, applied.total > 0, rows)

    return Folding(tokens, content)
