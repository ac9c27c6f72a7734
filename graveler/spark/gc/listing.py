"""The list of stored files for a garbage collection; many tasks make it.

    _lakefs/  0…    4…    8…    c…          slices of equal length of names
    data/     newest hours ──► oldest       slices of equal time, as names begin with their hour

Only names that Graveler gives are listed.  Every row has the hash of its name, which is compared
with the hashes in use.  The list is kept in pieces, so that it is made once, before any file is
marked.  For `collect.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.block import address
from graveler.block.address import FILES, OBJECTS, is_ours
from graveler.block.listing import list_all
from graveler.clock import descending_partition
from graveler.identity import break_hash, break_seed
from graveler.records import ABSENT
from graveler.spark.cluster import pieces
from graveler.spark.cluster.parallel import in_tasks
from graveler.spark.cluster.places import Place, opened

LISTED: Final = "repo int, name string, version string, size bigint, is_old boolean, hash bigint"
_SCHEMA: Final = pa.schema(
    [
        ("repo", pa.int32()),
        ("name", pa.string()),
        ("version", pa.string()),
        ("size", pa.int64()),
        ("is_old", pa.bool_()),
        ("hash", pa.int64()),
    ]
)
_PIECES: Final = pa.schema([("repo", pa.int32()), ("name", pa.string()), ("files", pa.int64())])
_SLICES: Final = "repo int, number int, folder string, after string, upto string"
_SLICES_MAX: Final = 256  # of all repositories together, at least two for each
_PIECE_ROWS: Final = 50_000
_SEED: Final = break_seed(b"names of stored files")
_END: Final = "~"  # after all names that Graveler gives


class CollectedRepository(NamedTuple):
    """A repository of the collection.  In rows, `number` stands for it."""

    number: int
    id: str
    namespace: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class Scope:
    """What every task of a run needs.  It goes to the executors, so it holds no secret.  Files last
    written before `before_ns` are old."""

    place: Place
    repositories: tuple[CollectedRepository, ...]
    run: str
    before_ns: int

    def namespace(self, repo: int) -> str:
        """The storage namespace of that repository."""
        return self.repositories[repo].namespace

    def folder(self, repo: int) -> str:
        """The folder where the run keeps its results for that repository."""
        return runs_folder(self.namespace(repo)) + f"{self.run}/"


def runs_folder(namespace: str) -> str:
    """The folder where all runs keep their results."""
    return f"{namespace}/_graveler/gc/cluster/"


def hashed(name: str) -> int:
    """The hash by which a relative address is compared.  A clash of two hashes keeps garbage; it
    never deletes a file in use."""
    value = break_hash(name.encode(), _SEED)
    return value - (1 << 64) if value >> 63 else value


class ObjectPiece(NamedTuple):
    """A piece of the list: its address, and how many files it names."""

    repo: int
    name: str
    files: int


def listed(spark: SparkSession, scope: Scope, now_ns: int) -> list[ObjectPiece]:
    """Make the list; return its pieces.  One request for each 1,000 files, at least one for each
    slice; one put for each 50,000 files."""
    count = max(1, _SLICES_MAX // (2 * len(scope.repositories)))
    slices = [
        dict(zip(("repo", "number", "folder", "after", "upto"), each, strict=True))
        for repo in scope.repositories
        for number, slice in enumerate(slices_of(repo, now_ns, count))
        for each in [(repo.number, number, *slice)]
    ]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                written = [each._asdict() for each in _written(scope, **row)]
                yield pa.RecordBatch.from_pylist(written, schema=_PIECES)

    schema = "repo int, name string, files bigint"
    rows = in_tasks(spark, slices, _SLICES, run, schema).collect()
    return [ObjectPiece(*row) for row in rows]


def slices_of(repo: CollectedRepository, now_ns: int, count: int) -> list[tuple[str, str, str]]:
    """The slices: a folder, and the names in it that are greater than the first bound and up to the
    second."""
    digits = [f"{256 * at // count:02x}" for at in range(1, min(count, 256))]
    span = max(0, now_ns - repo.created_ns)
    hours = {
        descending_partition(repo.created_ns + span * at // count, b"") for at in range(1, count)
    }
    slices = []
    for folder, bounds in ((FILES, digits), (OBJECTS, sorted(hours))):
        edges = ["", *bounds, _END]
        slices += [(folder, *pair) for pair in pairwise(edges)]
    return slices


def _written(
    scope: Scope, repo: int, number: int, folder: str, after: str, upto: str
) -> Iterator[ObjectPiece]:
    held: list[dict[str, Any]] = []
    count = 0
    for row in _rows(scope, repo, folder, after, upto):
        held.append(row)
        if len(held) == _PIECE_ROWS:
            yield _put(scope, repo, f"listed-{number:04}-{count:05}", held)
            held, count = [], count + 1
    if held:
        yield _put(scope, repo, f"listed-{number:04}-{count:05}", held)


def _put(scope: Scope, repo: int, name: str, rows: list[dict[str, Any]]) -> ObjectPiece:
    where = f"{scope.folder(repo)}{name}.arrow"
    pieces.put(scope.place, where, pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))
    return ObjectPiece(repo, where, len(rows))


def _rows(scope: Scope, repo: int, folder: str, after: str, upto: str) -> Iterator[dict[str, Any]]:
    blocks, namespace = opened(scope.place).blocks, scope.namespace(repo)
    prefix = f"{namespace}/{folder}"
    for line in list_all(blocks, prefix, prefix + after if after else ""):
        if line.address > prefix + upto:
            return
        name = address.relative_to(namespace, line.address)
        if name is ABSENT or not is_ours(name):
            continue
        head = line.head
        is_old = head.modified_ns < scope.before_ns and bool(head.version)
        yield {
            "repo": repo,
            "name": name,
            "version": head.version,
            "size": head.size,
            "is_old": is_old,
            "hash": hashed(name),
        }
