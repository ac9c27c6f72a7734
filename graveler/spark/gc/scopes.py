"""The scope of a collection: its repositories, what they store, their roots, and earlier runs.

<namespace>/_graveler/gc/cluster/<run>/listed-….arrow, roots-….arrow, condemned-….arrow
                                      /summary.json    written last: the run counts from then
<namespace>/_graveler/gc/cluster/judged/…              the service's snapshots, of a day
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.block import address
from graveler.block.address import FILES, OBJECTS, is_ours
from graveler.block.drivers import delete_every, list_all
from graveler.committed.ranges import EMPTY_METARANGE
from graveler.core import limits
from graveler.core.clock import descending_partition
from graveler.core.errors import Conflict, Invalid, NotFound, Refused
from graveler.core.identity import break_hash, break_seed
from graveler.core.records import ABSENT, BreakParameters
from graveler.engine import namespaces as eligible
from graveler.engine.namespaces import Namespaces
from graveler.lake import bulk, turns
from graveler.lake.session import below, paged
from graveler.lake.turns import Files
from graveler.spark.lake import Lake, place_of
from graveler.spark.places import Place, opened
from graveler.spark.tasks import arrow_schema, each_row, in_tasks, put_piece

LISTED: Final = "repo int, name string, version string, size bigint, is_old boolean, hash bigint"
_SCHEMA: Final = arrow_schema(LISTED)
_PIECES: Final = "repo int, name string, files bigint"
_SLICES: Final = "repo int, number int, folder string, after string, upto string"
_SLICES_MAX: Final = 256  # of all repositories together, at least two for each
_PIECE_ROWS: Final = 50_000
_SEED: Final = break_seed(b"names of stored files")
_END: Final = "~"  # after all names that Graveler gives
FOUND: Final = "repo int, name string, files bigint, size bigint"
FOUND_ARROW: Final = arrow_schema(FOUND)
_SUMMARY: Final = "summary.json"
_ASKERS: Final = 8
ADDRESSES_EACH: Final = 50_000  # in a piece


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
    """Make the list; return its pieces.  Two requests for each repository, one for each 1,000
    files, at least one for each slice; one put for each 50,000 files.  A folder whose files fit
    into one request is one slice."""
    count = max(1, _SLICES_MAX // (2 * len(scope.repositories)))

    def sliced(repo: CollectedRepository) -> list[tuple[str, str, str]]:
        blocks = opened(scope.place).blocks
        large = [
            folder
            for folder in (FILES, OBJECTS)
            if blocks.list(f"{repo.namespace}/{folder}", "", limits.page_count_max).more
        ]
        slices = [each for each in slices_of(repo, now_ns, count) if each[0] in large]
        return slices + [each for each in slices_of(repo, now_ns, 1) if each[0] not in large]

    with ThreadPoolExecutor(_ASKERS, "slices") as pool:
        sliced_all = list(pool.map(sliced, scope.repositories))
    slices = [
        dict(zip(("repo", "number", "folder", "after", "upto"), each, strict=True))
        for repo, found in zip(scope.repositories, sliced_all, strict=True)
        for number, slice in enumerate(found)
        for each in [(repo.number, number, *slice)]
    ]

    def listed_slice(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        written = [each._asdict() for each in _written(scope, **row)]
        yield pa.RecordBatch.from_pylist(written, schema=arrow_schema(_PIECES))

    run = each_row(listed_slice)
    rows = in_tasks(spark, slices, _SLICES, run, _PIECES, len(slices)).collect()
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
    put_piece(scope.place, where, pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))
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


class ListPiece(NamedTuple):
    """A piece of a run's results: its address, how many files it names, and their bytes."""

    repo: int
    name: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Roots:
    """What must not be deleted.  A metarange stands beside the number of its repository.
    `addresses`: pieces with the hashes of relative addresses; there may be more than the driver can
    hold.  `metaranges`: their content is kept.  `expiring`: metaranges that retention releases;
    their objects may be deleted once their commits have been condemned for the undo period.  `due`:
    the same, after that period; their objects may be deleted once a run that deletes has announced
    it.  `tables`: metaranges whose content is not kept, but whose own files and ranges stay.
    `lent`: those whose files stay only while something else keeps them.  `jobs`: bulk jobs that may
    still land."""

    addresses: tuple[str, ...]
    metaranges: tuple[tuple[int, str], ...]
    expiring: tuple[tuple[int, str], ...] = ()
    jobs: frozenset[tuple[int, str]] = frozenset()
    due: tuple[tuple[int, str], ...] = ()
    tables: tuple[tuple[int, str], ...] = ()
    lent: tuple[tuple[int, str], ...] = ()

    def beside(self, others: "Roots", *, due_goes: bool = False) -> "Roots":
        """Everything that must not be deleted yet, without the content that the `others` keep."""
        content = set(others.metaranges)
        tables, due = set(others.tables), () if due_goes else self.due
        used = (*self.metaranges, *self.expiring, *due)
        return Roots(
            self.addresses,
            tuple(each for each in used if each not in content),
            tables=tuple(each for each in (*self.tables, *self.lent) if each not in tables),
        )


