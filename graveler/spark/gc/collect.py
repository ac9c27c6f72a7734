"""Garbage collection on Spark: a run finds unused files, and a later run deletes them.

    list what is stored ──► read the roots ──► names in use, as hashes ──► condemn old unused files
    ──► sweep what a run before `undo_seconds` condemned too ──► tidy what only saved work

Damage of what is in use ends a run before it deletes; a clash of hashes keeps garbage.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from graveler.block.adapter import Target
from graveler.block.address import FILES, is_ours
from graveler.block.drivers import delete_every
from graveler.core import limits
from graveler.core.clock import SystemIds, ulid
from graveler.core.errors import Corrupt, Invalid
from graveler.engine.gc import leftovers
from graveler.engine.gc.collect import CollectSettings, check_settings
from graveler.spark.bulk_jobs import turns_held
from graveler.spark.gc import scopes, uses
from graveler.spark.gc.scopes import LISTED, ListPiece, ObjectPiece, Roots, Scope, listed
from graveler.spark.gc.uses import is_metarange
from graveler.spark.lake import Lake
from graveler.spark.places import opened
from graveler.spark.tasks import (
    ROWS_EACH,
    arrow_schema,
    each_row,
    frame_of_pieces,
    in_tasks,
    put_piece,
    read_piece,
    shuffle_tasks,
)

DOOMED: Final = "repo int, name string, version string, size bigint, hash bigint"
_DOOMED: Final = arrow_schema(DOOMED)
_PIECE_ROWS: Final = 50_000
_USES_COUNT_MIN: Final = 100  # from so many uses on, the share of misses is checked
_MISSES_SHARE_MAX: Final = 0.01
_AT_ONCE: Final = 8  # in one task
_ROWS: Final = limits.block_delete_count_max
_DIGITS: Final = "0123456789abcdef"
_WORK: Final = "repo int, digit string, alive array<string>"
_REMOVED: Final = "files bigint"


@dataclass(frozen=True, slots=True)
class CollectionLimits:
    """The limits of a run.

    `settings`: as in the server's own collection.  `share_max`: a run ends without deleting if it
    would condemn a greater share of the files of a repository with at least 1,000 files.
    """

    settings: CollectSettings = field(default_factory=CollectSettings)
    share_max: float = 0.5


class FileCount(NamedTuple):
    """A number of files, and their bytes."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Collection:
    """What a run did, or for a dry run would do.

    `report` has the columns repository, name, version, size and state: `condemned`, `due` (dry run)
    or `deleted`.
    """

    run: str
    condemned: FileCount
    deleted: FileCount
    report: DataFrame


def collect(
    lake: Lake,
    repositories: Sequence[str],
    bounds: CollectionLimits | None = None,
    *,
    dry_run: bool = True,
) -> Collection:
    """Run one collection of some repositories.  A dry run reports what a run would do, and condemns
    nothing.

    A run touches no file younger than `min_age_seconds`.  It deletes a file in the version that was
    listed, at least `undo_seconds` after an earlier run has condemned it, unless that run was
    undone (`undo_collection`).  A metarange that no commit names is garbage: commit it
    within a day of writing it.  A run holds the turn of each repository.

    Errors: `Invalid` (settings; no repository); `Refused` if the files of a repository may belong
    to another one too; `Corrupt` if the list lacks files in use, or too much would be condemned;
    `Conflict` if the run was undone at once, or another collection of a repository is running; the
    errors of tasks that cannot read a file, wrapped by Spark.  After an error that a step before
    the sweep raises, nothing was deleted.

    A dry run does not check whether the run that condemned the due files was undone.

    Cost: a list of all files, the roots twice, `uses.by_metaranges`; for each repository the cost
    of `lake.turns.condemn`, four more requests to the API, and one each 90 s; one read for
    each file of `_lakefs/` that is condemned, and one for each that is deleted.
    """
    chosen = bounds or CollectionLimits()
    check_settings(chosen.settings)
    if not repositories:
        raise Invalid("no repositories to collect")
    now_ns = lake.session.clock.now_ns()
    run = ("dry-" if dry_run else "") + ulid(now_ns, SystemIds().stamp())
    before_ns = now_ns - chosen.settings.min_age_seconds * limits.SECOND_NS
    due_ns = now_ns - chosen.settings.undo_seconds * limits.SECOND_NS
    scope = scopes.scope_of(lake, repositories, run, before_ns)
    if dry_run:
        condemned, roots = _found(lake, scope, now_ns, chosen)
        due = _due(lake, scope, condemned, scopes.earlier(scope, due_ns))
        still = roots.beside(roots, due_goes=True)
        swept = _kept(scope, _unused(lake, scope, due, still), "due")
    else:
        with turns_held(lake.session, [each.id for each in scope.repositories], run) as check:
            condemned, swept = _deleted(lake, scope, now_ns, due_ns, chosen, check)
    report = _report(lake, scope, condemned, "condemned")
    report = report.union(_report(lake, scope, swept, "due" if dry_run else "deleted"))
    return Collection(run, _sum(condemned), _sum(swept), report)


