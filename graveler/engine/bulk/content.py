"""The metarange that results from a bulk job on the head that is current when it lands.

Used by land.py.
"""

from collections.abc import Iterator
from itertools import islice

from graveler.committed.apply import apply
from graveler.committed.diff import diff
from graveler.committed.graft import follow, reapply, replace_prefix
from graveler.engine.bulk.job import Bulk, Mode
from graveler.engine.commits.scan import Overlaid
from graveler.engine.ports import OpenRepository, keyspace
from graveler.ids import MetarangeId
from graveler.records import ABSENT, Change
from graveler.staging import area

_BATCH = 1_000


def onto(repo: OpenRepository, bulk: Bulk, written: MetarangeId, head: MetarangeId) -> MetarangeId:
    """The head with what the job wrote.  Cost: as `committed/graft.py` says; no KV request."""
    space = keyspace(repo)
    if bulk.new.breaks is not ABSENT:
        space = space._replace(breaks=bulk.new.breaks)
        return follow(space, bulk.base.commit.metarange, written, head)
    if bulk.mode is Mode.REPLACE:
        return replace_prefix(space, head, written, bulk.prefix.encode())
    return reapply(space, bulk.base.commit.metarange, written, head)


def committed(
    repo: OpenRepository, bulk: Bulk, written: MetarangeId, head: MetarangeId
) -> Overlaid:
    """The head with all rows that the job has scanned.

    A row that equals the base changes nothing on the base, but it does on the head if the head has
    changed that path since.  Such rows are looked up.  Cost: that of `committed/graft.py`, and a KV
    request for each 1,000 paths on which the head differs from the base.
    """
    space, base = keyspace(repo), bulk.base.commit.metarange
    if head == base:
        return Overlaid(written, written != base, bulk.job.progress)
    tokens = [each.token for each in bulk.tokens]

    def staged() -> Iterator[Change]:
        moved = diff(space, base, head)
        while batch := [item.key for item in islice(moved, _BATCH)]:
            rows = area.lookup_many(repo.kv, tokens, batch)
            yield from ((key, rows[key].value) for key in batch if key in rows)

    merged = reapply(space, base, written, head)
    result = apply(space, merged, staged()).metarange_id
    return Overlaid(result, result != head, bulk.job.progress)