class EarlierRun(NamedTuple):
    """What an earlier run found in a repository, with the number that the repository has in this
    run."""

    repo: int
    run: str
    undone: int
    pieces: tuple[str, ...]


# ---- repositories --------------------------------------------------------------------------------


def scope_of(lake: Lake, repositories: Sequence[str], run: str, before_ns: int) -> Scope:
    """The scope of a run.  Errors: `NotFound`; `Refused` for a repository whose files may belong to
    another one too; `Unsupported` for one whose bucket keeps no versions; `Invalid`."""
    everyone = list(_everyone(lake))
    chosen = [each for each in everyone if each.id in set(repositories)]
    missing = set(repositories) - {each.id for each in chosen}
    if missing:
        raise NotFound(f"repository not found: {','.join(sorted(missing))}")
    places = [place_of(lake, each.namespace, BreakParameters()) for each in chosen]
    place = _joined(places)
    numbered = tuple(each._replace(number=at) for at, each in enumerate(chosen))
    namespaces = Namespaces((each.id, each.namespace) for each in everyone)
    for one in numbered:
        _check_own(place, one, namespaces)
    return Scope(place, numbered, run, before_ns)


def _everyone(lake: Lake) -> Iterator[CollectedRepository]:
    for each in paged(lake.session, below("repositories"), limits.page_count_max):
        created_ns = each["creation_date"] * limits.SECOND_NS
        yield CollectedRepository(0, each["id"], each["storage_namespace"].rstrip("/"), created_ns)


def _joined(places: Sequence[Place]) -> Place:
    """One store for all of them."""
    kinds = {each.storage.partition(":")[0] for each in places}
    if len(kinds) > 1:
        raise Invalid("repositories in a folder and in buckets need two runs")
    if kinds == {"local"}:
        return replace(places[0], namespace="")
    buckets = sorted({each.storage.partition(":")[2] for each in places})
    return replace(places[0], storage=f"s3:{','.join(buckets)}", namespace="")


def _check_own(place: Place, one: CollectedRepository, everyone: Namespaces) -> None:
    """Refuse a repository on files of another one: stores of earlier versions may have read-only or
    bare repositories like that."""
    claim = f"{one.id} ".encode()
    try:
        marker = opened(place).blocks.read(address.marker(one.namespace), 0, len(claim))
    except NotFound:
        marker = b""
    if marker != claim:
        raise Refused(eligible.not_its_own(one.id))
    other = everyone.other_on(one.id, one.namespace)
    if other is not ABSENT:
        raise Refused(eligible.shared(one.id, other))
    opened(place).blocks.check_versions(address.marker(one.namespace))


def roots(lake: Lake, scope: Scope, label: str, addresses_each: int = ADDRESSES_EACH) -> Roots:
    """What is in use now, of every repository; each is read to its end in the API's order.  The
    pieces of addresses have the `label` in their names."""

    def read(repo: CollectedRepository) -> tuple[list[str], list[bulk.Root]]:
        names: list[str] = []
        others: list[bulk.Root] = []
        held = array("q")
        for root in bulk.roots(lake.session, repo.id):
            if root.kind != "address":
                others.append(root)
                continue
            held.append(hashed(root.name))
            if len(held) == addresses_each:
                names.append(_put_addresses(scope, repo, f"{label}-{len(names):05}", held))
                held = array("q")
        if held:
            names.append(_put_addresses(scope, repo, f"{label}-{len(names):05}", held))
        return names, others

    names: list[str] = []
    content: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    tables: defaultdict[bool, list[tuple[int, str]]] = defaultdict(list)
    jobs: set[tuple[int, str]] = set()
    with ThreadPoolExecutor(_ASKERS, "roots") as pool:
        for repo, (addresses, entries) in enumerate(pool.map(read, scope.repositories)):
            names += addresses
            jobs |= {(repo, each.name) for each in entries if each.kind == "job"}
            for entry in entries:
                if entry.kind == "metarange" and entry.name != EMPTY_METARANGE:
                    content[entry.objects].append((repo, entry.name))
                    if not entry.kept:
                        tables[entry.files].append((repo, entry.name))
    return Roots(
        tuple(names),
        tuple(content["kept"]),
        tuple(content["expiring"]),
        frozenset(jobs),
        tuple(content["due"]),
        tuple(tables[True]),
        tuple(tables[False]),
    )