def _deleted(
    lake: Lake,
    scope: Scope,
    now_ns: int,
    due_ns: int,
    bounds: CollectionLimits,
    check: Callable[[], None],
) -> tuple[list[ListPiece], list[ListPiece]]:
    """All steps; returns what was condemned now and what was deleted.  An entry moves from a token
    into a commit and never back, so roots that are read in the API's order miss none."""
    condemned, roots = _found(lake, scope, now_ns, bounds)
    unused = frame_of_pieces(lake.spark, scope.place, [each.name for each in condemned], DOOMED)
    scopes.condemn(lake, scope, condemned, uses.metaranges_of(lake.spark, scope, unused))
    # Before the roots: a swept run's expired commits are then no longer among them.
    earlier = scopes.sweepable(lake, scope, scopes.earlier(scope, due_ns))
    last = scopes.roots(lake, scope, "roots-late")
    due = _due(lake, scope, condemned, earlier)
    unused = _unused(lake, scope, due, last.beside(roots))
    check()  # the API refuses earlier steps without the turn; deletions do not use the API
    swept = sweep(scope, unused, _sum(condemned).files)
    scopes.forget(scope, due_ns)
    remove_leftovers(lake.spark, scope, last.jobs)
    return condemned, swept


def _found(
    lake: Lake, scope: Scope, now_ns: int, bounds: CollectionLimits
) -> tuple[list[ListPiece], Roots]:
    """Steps 1 to 4 without the summary: the pieces of unused files, and the roots that were
    read."""
    parts = listed(lake.spark, scope, now_ns)
    names = [each.name for each in parts]
    stored = frame_of_pieces(lake.spark, scope.place, names, LISTED)
    roots = scopes.roots(lake, scope, "roots")
    stored_count = sum(each.files for each in parts)  # there are no more ranges
    tasks = shuffle_tasks(lake.spark, stored_count, ROWS_EACH)
    content = uses.by_metaranges(lake.spark, scope, roots.metaranges, tasks).persist()
    try:
        _check_listed(scope, stored, content)
        used = content.union(_addresses(lake, scope, roots))
        used = used.union(uses.of_tables(lake.spark, scope, roots.tables))
        old = stored.where("is_old").select(*_DOOMED.names)
        condemned = _kept(scope, without(old, used, ["repo", "hash"]), "condemned")
    finally:
        content.unpersist()
    _check_share(scope, parts, condemned, bounds.share_max)
    return condemned, roots


def _unused(lake: Lake, scope: Scope, rows: DataFrame, roots: Roots) -> DataFrame:
    """The rows without those that these roots use."""
    content = uses.by_metaranges(lake.spark, scope, roots.metaranges)
    used = content.union(_addresses(lake, scope, roots))
    used = used.union(uses.of_tables(lake.spark, scope, roots.tables))
    return without(rows, used, ["repo", "hash"])


def _addresses(lake: Lake, scope: Scope, roots: Roots) -> DataFrame:
    return frame_of_pieces(lake.spark, scope.place, roots.addresses, uses.USED)


