"""Committed entries as Arrow batches, for analysis in one process.

    ref ──► commit ──► metarange ──► ranges that may hold the prefix ──► blocks ──► columns

A batch holds the records of about 2 MiB of blocks.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from graveler.arrow.decode import COLUMNS, decoded
from graveler.arrow.scan import Group, grouped, meeting, with_prefix
from graveler.block.registry import Surroundings, open_blocks
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, Invalid, NotFound
from graveler.core.ids import MetarangeId, parse_prefix
from graveler.core.records import BreakParameters, RangeRef
from graveler.engine.commits import heads
from graveler.engine.ports import Ports, keyspace, open_repository
from graveler.engine.repositories import repository as repositories
from graveler.lake.session import below

if TYPE_CHECKING:
    from graveler.arrow import Server


def entries(
    source: "Ports | Server", repository: str, ref: str, columns: Sequence[str], prefix: str
) -> Iterator[pa.RecordBatch]:
    """As `read_entries`."""
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns:
        raise Invalid(f"columns must be some of {','.join(COLUMNS)}: unknown={','.join(unknown)}")
    start = parse_prefix(prefix)
    if isinstance(source, Ports):
        space, metarange = _opened(source, repository, ref)
    else:
        space, metarange = _behind_server(source, repository, ref)
    refs = meeting(space.metarange(metarange).ranges, start)
    return range_batches(space, refs, start, columns)


def range_batches(
    space: Keyspace, refs: Iterable[RangeRef], prefix: bytes, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The entries of some ranges with `prefix`.  Raises `Corrupt`, which names the range."""
    for group in grouped(space, refs):
        part = with_prefix(group.records, prefix)
        if len(part):
            try:
                batch = decoded(part, space.namespace, columns)
            except Corrupt:
                _name_range(group, space.namespace, columns)
                raise
            yield batch


def _name_range(group: Group, namespace: str, columns: Sequence[str]) -> None:
    """Raises the error that decoding a group meets, with the range in which it stands."""
    for ref, first, beyond in group.shares:
        try:
            decoded(group.records.part(first, beyond), namespace, columns)
        except Corrupt as error:
            raise Corrupt(f"{error}: range={ref.id}") from error


def _opened(ports: Ports, repository: str, ref: str) -> tuple[Keyspace, MetarangeId]:
    repo = open_repository(ports, repositories.get(ports, repository))
    head = heads.head_of(repo, ref)
    heads.check_kept(repo, head.id, head.commit.metarange)
    return keyspace(repo), head.commit.metarange


def _behind_server(source: "Server", repository: str, ref: str) -> tuple[Keyspace, MetarangeId]:
    record = source.session.call("GET", below("repositories", repository))
    where = below("repositories", repository, "refs", ref, "commits")
    newest = source.session.call("GET", f"{where}?amount=1")["results"]
    if not newest:
        raise NotFound(f"ref has no commit: {ref=}")
    blocks = open_blocks(source.storage, Surroundings(SystemClock(), SystemIds()))
    store = SstRangeStore(
        StoredFiles(blocks),
        is_near=source.storage.startswith("local:"),
    )
    space = Keyspace(store, record["storage_namespace"], BreakParameters())
    return space, MetarangeId(newest[0]["meta_range_id"])
