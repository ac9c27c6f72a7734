"""Costs that must not grow with what is gone, or with how it lies: two long measurements.

    python -m benchmarks.linear names    lists the branches of a repository, before and after this
                                         many branches were created, deleted and purged
    python -m benchmarks.linear folders  imports and lists this many files in one folder, and in
                                         folders of 1,000 files

It measures the engine on an embedded store in a temporary folder, which needs about 5 GB for 1
million files.  The store syncs nothing, because syncs are not what is measured.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.stopwatch import seconds_of
from graveler.assembly.embedded import open_embedded
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.ids import BranchId
from graveler.engine import imports, janitor
from graveler.engine import names as branches
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.names import PageQuery
from graveler.engine.objects import read
from graveler.engine.objects.read import ListQuery
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import repository

_PAGES: Final = 200  # listings of branches that are timed
_DAYS: Final = 3  # after these the records of deleted branches go
_A_FOLDER: Final = 1_000
Line = Mapping[str, object]


class _Later:
    """A clock that is some days ahead."""

    def __init__(self, clock: Clock, days: int) -> None:
        self._clock, self._ahead_ns = clock, days * 24 * 3600 * limits.SECOND_NS

    def now_ns(self) -> int:
        return self._clock.now_ns() + self._ahead_ns

    def steady_seconds(self) -> float:
        return self._clock.steady_seconds()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@contextmanager
def _lake(folder: Path, *roots: Path) -> Iterator[OpenRepository]:
    """A new repository on an embedded store."""
    store = open_embedded(folder / "store", synced=False, import_roots=roots)
    try:
        new = repository.NewRepository("bench", "local://bench")
        yield open_repository(store.ports, repository.create(store.ports, new))
    finally:
        store.close()


# ---- names ---------------------------------------------------------------------------------------


def names(count: int, folder: Path) -> Iterator[Line]:
    """A page of branches in a fresh repository; with the records of `count` deleted branches; and
    after the janitor has removed these."""
    with _lake(folder) as repo:
        fresh = _page_ms(repo)
        yield _line("a page of branches, fresh", fresh, "ms")
        began = time.perf_counter()
        for number in range(count):
            branches.create_branch(repo, f"b{number:07d}", "main")
            branches.delete_branch(repo, f"b{number:07d}")
        spent = time.perf_counter() - began
        yield _line("create and delete a branch", 1e3 * spent / count, "ms")
        yield _line(f"a page beside {count:,} deleted branches", _page_ms(repo, rounds=5), "ms")
        later = replace(repo, clock=_Later(repo.clock, _DAYS))
        began, purged = time.perf_counter(), 0
        while swept := janitor.sweep(later).names:
            purged += swept
        assert purged >= count, (purged, count)
        yield _line(f"removal of {count:,} records", time.perf_counter() - began, "s")
        after = _page_ms(repo)
        yield _line("a page of branches, after that", after, "ms")
        yield _line("that in fresh pages", after / fresh, "x")


def _page_ms(repo: OpenRepository, rounds: int = _PAGES) -> float:
    return 1e3 * statistics.median(
        seconds_of(lambda: branches.list_branches(repo, PageQuery())) for _ in range(rounds)
    )


# ---- folders -------------------------------------------------------------------------------------


def folders(count: int, folder: Path) -> Iterator[Line]:
    """An import of `count` empty files, and a listing of it by pages, each in time per file."""
    shown = {_A_FOLDER: "folders of 1,000", count: "one folder"}
    for in_a_folder, where in shown.items():
        root = folder / f"files-{in_a_folder}"
        root.mkdir()
        for number in range(count):
            inner = root / f"part-{number // in_a_folder:05d}"
            if number % in_a_folder == 0:
                inner.mkdir()
            (inner / f"{number:07d}").touch()
        with _lake(folder / where.replace(" ", "-"), root) as repo:
            yield _rate("import", where, count, partial(_import, repo, root))
            yield _rate("list", where, count, partial(_list, repo, count))


def _import(repo: OpenRepository, root: Path) -> None:
    main, source = BranchId("main"), ImportPath("common_prefix", f"local://{root}/", "imported/")
    request = ImportRequest([source], "imported", "bench")
    imports.run(repo, main, request, imports.submit(repo, "main", request, owner=b"bench").id)


def _list(repo: OpenRepository, count: int) -> None:
    listed, query = 0, ListQuery()
    while True:
        page = read.list_objects(repo, "main", query)
        listed += len(page.lines)
        if not page.more:
            break
        query = query._replace(after=page.lines[-1][0])
    assert listed == count, (listed, count)


def _rate(what: str, where: str, count: int, work: Callable[[], object]) -> Line:
    return _line(f"{what} {count:,} files in {where}", 1e6 * seconds_of(work) / count, "us a file")


def _line(name: str, value: float, unit: str) -> Line:
    return {"name": name, "value": round(value, 3), "unit": unit}


def main() -> None:
    """Measure, and print a JSON object a line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.linear",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["names", "folders"])
    parser.add_argument("--count", type=int, help="100,000 names or 1,000,000 files by default")
    given = parser.parse_args()
    measure, count = (names, 100_000) if given.what == "names" else (folders, 1_000_000)
    if given.what == "folders" and given.count is not None and given.count <= _A_FOLDER:
        parser.error(f"more than {_A_FOLDER:,} files do not fit into one folder of the others")
    with tempfile.TemporaryDirectory() as folder:
        for line in measure(given.count or count, Path(folder)):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
