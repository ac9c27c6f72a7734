"""What a commit folds in: the rows of sealed tokens, and what they make of a base.

They are scanned here, all of them in memory, or by somebody else (land.py).  For commit.py
and whoever lands as it does.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler.committed.apply import apply
from graveler.engine.ports import Ports, keyspace
from graveler.ids import MetarangeId, StagingToken
from graveler.records import ABSENT, Absent, Repository
from graveler.staging import area, stack


class Overlaid(NamedTuple):
    """What a base overlaid by some tokens says: whether it `differs` from the base, and how many
    `rows` the tokens have."""

    metarange: MetarangeId
    differs: bool
    rows: int


class Folding(NamedTuple):
    """Tokens that are folded in, oldest first, and what a metarange overlaid by some of them says:
    those that the record still shows as sealed."""

    tokens: tuple[StagingToken, ...]
    content: Callable[[MetarangeId, tuple[StagingToken, ...]], Overlaid]


def scan(
    ports: Ports, repo: Repository, tokens: tuple[StagingToken, ...]
) -> Folding | Literal[Absent.ABSENT]:
    """Read every row of sealed tokens, oldest first; ABSENT if they have more than
    `commit_rows_max`, and then no page behind those is asked for.

    Cost: a KV request for each shard and each 10,000 rows of it.
    """
    rows_max = ports.settings.commit_rows_max
    try:
        deltas = stack.deltas(ports.kv, tokens, ports.fanout, rows_max)
    except area.TooManyRows:
        return ABSENT
    space = keyspace(ports, repo)

    def content(base: MetarangeId, left: tuple[StagingToken, ...]) -> Overlaid:
        applied = apply(space, base, stack.combine([deltas[token] for token in left]))
        rows = sum(len(deltas[token]) for token in left)
        return Overlaid(applied.metarange_id, applied.total > 0, rows)

    return Folding(tokens, content)