def _put_addresses(scope: Scope, repo: CollectedRepository, name: str, hashes: "array[int]") -> str:
    where = f"{scope.folder(repo.number)}{name}.arrow"
    columns = [pa.array([repo.number] * len(hashes), pa.int32()), pa.array(hashes, pa.int64())]
    batch = pa.RecordBatch.from_arrays(columns, names=["repo", "hash"])
    put_piece(scope.place, where, batch)
    return where


# ---- runs ----------------------------------------------------------------------------------------


def condemn(
    lake: Lake,
    scope: Scope,
    condemned: Sequence[ListPiece],
    metaranges: Sequence[tuple[int, str]],
) -> None:
    """Make the API refuse the commits that retention releases, and the `metaranges` that no commit
    has; then write the summaries, from which on the run counts.  The undo period begins here: only
    now every mark stands.  Raises `Conflict` if the run was undone meanwhile.  Cost for each
    repository: that of `lake.turns.condemn`, and a put."""

    def one(repo: CollectedRepository) -> None:
        own = [each for each in condemned if each.repo == repo.number]
        files = Files(sum(each.files for each in own), sum(each.size for each in own))
        unused = [id for number, id in metaranges if number == repo.number]
        undone = turns.condemn(lake.session, repo.id, scope.run, files, unused, turn=scope.run)
        now_ns = lake.session.clock.now_ns()
        summary = {"run": scope.run, "condemned_ns": now_ns, "undone": undone}
        summary["pieces"] = [each.name for each in own]
        opened(scope.place).blocks.put(
            scope.folder(repo.number) + _SUMMARY, [json.dumps(summary).encode()]
        )

    with ThreadPoolExecutor(_ASKERS, "condemn") as pool:
        list(pool.map(one, scope.repositories))


def earlier(scope: Scope, due_ns: int) -> list[EarlierRun]:
    """The last run of each repository whose undo period began before `due_ns`."""
    runs: list[EarlierRun] = []
    for repo in scope.repositories:
        lines = list_all(opened(scope.place).blocks, runs_folder(repo.namespace))
        summaries = _summaries(scope, (line.address for line in lines))
        done = [each for each in summaries if each["condemned_ns"] <= due_ns]
        if done:
            last = max(done, key=lambda each: each["condemned_ns"])
            pieces = tuple(last["pieces"])
            runs.append(EarlierRun(repo.number, last["run"], last["undone"], pieces))
    return runs


def sweepable(lake: Lake, scope: Scope, runs: Sequence[EarlierRun]) -> list[EarlierRun]:
    """The runs that were not undone; from now on they cannot be undone.  One request to the API for
    each."""

    def one(run: EarlierRun) -> bool:
        try:
            repo = scope.repositories[run.repo].id
            turns.sweep(lake.session, repo, run.run, run.undone, turn=scope.run)
        except (Conflict, NotFound):
            return False  # this run condemns the remaining files anew
        return True

    with ThreadPoolExecutor(_ASKERS, "sweep") as pool:
        return [each for each, goes in zip(runs, pool.map(one, runs), strict=True) if goes]


def _summaries(scope: Scope, addresses: Iterable[str]) -> Iterator[dict[str, Any]]:
    blocks = opened(scope.place).blocks
    for where in addresses:
        if where.endswith("/" + _SUMMARY):
            yield json.loads(b"".join(blocks.get(where).chunks))


def forget(scope: Scope, due_ns: int) -> None:
    """Delete results that no later run reads: files written before `due_ns`, also of dry runs, of
    failed runs and of the service's snapshots.  The last run before `due_ns` and all runs since are
    kept."""
    blocks = opened(scope.place).blocks
    old: list[str] = []
    for repo in scope.repositories:
        prefix = runs_folder(repo.namespace)
        lines = list(list_all(blocks, prefix))
        known = sorted(
            (summary["condemned_ns"], summary["run"])
            for summary in _summaries(scope, (line.address for line in lines))
        )
        before = [run for condemned_ns, run in known if condemned_ns <= due_ns]
        since = [run for condemned_ns, run in known if condemned_ns > due_ns]
        keep = {scope.run, *before[-1:], *since}
        old += [
            line.address
            for line in lines
            if line.address.removeprefix(prefix).partition("/")[0] not in keep
            and line.head.modified_ns <= due_ns
        ]
    delete_every(blocks, old)
