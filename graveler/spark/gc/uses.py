"""What is in use: hashes of the names of all files that metaranges, ranges and entries name.

    metaranges ──► ranges, each once however many name it ──► hashes of names
                                                              └ kept in _graveler/gc/hashes/<range>
A range never changes, so a later run reads 8 bytes for each entry.  A kept file is checked by its
own hash.  Damage of a range raises, and nothing is deleted.
"""

from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from graveler.arrow.decode import stored_addresses
from graveler.arrow.scan import range_records
from graveler.block.address import FILES, is_ours
from graveler.committed.ranges import Keyspace
from graveler.core.errors import Corrupt, NotFound
from graveler.core.ids import BranchId, MetarangeId, RepositoryId, RepositoryUid
from graveler.core.records import RangeRef, Repository
from graveler.engine.gc.leftovers import hashes_file
from graveler.engine.gc.listing import used_name
from graveler.spark.gc.scopes import Scope, hashed
from graveler.spark.places import opened
from graveler.spark.tasks import (
    RANGE_ROWS,
    arrow_schema,
    each_row,
    in_tasks,
    ref_of,
    row_of,
    shuffle_tasks,
)

USED: Final = "repo int, hash bigint"
_RANGES: Final = f"repo int, {RANGE_ROWS}"
_NAMES: Final = "repo int, name string"
_NAMES_EACH: Final = 10_000  # in a task that only hashes
_READERS: Final = 8  # in one task
_MAGIC: Final = b"GRVLUSE1"
_HEAD: Final = len(_MAGIC) + 8 + 32


def named(spark: SparkSession, names: Sequence[tuple[int, str]]) -> DataFrame:
    """Hashes of relative addresses."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            repos = [row["repo"] for row in rows]
            yield _used(repos, [hashed(row["name"]) for row in rows])

    rows = [{"repo": repo, "name": name} for repo, name in names]
    tasks = shuffle_tasks(spark, len(rows), _NAMES_EACH)
    return in_tasks(spark, rows, "repo int, name string", run, USED, tasks)


def by_metaranges(
    spark: SparkSession, scope: Scope, metaranges: Sequence[tuple[int, str]], tasks: int = 0
) -> DataFrame:
    """Hashes of the names of these metaranges, of their ranges, and of the files that their entries
    name.  At most `tasks` tasks read ranges (0: as Spark decides, which it does not for a frame
    that is cached)."""
    ranges = _ranges_of(spark, scope, metaranges).dropDuplicates(["repo", "id"])
    if tasks:
        ranges = ranges.coalesce(tasks)
    files = named(spark, [(repo, FILES + id) for repo, id in metaranges])
    return ranges.mapInArrow(_entries(scope), USED).union(files)


def of_tables(
    spark: SparkSession, scope: Scope, metaranges: Sequence[tuple[int, str]]
) -> DataFrame:
    """Hashes of the names of these metaranges and of their ranges only."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            repos = [row["repo"] for row in rows]
            yield _used(repos, [hashed(FILES + row["id"]) for row in rows])

    ranges = _ranges_of(spark, scope, metaranges).mapInArrow(run, USED)
    return ranges.union(named(spark, [(repo, FILES + id) for repo, id in metaranges]))


def metaranges_of(spark: SparkSession, scope: Scope, names: DataFrame) -> list[tuple[int, str]]:
    """The metaranges among files, which are given by the columns `repo` and `name`: the number of
    the repository, and the id.  Cost: that of `is_metarange` for each file of `_lakefs/`."""
    files = names.where(names["name"].startswith(FILES)).select("repo", "name")
    rows = files.mapInArrow(_only_metaranges(scope), _NAMES).collect()
    return sorted((row["repo"], row["name"].removeprefix(FILES)) for row in rows)


def _only_metaranges(scope: Scope) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(_READERS, "metaranges") as pool:
            for batch in batches:
                rows = batch.to_pylist()
                readable = pool.map(lambda row: is_metarange(scope, row["repo"], row["name"]), rows)
                yield batch.filter(pa.array(list(readable), pa.bool_()))

    return run


def is_metarange(scope: Scope, repo: int, name: str) -> bool:
    """Whether the file with this relative address can be read, and is a metarange."""
    space, id = _space(scope, repo), MetarangeId(name.removeprefix(FILES))
    try:
        space.first_from(id, b"")  # reads one block, which refuses nearly all ranges
        space.metarange(id)
    except (NotFound, Corrupt):
        return False
    return True


def _space(scope: Scope, repo: int) -> Keyspace:
    return Keyspace(opened(scope.place).space.store, scope.namespace(repo), scope.place.breaks)


def _ranges_of(
    spark: SparkSession, scope: Scope, metaranges: Sequence[tuple[int, str]]
) -> DataFrame:
    rows = [{"repo": repo, "id": id} for repo, id in metaranges]
    return in_tasks(spark, rows, "repo int, id string", _ranges(scope), _RANGES)


def _ranges(scope: Scope) -> Any:
    def ranges(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        refs = _space(scope, row["repo"]).metarange(MetarangeId(row["id"])).ranges
        rows = [{"repo": row["repo"], **row_of(ref)} for ref in refs]
        yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(_RANGES))

    return each_row(ranges)


def _entries(scope: Scope) -> Any:
    def entries(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        ref = ref_of(row)
        hashes = _hashes(scope, row["repo"], ref)
        hashes.append(hashed(FILES + ref.id))
        yield _used([row["repo"]] * len(hashes), hashes)

    return each_row(entries)


def _used(repos: Sequence[int], hashes: Sequence[int]) -> pa.RecordBatch:
    arrays = [pa.array(repos, pa.int32()), pa.array(hashes, pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, names=["repo", "hash"])


# ---- one range -----------------------------------------------------------------------------------


def _hashes(scope: Scope, repo: int, ref: RangeRef) -> "array[int]":
    blocks, where = opened(scope.place).blocks, hashes_file(scope.namespace(repo), ref.id)
    try:
        known = _decoded(b"".join(blocks.get(where).chunks), ref)
    except NotFound:
        known = None
    if known is not None:
        return known
    hashes = _scanned(scope, repo, ref)
    body = hashes.tobytes()
    blocks.put(where, [_MAGIC, ref.count.to_bytes(8, "big"), sha256(body).digest(), body])
    return hashes


def _decoded(raw: bytes, ref: RangeRef) -> "array[int] | None":
    """The kept hashes; None if the file is not what was written for this range."""
    body = raw[_HEAD:]
    head = _MAGIC + ref.count.to_bytes(8, "big") + sha256(body).digest()
    if raw[:_HEAD] != head or len(body) % 8:
        return None
    return array("q", body)


def _scanned(scope: Scope, repo: int, ref: RangeRef) -> "array[int]":
    space, owner = _space(scope, repo), _owner(scope, repo)
    hashes = array("q")
    for records in range_records(space, ref):
        stored = map(_EntryAddress, *stored_addresses(records))
        names = (used_name(owner, each) for each in stored)
        hashes.extend(hashed(name) for name in names if is_ours(name))
    return hashes


class _EntryAddress(NamedTuple):
    """What an entry says of its address."""

    address: str
    address_type: int


def _owner(scope: Scope, repo: int) -> Repository:
    one = scope.repositories[repo]
    none = RepositoryUid(""), one.namespace, BranchId("main"), one.created_ns
    return Repository(RepositoryId(one.id), *none)
