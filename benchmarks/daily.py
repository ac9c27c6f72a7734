"""What people do every day, by the API: by the number of objects, by many at once, after long use.

    verbs       of one and of 100 spread changes: commit, diff, merge, revert, cherry-pick; a page
                of the log
    committers  8 at once, each with a fresh upload: on branches of their own, on one branch, and
                there with `allow_empty`
    history     branch, commit, merge, delete, as jobs do; then a list, pages of the log, a diff
    written     bytes and syncs of a commit of one

lakeFS's figures are those of a run side by side on the reference machine.  Run by `http`, whose
group `daily` this is: `python -m benchmarks.pairs CHECKOUT --only daily` compares two versions.
"""

import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import committed, served
from benchmarks.load import Target, run
from benchmarks.served import WHERE, Asking, Line, checked, connected, line, upload
from graveler.assembly.embedded import open_embedded
from graveler.core import wire
from graveler.core.ids import BranchId
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.objects import write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.kv.rocksdb import RocksStore

CHANGES: Final = (1, 100)
COMMITTERS: Final = 8
# lakeFS, by the number of objects: ms of a verb of one change; commits a second
VERBS_OF_LAKEFS: Final = {
    "commit": {1_000: 19.0, 10_000: 28.0},
    "merge": {1_000: 7.5, 10_000: 26.0},
}
OWN_OF_LAKEFS, SHARED_OF_LAKEFS = 114.0, 56.0
LIST_OF_LAKEFS_MS, LOG_OF_LAKEFS_MS = 2.8, 0.5
GOAL_HISTORY_MS, GOAL_DIFF_MS, GOAL_CREATE_MS = 2.0, 50.0, 3.0
_FOLDER: Final = 1_000  # files in each folder of an import
_PAGE: Final = {"amount": "100"}
_LOWER: Final[dict[str, Any]] = {"better": "lower"}


# ---- verbs ---------------------------------------------------------------------------------------


def verbs(target: Target, branch: str, objects: int, rounds: int) -> list[Line]:
    """The medians of each verb on `branch`, which an import of so many objects made."""
    chance = random.Random(objects)
    taken: dict[str, list[float]] = {}
    with connected(target) as ask:
        for amount, number in itertools.product(CHANGES, range(rounds)):
            paths = {_path(chance.randrange(objects)) for _ in range(amount)}
            for verb, seconds in _verbs(ask, target, branch, f"{amount}-{number}", sorted(paths)):
                taken.setdefault(f"{verb} of {amount}", []).append(seconds * 1e3)
    found = []
    for name, milliseconds in taken.items():
        verb, _, count = name.partition(" of ")
        peer = VERBS_OF_LAKEFS.get(verb, {}).get(objects, 0.0) if count == "1" else 0.0
        title = f"{name}, {objects:,} objects"
        found.append(line(title, statistics.median(milliseconds), "ms", peer, **_LOWER))
    return found


def _path(number: int) -> str:
    return f"imported/part-{number // _FOLDER:03d}/{number:06d}"


def _verbs(
    ask: Asking, target: Target, branch: str, name: str, paths: Sequence[str]
) -> Iterator[tuple[str, float]]:
    """The seconds of each verb for changes of these paths."""
    work, other = (branched_from(ask, target, branch, f"{branch}-{name}-{end}") for end in "ab")
    uploads = iter([upload(target, work, path) for path in paths])
    checked(run(target, COMMITTERS, [uploads] * COMMITTERS))

    def post(path: str, body: object) -> float:
        return ask(target.request("POST", WHERE + path, body=body))

    def get(path: str) -> float:
        return ask(target.request("GET", WHERE + path, _PAGE))

    yield "commit", post(f"/branches/{work}/commits", {"message": name})
    yield "diff", get(f"/refs/{branch}/diff/{work}")
    yield "cherry-pick", post(f"/branches/{other}/cherry-pick", {"ref": work})
    yield "merge", post(f"/refs/{work}/merge/{branch}", {})
    yield "revert", post(f"/branches/{branch}/revert", {"ref": branch, "parent_number": 1})
    yield "page of the log after that", get(f"/refs/{branch}/commits")


def branched_from(ask: Asking, target: Target, source: str, name: str) -> str:
    """A new branch.  Returns its name."""
    ask(target.request("POST", f"{WHERE}/branches", body={"name": name, "source": source}))
    return name


# ---- committers ----------------------------------------------------------------------------------


def committers(target: Target, source: str, objects: int, seconds: float) -> list[Line]:
    """Commits a second, and how many requests failed."""
    with connected(target) as ask:
        own = [branched_from(ask, target, source, f"{source}-c{n}") for n in range(COMMITTERS)]
        one = [branched_from(ask, target, source, f"{source}-hot")] * COMMITTERS
    where = f"a branch of {objects:,} objects"
    return [
        *_committed(target, own, {}, f"branches of their own, {objects:,} objects", seconds,
                    OWN_OF_LAKEFS if objects == 10_000 else 0.0),
        *_committed(target, one, {}, where, seconds, SHARED_OF_LAKEFS),
        *_committed(target, one, {"allow_empty": True}, f"{where}, allow_empty", seconds),
    ]  # fmt: skip


