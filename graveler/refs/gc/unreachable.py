"""Records of commits that no ref leads to: when garbage collection first found them unreachable.

The commit's own date is not used, because the client sets it.  A run removes the record when a ref
leads to the commit again; so does whoever takes a ref off a commit, before the ref moves.
"""

from collections.abc import Iterable, Iterator

from graveler import wire
from graveler.clock import Ids
from graveler.ids import CommitId
from graveler.kv.store import Store, Write
from graveler.records import Repository
from graveler.refs import rows
from graveler.refs.keys import UNREACHED, space, unreached_key


def list_all(kv: Store, repository: Repository) -> Iterator[tuple[CommitId, int]]:
    """Every recorded commit, and since when it is unreachable, in nanoseconds.  One request for
    each 1,000."""
    for id, row in rows.rows(kv, rows.Stretch(space(repository), UNREACHED)):
        yield CommitId(id), int(wire.decode_pairs(row.value)["since_ns"])


def put(
    kv: Store, repository: Repository, commits: Iterable[CommitId], since_ns: int, fresh: Ids
) -> None:
    """Record `commits` as unreachable since `since_ns`.  One request for each 1,000; may be
    repeated."""
    partition, raw = space(repository), wire.encode_pairs({"since_ns": str(since_ns)})
    writes = [Write(partition, unreached_key(id), raw, fresh.stamp()) for id in commits]
    rows.put_all(kv, writes)


def forget(kv: Store, repository: Repository, commits: Iterable[CommitId]) -> None:
    """Remove the records.  One request for each 1,000."""
    keys = [unreached_key(id) for id in commits]
    if keys:
        kv.delete(space(repository), keys)