def without(rows: DataFrame, others: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows whose keys are not among the keys of `others`."""
    remaining = rows.join(shuffled(others), list(keys), "left_anti")  # puts the keys first
    return remaining.select(*rows.columns)


def shuffled(rows: DataFrame) -> DataFrame:
    """Rows for a join that must not be broadcast to the driver and to each executor.  Spark assumes
    that the result of tasks over a short list is short too, above all over Spark Connect."""
    return rows.hint("merge")


def _check_listed(scope: Scope, stored: DataFrame, content: DataFrame) -> None:
    """Refuse a list whose names are spelled in another way than the names in use: every file would
    be condemned."""
    listed = stored.select("repo", "hash", F.lit(1).alias("found"))
    counted = (
        content.distinct()
        .join(shuffled(listed), ["repo", "hash"], "left")
        .groupBy("repo")
        .agg(F.count(F.lit(1)).alias("uses"), F.count("found").alias("hits"))
    )
    for row in counted.collect():
        misses = row["uses"] - row["hits"]
        if row["uses"] >= _USES_COUNT_MIN and misses > _MISSES_SHARE_MAX * row["uses"]:
            raise Corrupt(
                "files in use were not found in storage; nothing is collected: "
                f"repository={scope.repositories[row['repo']].id} uses={row['uses']} {misses=}"
            )


def _check_share(
    scope: Scope, parts: Sequence[ObjectPiece], condemned: Sequence[ListPiece], most: float
) -> None:
    total: Counter[int] = Counter()
    for part in parts:
        total[part.repo] += part.files
    for number, repo in enumerate(scope.repositories):
        doomed = sum(each.files for each in condemned if each.repo == number)
        if total[number] >= 1_000 and doomed > most * total[number]:
            raise Corrupt(
                "too much would be condemned; check it, and allow a greater share: "
                f"repository={repo.id} condemned={doomed} stored={total[number]} share_max={most}"
            )


def _kept(scope: Scope, rows: DataFrame, name: str) -> list[ListPiece]:
    """Store rows of `DOOMED` in pieces."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task, count = context.partitionId() if context is not None else 0, 0
        held: dict[int, list[dict[str, Any]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                rows_of = held.setdefault(row["repo"], [])
                rows_of.append(row)
                if len(rows_of) == _PIECE_ROWS:
                    yield _put(scope, f"{name}-{task:05}-{count:05}", rows_of)
                    count += 1
                    del held[row["repo"]]
        for rows_of in held.values():
            yield _put(scope, f"{name}-{task:05}-{count:05}", rows_of)
            count += 1

    rows_written = rows.select(*_DOOMED.names).mapInArrow(run, scopes.FOUND).collect()
    return [ListPiece(*row) for row in rows_written]


def _put(scope: Scope, name: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    repo = rows[0]["repo"]
    where = f"{scope.folder(repo)}{name}.arrow"
    put_piece(scope.place, where, pa.RecordBatch.from_pylist(rows, schema=_DOOMED))
    size = sum(row["size"] for row in rows)
    piece = {"repo": repo, "name": where, "files": len(rows), "size": size}
    return pa.RecordBatch.from_pylist([piece], schema=scopes.FOUND_ARROW)


def _due(
    lake: Lake, scope: Scope, condemned: list[ListPiece], earlier: Sequence[scopes.EarlierRun]
) -> DataFrame:
    """The files that this run and an earlier run found, in the same version."""
    names = [{"repo": each.repo, "name": name} for each in earlier for name in each.pieces]
    before = in_tasks(lake.spark, names, "repo int, name string", _numbered(scope), DOOMED)
    own = [each.name for each in condemned]
    now = frame_of_pieces(lake.spark, scope.place, own, DOOMED)
    keys = before.select("repo", "name", "version").distinct()
    same = now.join(shuffled(keys), ["repo", "name", "version"], "left_semi")
    return same.select(*_DOOMED.names)


def _numbered(scope: Scope) -> Any:
    """The function for `mapInArrow`: it takes pieces and returns their rows, with the number that
    the repository has in this run."""

    def numbered(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        for rows in read_piece(scope.place, row["name"]):
            repos = pa.array([row["repo"]] * rows.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([repos, *rows.columns[1:]], schema=_DOOMED)

    return each_row(numbered)


def _report(lake: Lake, scope: Scope, condemned: list[ListPiece], state: str) -> DataFrame:
    names = [each.name for each in condemned]
    rows = frame_of_pieces(lake.spark, scope.place, names, DOOMED)
    owners = json.dumps([each.id for each in scope.repositories])
    owner = F.get(F.from_json(F.lit(owners), "array<string>"), F.col("repo"))
    return rows.select(
        owner.alias("repository"), "name", "version", "size", F.lit(state).alias("state")
    )


def _sum(condemned: list[ListPiece]) -> FileCount:
    return FileCount(sum(each.files for each in condemned), sum(each.size for each in condemned))


def sweep(scope: Scope, due: DataFrame, count_max: int) -> list[ListPiece]:
    """Delete files, which are at most `count_max`; return the pieces that name the deleted ones.
    The due files are stored first, so that both rounds and every attempt delete the same files.
    They are in the order of their names, because the store lists the versions of one stretch of
    names at a time."""
    tasks = shuffle_tasks(due.sparkSession, count_max, _ROWS)
    due = _in_order(due, tasks).persist()
    try:
        files = due.where(due["name"].startswith(FILES))
        swept = _round(scope, files, "deleted-first", only_metaranges=True)
        rest = _in_order(_without(scope, due, swept), tasks) if swept else due
        return [*swept, *_round(scope, rest, "deleted-rest", only_metaranges=False)]
    finally:
        due.unpersist()


def _in_order(due: DataFrame, tasks: int) -> DataFrame:
    return due.repartitionByRange(tasks, "repo", "name").sortWithinPartitions("repo", "name")


def _without(scope: Scope, due: DataFrame, swept: Sequence[ListPiece]) -> DataFrame:
    """The files that the first round left, by its notes; no file is read."""
    notes = [each.name for each in swept]
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in due.schema)
    gone = frame_of_pieces(due.sparkSession, scope.place, notes, schema).select("repo", "name")
    remaining = due.join(gone.hint("merge"), ["repo", "name"], "left_anti")  # puts the keys first
    return remaining.select(*due.columns)


def _round(scope: Scope, rows: DataFrame, name: str, *, only_metaranges: bool) -> list[ListPiece]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task, count = context.partitionId() if context is not None else 0, 0
        with ThreadPoolExecutor(_AT_ONCE, "sweep") as pool:
            for batch in batches:
                for at in range(0, batch.num_rows, _ROWS):
                    part = batch.slice(at, _ROWS)
                    rows = part.to_pylist()
                    gone = list(pool.map(lambda row: _is_due(scope, row, only_metaranges), rows))
                    _delete(scope, [row for row, is_due in zip(rows, gone, strict=True) if is_due])
                    yield from _noted(scope, f"{name}-{task:05}-{count:05}", part, gone)
                    count += 1

    return [ListPiece(*row) for row in rows.mapInArrow(run, scopes.FOUND).collect()]


def _delete(scope: Scope, rows: Sequence[dict[str, Any]]) -> None:
    """Delete files.  Raises if any of them stayed; Spark then runs the task again."""
    targets = [
        Target(f"{scope.namespace(row['repo'])}/{row['name']}", row["version"]) for row in rows
    ]
    opened(scope.place).blocks.delete_all(targets)


def _is_due(scope: Scope, row: dict[str, Any], only_metaranges: bool) -> bool:
    """Whether this round deletes the file."""
    name = row["name"]
    if not is_ours(name) or not row["version"]:
        raise Corrupt(f"a list names a file of another kind: {name=}")
    return not only_metaranges or is_metarange(scope, row["repo"], name)


def _noted(
    scope: Scope, name: str, rows: pa.RecordBatch, gone: list[bool]
) -> Iterator[pa.RecordBatch]:
    """Write down what was deleted, in one piece for each repository."""
    deleted = rows.filter(pa.array(gone, pa.bool_()))
    for repo in sorted(set(deleted.column("repo").to_pylist())):
        own = deleted.filter(
            pa.array([each == repo for each in deleted.column("repo").to_pylist()])
        )
        where = f"{scope.folder(repo)}{name}.arrow"
        # The schema of this plan has columns that may not be null; readers expect one schema for
        # all pieces.
        plain = pa.RecordBatch.from_arrays(own.columns, names=own.schema.names)
        put_piece(scope.place, where, plain)
        size = sum(own.column("size").to_pylist())
        piece = {"repo": repo, "name": where, "files": own.num_rows, "size": size}
        yield pa.RecordBatch.from_pylist([piece], schema=scopes.FOUND_ARROW)


def remove_leftovers(spark: SparkSession, scope: Scope, jobs: frozenset[tuple[int, str]]) -> int:
    """Delete the leftovers; return the number of files.  `jobs`: the bulk jobs that may still land,
    with the numbers of their repositories."""
    work: list[dict[str, Any]] = []
    for one in scope.repositories:
        alive = sorted(name for repo, name in jobs if repo == one.number)
        work += [{"repo": one.number, "digit": digit, "alive": []} for digit in _DIGITS]
        work.append({"repo": one.number, "digit": "", "alive": alive})

    def removed(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"files": [_removed(scope, **row)]})

    run = each_row(removed)
    results = in_tasks(spark, work, _WORK, run, _REMOVED).collect()
    return sum(row["files"] for row in results)


def _removed(scope: Scope, repo: int, digit: str, alive: list[str]) -> int:
    blocks, namespace = opened(scope.place).blocks, scope.namespace(repo)
    if digit:
        return delete_every(blocks, leftovers.of_ranges(blocks, namespace, digit))
    names = leftovers.of_jobs(blocks, namespace, frozenset(alive), scope.before_ns)
    return delete_every(blocks, names)
