"""What a collection on Spark is of: repositories, their roots, and what earlier runs have found.

    <namespace>/_graveler/gc/cluster/<run>/listed-….arrow      what was stored
                                          /roots-….arrow       addresses in use, twice
                                          /condemned-….arrow   what nothing used
                                          /summary.json        written last: only then it counts
    <namespace>/_graveler/gc/cluster/judged/…                  the service's snapshots, of a day

For `collecting.py`; runs in the driver.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import pyarrow as pa

from graveler import limits
from graveler.block import address
from graveler.block.deletion import delete_every
from graveler.block.listing import list_all
from graveler.client import bulk, collections
from graveler.client.collections import Files
from graveler.client.session import below
from graveler.committed.ranges import EMPTY_METARANGE
from graveler.engine.gc import eligible
from graveler.engine.gc.eligible import Namespaces
from graveler.errors import Conflict, Invalid, NotFound, Refused
from graveler.records import ABSENT, BreakParameters
from graveler.spark.cluster import pieces
from graveler.spark.cluster.places import Place, opened
from graveler.spark.gc.listing import Collected, Scope, hashed, runs_folder
from graveler.spark.lake import Lake, place_of

FOUND: Final = "repo int, name string, files bigint, size bigint"
FOUND_ARROW: Final = pa.schema(
    [("repo", pa.int32()), ("name", pa.string()), ("files", pa.int64()), ("size", pa.int64())]
)
_SUMMARY: Final = "summary.json"
_ASKERS: Final = 8
_ADDRESSES_EACH: Final = 50_000  # in a piece


class Found(NamedTuple):
    """A piece of what a run found: its address, how many files it names, of how many bytes."""

    repo: int
    name: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Roots:
    """What may not go.  `addresses`: pieces with the hashes of relative addresses, of which there
    may be more than the driver can hold.  Metaranges stand by the repository's number.  `expiring`:
    metaranges that retention lets go; their objects may, once their commits were condemned for
    long enough; `due`: that is so, and they may once a run that deletes has said so.  `tables`:
    metaranges that are not kept but stay, as do their ranges; `lent`: those that do so only while
    something else does.  `jobs`: bulk jobs that may still land."""

    addresses: tuple[str, ...]
    metaranges: tuple[tuple[int, str], ...]
    expiring: tuple[tuple[int, str], ...] = ()
    jobs: frozenset[tuple[int, str]] = frozenset()
    due: tuple[tuple[int, str], ...] = ()
    tables: tuple[tuple[int, str], ...] = ()
    lent: tuple[tuple[int, str], ...] = ()

    def beside(self, others: "Roots", *, due_goes: bool = False) -> "Roots":
        """All that may not go yet, but for content that the others keep."""
        content = set(others.metaranges)
        tables, due = set(others.tables), () if due_goes else self.due
        used = (*self.metaranges, *self.expiring, *due)
        return Roots(
            self.addresses,
            tuple(each for each in used if each not in content),
            tables=tuple(each for each in (*self.tables, *self.lent) if each not in tables),
        )


class Earlier(NamedTuple):
    """What a run found of a repository, with the number that the repository has now."""

    repo: int
    run: str
    undone: int
    pieces: tuple[str, ...]


# ---- repositories --------------------------------------------------------------------------------


def scope_of(lake: Lake, repositories: Sequence[str], run: str, before_ns: int) -> Scope:
    """Errors: `NotFound`; `Refused` for one whose files may be another's too; `Unsupported` for one
    whose bucket keeps no versions; `Invalid`.  One request to the API for each and for each 1,000
    that there are, and two to the storage for each."""
    everyone = list(_everyone(lake))
    asked = [each for each in everyone if each.id in set(repositories)]
    missing = set(repositories) - {each.id for each in asked}
    if missing:
        raise NotFound(f"repository not found: {','.join(sorted(missing))}")
    places = [place_of(lake, each.namespace, BreakParameters()) for each in asked]
    place = _joined(places)
    numbered = tuple(each._replace(number=at) for at, each in enumerate(asked))
    namespaces = Namespaces((each.id, each.namespace) for each in everyone)
    for one in numbered:
        _check_own(place, one, namespaces)
    return Scope(place, numbered, run, before_ns)


def _everyone(lake: Lake) -> Iterator[Collected]:
    after, more = "", True
    while more:
        query = urlencode({"amount": limits.page_count_max, "after": after})
        page = lake.session.ask("GET", f"{below('repositories')}?{query}")
        for each in page["results"]:
            created_ns = each["creation_date"] * limits.SECOND_NS
            yield Collected(0, each["id"], each["storage_namespace"].rstrip("/"), created_ns)
        more, after = page["pagination"]["has_more"], page["pagination"]["next_offset"]


def _joined(places: Sequence[Place]) -> Place:
    """One store for all of them."""
    kinds = {each.storage.partition(":")[0] for each in places}
    if len(kinds) > 1:
        raise Invalid("repositories in a folder and in buckets are collected by two runs")
    if kinds == {"local"}:
        return replace(places[0], namespace="")
    buckets = sorted({each.storage.partition(":")[2] for each in places})
    return replace(places[0], storage=f"s3:{','.join(buckets)}", namespace="")


def _check_own(place: Place, one: Collected, everyone: Namespaces) -> None:
    """Stores of earlier versions may have read-only or bare repositories on another one's files."""
    claim = f"{one.id} ".encode()
    try:
        found = opened(place).blocks.read(address.marker(one.namespace), 0, len(claim))
    except NotFound:
        found = b""
    if found != claim:
        raise Refused(eligible.not_its_own(one.id))
    other = everyone.other_on(one.id, one.namespace)
    if other is not ABSENT:
        raise Refused(eligible.shared(one.id, other))
    opened(place).blocks.check_versions(address.marker(one.namespace))