def _committed(
    target: Target,
    branches: Sequence[str],
    terms: dict[str, Any],
    where: str,
    seconds: float,
    peer: float = 0.0,
) -> list[Line]:
    counter = itertools.count()
    commits = set[bytes]()

    def one(branch: str) -> Iterator[bytes]:
        body = {"message": "all of it", **terms}
        request = target.request("POST", f"{WHERE}/branches/{branch}/commits", body=body)
        commits.add(request)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            yield upload(target, branch, _path(next(counter) % _FOLDER) + ".new")
            yield request

    streams = [one(branch) for branch in branches]
    load = run(target, COMMITTERS, streams, lambda sent: "c" if sent in commits else "u")
    # 400: another commit has taken what was staged
    failed = sum(count for status, count in load.statuses.items() if status not in (201, 400))
    name = f"{COMMITTERS} committers on {where}"
    rate = load.kinds["c"].statuses[201] / load.elapsed
    share = 100 * failed / len(load.seconds)
    return [
        line(name, rate, "commits/s", peer, scales="sync"),
        line(f"{name}: failed", share, "%", goal=0, scales="none", **_LOWER),
        line(f"{name}: worst", max(load.seconds), "s", scales="sync", **_LOWER),
    ]


# ---- history -------------------------------------------------------------------------------------


def history(target: Target, count: int, repositories: int) -> list[Line]:
    """What is slow after `count` times branch, commit, merge, delete, if anything is."""
    with connected(target) as ask:
        work = branched_from(ask, target, "main", "worked")
        old = branched_from(ask, target, "main", "old")
        ask(upload(target, old, "of/the/old/branch"))
        ask(served.commit_request(target, old))
    cycle = checked(run(target, 1, [_jobs(target, work, count)]))
    merged = f"after {count:,} × branch, commit, merge, delete"
    with connected(target) as ask:

        def median(path: str, rounds: int = 9) -> float:
            return 1e3 * statistics.median(
                ask(target.request("GET", WHERE + path, _PAGE)) for _ in range(rounds)
            )

        made = statistics.median(_created(ask, target, f"other-{n}") for n in range(repositories))
        middle = f"/refs/{work}~{count // 2}/commits"
        figures = [
            ("100 branches", median("/branches"), GOAL_HISTORY_MS, LIST_OF_LAKEFS_MS),
            ("first page of the log", median(f"/refs/{work}/commits"), GOAL_HISTORY_MS,
             LOG_OF_LAKEFS_MS),
            ("a page of the log from the middle", median(middle), GOAL_HISTORY_MS, 0.0),
            ("diff of a branch from before, again", median(f"/refs/{work}/diff/{old}", 3),
             GOAL_DIFF_MS, 0.0),
        ]  # fmt: skip
    return [
        line(f"branch, upload, commit, merge, delete: {count:,} ×", cycle.elapsed / count * 1e3,
             "ms", **_LOWER),
        *(line(f"{what}, {merged}", value, "ms", peer, goal=goal, **_LOWER)
          for what, value, goal, peer in figures),
        line(f"create a repository beside {repositories:,} others", made * 1e3, "ms",
             goal=GOAL_CREATE_MS, **_LOWER),
    ]  # fmt: skip


def _jobs(target: Target, into: str, count: int) -> Iterator[bytes]:
    for number in range(count):
        branch = f"job-{number:06d}"
        body = {"name": branch, "source": into}
        yield target.request("POST", f"{WHERE}/branches", body=body)
        yield upload(target, branch, f"jobs/{number // _FOLDER:03d}/{number:06d}")
        yield served.commit_request(target, branch)
        yield target.request("POST", f"{WHERE}/refs/{branch}/merge/{into}", body={})
        yield target.request("DELETE", f"{WHERE}/branches/{branch}")


def _created(ask: Asking, target: Target, name: str) -> float:
    body = {"name": name, "storage_namespace": f"local://{name}/data"}
    return ask(target.request("POST", "/repositories", body=body))


# ---- written -------------------------------------------------------------------------------------


def written(objects: int, rounds: int = 5) -> list[Line]:
    """What a commit of one puts on the disk, beside so many objects."""
    syncs, sizes, request = list[int](), list[int](), CommitRequest("of one", "bench")
    with tempfile.TemporaryDirectory() as folder:
        lake = open_embedded(Path(folder) / "store")
        new = repository.NewRepository("bench", "local://bench")
        repo = open_repository(lake.ports, repository.create(lake.ports, new))
        main = BranchId("main")

        def put(number: int, edition: int) -> None:
            entry = wire.decode_entry(committed.value(number, edition))
            write.put(repo, main, _path(number).encode(), entry)

        for number in range(objects):
            put(number, 0)
        for number in range(rounds + 1):  # the first commit has all
            put(number * 7919 % objects, number + 1)
            before = _size(Path(folder))
            syncs.append(_syncs_of(lake.ports.kv, lambda: commit(repo, "main", request)))
            sizes.append(_size(Path(folder)) - before)
        lake.close()
    where = f"a commit of one, {objects:,} objects"
    return [
        line(
            f"bytes of {where}", statistics.median(sizes[1:]) / 1024, "KB", scales="none", **_LOWER
        ),
        line(f"syncs of {where}", statistics.median(syncs[1:]), "syncs", goal=4, **_LOWER),
    ]


def _size(folder: Path) -> int:
    """The bytes of all files."""
    return sum(at.stat().st_size for at in folder.rglob("*") if at.is_file())


def _syncs_of(kv: object, work: Callable[[], object]) -> int:
    """Calls of `fsync`, and syncs of the log of the rows."""
    assert isinstance(kv, RocksStore)
    calls, whole, before = [0], os.fsync, kv.counts.syncs

    def counted(descriptor: int) -> None:
        calls[0] += 1
        whole(descriptor)

    os.fsync = counted  # type: ignore[assignment]
    try:
        work()
    finally:
        os.fsync = whole
    return calls[0] + kv.counts.syncs - before
