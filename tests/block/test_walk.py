"""Lists of a tree of folders: each name is read once, however many pages there are, and few stand
in memory at a time."""

import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from graveler.block.adapter import ObjectHead
from graveler.block.address import Parts
from graveler.block.drivers import list_all
from graveler.block.local import ImportRules, LocalBlocks
from graveler.block.walk import Child, FileHead, FileKey, Pages, Start, sorted_children
from graveler.core.clock import SystemClock, SystemIds

TOP = Parts("local", "lake", "")
STEM = "local://lake/"

COUNT = 20_011


class Clock(SystemClock):
    """Steady time as a test sets it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def steady_seconds(self) -> float:
        return self.now


class Folders:
    """A tree in memory, which counts what is read of it."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = set(keys)
        self.gone: set[str] = set()
        self.read: Counter[str] = Counter()

    def start(self, parts: Parts) -> Start:
        return Start("", ())

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        stem = "".join(f"{name}/" for name in folders)
        below = [key[len(stem) :] for key in self.keys if key.startswith(stem)]
        names = sorted({(name.split("/")[0], "/" in name) for name in below})
        random.Random(len(names)).shuffle(names)
        for name, is_folder in names:
            self.read[stem] += 1
            yield Child(name, name, is_folder)

    def heads(self, files: Sequence[FileKey]) -> Iterator[FileHead]:
        for one in files:
            if one.key not in self.gone:
                yield FileHead(one.key, ObjectHead(len(one.key), "etag", 0))


def listed(pages: Pages, tree: Folders, limit: int = 1_000, after: str = "") -> list[str]:
    """All keys, page by page."""
    found: list[str] = []
    more = True
    while more:
        page = pages.page(tree, TOP, after, limit)
        found += [line.address.removeprefix(STEM) for line in page.lines]
        more, after = page.more, page.lines[-1].address if page.lines else after
    return found


FLAT = [f"file-{number:05}" for number in range(12_000)]


@pytest.mark.parametrize("run_count", [700, 50_000])
def test_a_large_folder_is_read_once_for_all_pages(run_count: int) -> None:
    tree = Folders([*FLAT, "file-00500/below", "file-00500!", *(f"z/{n:04}" for n in range(5_000))])
    assert listed(Pages(Clock(), run_count), tree) == sorted(tree.keys)
    assert tree.read == {"": len(FLAT) + 3, "file-00500/": 1, "z/": 5_000}


def test_a_list_that_begins_anew_shows_what_was_added() -> None:
    tree, pages = Folders(FLAT), Pages(Clock())
    assert pages.page(tree, TOP, "", 1_000).more
    tree.keys.add("file-00000a")
    assert listed(pages, tree)[1] == "file-00000a"


def test_a_walk_that_is_an_hour_old_is_not_gone_on_with() -> None:
    tree, clock = Folders(FLAT), Clock()
    pages = Pages(clock)
    last = pages.page(tree, TOP, "", 1_000).lines[-1].address
    tree.keys.add("file-01000a")
    clock.now += 3_600
    assert listed(pages, tree, after=last)[1] == "file-01000a"


def test_lists_of_many_clients_at_once_are_each_whole() -> None:
    tree, pages = Folders(FLAT), Pages(Clock())
    ends = [""] * 5
    found: list[list[str]] = [[] for _ in ends]
    for _ in range(len(FLAT) // 1_000):
        for client, after in enumerate(ends):
            page = pages.page(tree, TOP, after, 1_000)
            found[client] += [line.address.removeprefix(STEM) for line in page.lines]
            ends[client] = page.lines[-1].address
    assert found == [FLAT] * len(ends)


def test_a_page_whose_files_all_vanished_does_not_end_the_list() -> None:
    tree = Folders(FLAT)
    tree.gone = set(FLAT[:5_000]) | {FLAT[5_999]} | set(FLAT[-10:])
    assert listed(Pages(Clock()), tree) == [key for key in FLAT if key not in tree.gone]


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 1_000])
def test_children_are_sorted_in_runs(count: int) -> None:
    chance = random.Random(count)
    children = [Child(f"{n}" + "\udcff" * (n % 3), f"%{n}\n", n % 2 == 0) for n in range(count)]
    chance.shuffle(children)
    found = list(sorted_children(children, 100))
    assert found == sorted(children, key=lambda child: child.fragment)


def test_a_folder_larger_than_memory_is_sorted_on_the_disk() -> None:
    names = (f"{number * 7919 % COUNT:09}" for number in range(COUNT))
    many = (Child(name, name, False) for name in names)
    tracemalloc.start()
    try:
        walked = sorted_children(many, 2_000)
        assert all(child.name == f"{n:09}" for n, child in enumerate(walked))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < COUNT * 100  # a child takes twice as much


def test_files_of_a_flat_folder_are_listed(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "imports"
    root.mkdir()
    for number in range(5_000):
        (root / f"{number * 7919 % 5_000:05}").touch()
    (root / "01234a").mkdir()
    (root / "01234a" / "x").touch()
    blocks = LocalBlocks(
        tmp_path / "store", clock=SystemClock(), ids=SystemIds(), imports=ImportRules([root])
    )
    prefix = f"local://{root}/"
    found = [line.address.removeprefix(prefix) for line in list_all(blocks, prefix)]
    assert found == sorted([*(f"{n:05}" for n in range(5_000)), "01234a/x"])
