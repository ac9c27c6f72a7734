"""The scope of a collection on Spark: repositories, their roots, and the results of earlier runs.

    <namespace>/_graveler/gc/cluster/<run>/listed-….arrow      what was stored
                                          /roots-….arrow       addresses in use, twice
                                          /condemned-….arrow   what was unused
                                          /summary.json        written last: the run counts from
                                          then
    <namespace>/_graveler/gc/cluster/judged/…                  the service's snapshots, of a day

For `collect.py`; runs in the driver.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from graveler import limits
from graveler.block import address
from graveler.block.deletion import delete_every
from graveler.block.listing import list_all
from graveler.client import bulk, collections
from graveler.client.collections import Files
from graveler.client.session import below, paged
from graveler.committed.ranges import EMPTY_METARANGE
from graveler.engine import namespaces as eligible
from graveler.engine.namespaces import Namespaces
from graveler.errors import Conflict, Invalid, NotFound, Refused
from graveler.records import ABSENT, BreakParameters
from graveler.spark.cluster import pieces
from graveler.spark.cluster.places import Place, opened
from graveler.spark.gc.listing import CollectedRepository, Scope, hashed, runs_folder
from graveler.spark.lake import Lake, place_of

FOUND: Final = "repo int, name string, files bigint, size bigint"
FOUND_ARROW: Final = pa.schema(
    [("repo", pa.int32()), ("name", pa.string()), ("files", pa.int64()), ("size", pa.int64())]
)
_SUMMARY: Final = "summary.json"
_ASKERS: Final = 8
ADDRESSES_EACH: Final = 50_000  # in a piece


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
    still land.
    """

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
    """The scope of a run.

    Errors: `NotFound`; `Refused` for a repository whose files may belong to another one too;
    `Unsupported` for one whose bucket keeps no versions; `Invalid`.  Cost: one request to the API
    for each 1,000 repositories of the installation, and two to the storage for each that is
    collected.
    """
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
    """What is in use now, of every repository; each is read to its end in the API's order.

    The pieces of addresses have the `label` in their names.  Cost: one request for each 10,000
    roots, one put for each `addresses_each` addresses.
    """

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
    pieces.put(scope.place, where, batch)
    return where


# ---- runs ----------------------------------------------------------------------------------------


def condemn(
    lake: Lake,
    scope: Scope,
    condemned: Sequence[ListPiece],
    metaranges: Sequence[tuple[int, str]],
) -> None:
    """Make the API refuse the commits that retention releases, and the `metaranges` that no commit
    has; then write the summaries, from which on the run counts.

    The undo period begins here: only now every mark stands.

    Raises `Conflict` if the run was undone meanwhile.  Cost for each repository: that of
    `client.collections.condemn`, and a put.
    """

    def one(repo: CollectedRepository) -> None:
        own = [each for each in condemned if each.repo == repo.number]
        files = Files(sum(each.files for each in own), sum(each.size for each in own))
        unused = [id for number, id in metaranges if number == repo.number]
        undone = collections.condemn(
            lake.session, repo.id, scope.run, files, unused, turn=scope.run
        )
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
        done = [each for each in _summaries(scope, repo) if each["condemned_ns"] <= due_ns]
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
            collections.sweep(lake.session, repo, run.run, run.undone, turn=scope.run)
        except (Conflict, NotFound):
            return False  # this run condemns the remaining files anew
        return True

    with ThreadPoolExecutor(_ASKERS, "sweep") as pool:
        return [each for each, goes in zip(runs, pool.map(one, runs), strict=True) if goes]


def _summaries(scope: Scope, repo: CollectedRepository) -> Iterator[dict[str, Any]]:
    lines = list_all(opened(scope.place).blocks, runs_folder(repo.namespace))
    return _summaries_in(scope, (line.address for line in lines))


def _summaries_in(scope: Scope, addresses: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Without those of earlier versions, which did not mark all metaranges that they condemned."""
    blocks = opened(scope.place).blocks
    for where in addresses:
        if where.endswith("/" + _SUMMARY):
            summary: dict[str, Any] = json.loads(b"".join(blocks.get(where).chunks))
            if "condemned_ns" in summary:
                yield summary


def forget(scope: Scope, due_ns: int) -> None:
    """Delete results that no later run reads: files written before `due_ns`, also of dry runs, of
    failed runs and of the service's snapshots.

    The last run before `due_ns` and all runs since are kept.  Cost: a list of the files of each
    repository, and one request for each 1,000 deleted files.
    """
    blocks = opened(scope.place).blocks
    old: list[str] = []
    for repo in scope.repositories:
        prefix = runs_folder(repo.namespace)
        lines = list(list_all(blocks, prefix))
        known = sorted(
            (summary["condemned_ns"], summary["run"])
            for summary in _summaries_in(scope, (line.address for line in lines))
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