def roots(lake: Lake, scope: Scope, label: str) -> Roots:
    """What is in use now, of every repository: each read to its end in the API's order.  Pieces of
    addresses bear the `label`.  A request for each 10,000, a put for each 50,000 addresses."""

    def read(repo: Collected) -> tuple[list[str], list[bulk.Root]]:
        names: list[str] = []
        others: list[bulk.Root] = []
        held = array("q")
        for root in bulk.roots(lake.session, repo.id):
            if root.kind != "address":
                others.append(root)
                continue
            held.append(hashed(root.name))
            if len(held) == _ADDRESSES_EACH:
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
        for repo, (addresses, found) in enumerate(pool.map(read, scope.repositories)):
            names += addresses
            jobs |= {(repo, each.name) for each in found if each.kind == "job"}
            for each in found:
                if each.kind == "metarange" and each.name != EMPTY_METARANGE:
                    content[each.objects].append((repo, each.name))
                    if not each.kept:
                        tables[each.files].append((repo, each.name))
    return Roots(
        tuple(names),
        tuple(content["kept"]),
        tuple(content["expiring"]),
        frozenset(jobs),
        tuple(content["due"]),
        tuple(tables[True]),
        tuple(tables[False]),
    )


def _put_addresses(scope: Scope, repo: Collected, name: str, hashes: "array[int]") -> str:
    where = f"{scope.folder(repo.number)}{name}.arrow"
    columns = [pa.array([repo.number] * len(hashes), pa.int32()), pa.array(hashes, pa.int64())]
    batch = pa.RecordBatch.from_arrays(columns, names=["repo", "hash"])
    pieces.put(scope.place, where, batch)
    return where


# ---- runs ----------------------------------------------------------------------------------------


def condemn(lake: Lake, scope: Scope, found: Sequence[Found], now_ns: int) -> None:
    """Have the commits refused that retention lets go; from then on the run counts.

    `Conflict` if it was taken back meanwhile.  For each repository what `collecting.condemn` costs,
    and a put."""

    def one(repo: Collected) -> None:
        mine = [each for each in found if each.repo == repo.number]
        files = Files(sum(each.files for each in mine), sum(each.size for each in mine))
        undone = collections.condemn(lake.session, repo.id, scope.run, files, turn=scope.run)
        said = {"run": scope.run, "created_ns": now_ns, "undone": undone}
        said["pieces"] = [each.name for each in mine]
        opened(scope.place).blocks.put(
            scope.folder(repo.number) + _SUMMARY, [json.dumps(said).encode()]
        )

    with ThreadPoolExecutor(_ASKERS, "condemn") as pool:
        list(pool.map(one, scope.repositories))


def earlier(scope: Scope, due_ns: int) -> list[Earlier]:
    """The last run before `due_ns` of each repository."""
    runs: list[Earlier] = []
    for repo in scope.repositories:
        done = [each for each in _summaries(scope, repo) if each["created_ns"] <= due_ns]
        if done:
            last = max(done, key=lambda each: each["created_ns"])
            pieces = tuple(last["pieces"])
            runs.append(Earlier(repo.number, last["run"], last["undone"], pieces))
    return runs


def sweepable(lake: Lake, scope: Scope, runs: Sequence[Earlier]) -> list[Earlier]:
    """Those that nobody has taken back; nobody can from now on.  One request to the API each."""

    def one(each: Earlier) -> bool:
        try:
            repo = scope.repositories[each.repo].id
            collections.sweep(lake.session, repo, each.run, each.undone, turn=scope.run)
        except (Conflict, NotFound):
            return False  # what is left is condemned anew by this run
        return True

    with ThreadPoolExecutor(_ASKERS, "sweep") as pool:
        return [each for each, goes in zip(runs, pool.map(one, runs), strict=True) if goes]


def _summaries(scope: Scope, repo: Collected) -> Iterator[dict[str, Any]]:
    lines = list_all(opened(scope.place).blocks, runs_folder(repo.namespace))
    return _summaries_in(scope, (line.address for line in lines))


def _summaries_in(scope: Scope, addresses: Iterable[str]) -> Iterator[dict[str, Any]]:
    blocks = opened(scope.place).blocks
    for where in addresses:
        if where.endswith("/" + _SUMMARY):
            found: dict[str, Any] = json.loads(b"".join(blocks.get(where).chunks))
            yield found


def forget(scope: Scope, due_ns: int) -> None:
    """Remove what no later run will look at: files written before `due_ns`, dry runs, failed ones
    and the service's snapshots among them, but for the last run before then and those since.  A
    list of each repository's files, and a request for each 1,000 that go."""
    blocks = opened(scope.place).blocks
    old: list[str] = []
    for repo in scope.repositories:
        prefix = runs_folder(repo.namespace)
        lines = list(list_all(blocks, prefix))
        known = sorted(
            (each["created_ns"], each["run"])
            for each in _summaries_in(scope, (line.address for line in lines))
        )
        before = [run for created_ns, run in known if created_ns <= due_ns]
        kept = {scope.run, *before[-1:], *(run for created_ns, run in known if created_ns > due_ns)}
        old += [
            line.address
            for line in lines
            if line.address.removeprefix(prefix).partition("/")[0] not in kept
            and line.head.modified_ns <= due_ns
        ]
    delete_every(blocks, old)
