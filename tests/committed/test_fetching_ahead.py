"""Ranges that a reader needs next are fetched beside it, if the store is far."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from graveler.assembly.drivers import FetchThreads, WriteThreads, rest
from graveler.block.adapter import TO_END, Body
from graveler.block.memory import MemoryBlocks
from graveler.committed import apply, diff, merge, reader, writer
from graveler.committed.merge import Trees
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import Folders
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from graveler.core.clock import SystemClock
from graveler.core.errors import Gone, Unavailable
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, BreakParameters, Record
from graveler.core.streams import list_page
from tests.committed.stores import NAMESPACE, value
from tests.waiting import PATIENCE_SECONDS

COUNT = 8_000
FOLDER = 250  # records
SEED = 1
_chance = random.Random(SEED)  # what it gives cannot be compressed: a range takes two requests
RECORDS: list[Record] = [
    (b"%04d/%03d" % divmod(at, FOLDER), value(at) + _chance.randbytes(300)) for at in range(COUNT)
]
BREAKS = BreakParameters(raggedness=400)
SPREAD = 50  # one record in so many changes


def name_of(address: str) -> str:
    """The id of a range or metarange."""
    return address.rpartition("/")[2]


class FarBlocks(MemoryBlocks):
    """Counts requests.  A fetch of one of the files `gated` waits until another of them runs beside
    it."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.requests: list[str] = []
        self.bytes = 0
        self.fails = ""
        self._lock = threading.Lock()
        self.gated: set[str] = set()
        self._running = 0
        self.two = threading.Event()

    def get(self, address: str, start: int = 0, end: int = TO_END) -> Body:
        name = name_of(address)
        with self._lock:
            self.requests.append(address)
            self._running += name in self.gated
            if self._running > 1:
                self.two.set()
        if name in self.gated:
            self.two.wait(PATIENCE_SECONDS)
        if name == self.fails:
            self.fails = ""
            raise Unavailable("no answer")
        body = super().get(address, start, end)
        with self._lock:
            self._running -= name in self.gated
            self.bytes += body.end - body.start
        return body

    def read(self, address: str, start: int, length: int) -> bytes:
        raw = super().read(address, start, length)
        with self._lock:
            self.requests.append(address)
            self.bytes += len(raw)
        return raw


class Far:
    """A store that is far, and trees in it."""

    def __init__(self, folder: Path) -> None:
        self.blocks = FarBlocks()
        self._folder = folder
        self._opened: list[FetchThreads] = []
        here = self.space(ahead=False)
        self.base = writer.write(here, RECORDS)
        self.ours, self.theirs = (self._changed(here, begin) for begin in (0, SPREAD // 2))

    def _changed(self, space: Keyspace, begin: int) -> MetarangeId:
        changes = [(key, value(-1)) for key, _ in RECORDS[begin::SPREAD]]
        return apply.apply(space, self.base, changes).metarange_id

    def space(self, *, ahead: bool = True, shared: bool = False, budget: int = 1 << 30) -> Keyspace:
        """The store as a process without a copy of anything sees it."""
        folder = self._folder / str(len(self._opened))
        self._opened.append(FetchThreads())
        fetchers = self._opened[-1] if ahead else ABSENT
        among = (folder / "shared", 1 << 30) if shared else ()
        files = TieredFiles(self.blocks, folder / "own", budget, *among, fetchers=fetchers)
        return Keyspace(SstRangeStore(files), NAMESPACE, BREAKS)

    def asked(self, read: Callable[[], object]) -> list[str]:
        """The files that a call asks for, once for each request."""
        self.blocks.requests.clear()
        read()
        self.close()
        return list(self.blocks.requests)

    def close(self) -> None:
        """Wait for all fetches."""
        for each in self._opened:
            each.close()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    found = Far(tmp_path)
    yield found
    found.close()


Read = Callable[[Far, Keyspace], Any]
READS: dict[str, Read] = {
    "merge": lambda far, space: merge.merge(space, far.base, far.ours, far.theirs),
    "diff": lambda far, space: list(diff.diff(space, far.base, far.ours)),
    "preview": lambda far, space: list(merge.differences(space, far.base, far.ours, far.theirs)),
    "count": lambda far, space: list(
        merge.changes(space, Trees(far.base, far.ours, far.theirs), b"", b"", lambda _: True)
    ),
    "scan": lambda far, space: list(reader.scan(space, far.base)),
    "folders": lambda far, space: list_page(
        reader.cursor(space, far.base, folders=Folders(b"", b"/")), b"", b"/", b"", COUNT
    ),
    "look-ups": lambda far, space: reader.get_many(
        space, far.base, [key for key, _ in RECORDS[::4]]
    ),
}


@pytest.mark.parametrize("name", READS)
def test_it_reads_the_same_with_fewer_requests(far: Far, name: str) -> None:
    read, found = READS[name], []
    alone = far.asked(lambda: found.append(read(far, far.space(ahead=False))))
    beside = far.asked(lambda: found.append(read(far, far.space())))
    assert found[0] == found[1]
    assert len(beside) < len(alone)


@pytest.mark.parametrize("name", READS)
def test_files_are_fetched_at_the_same_time(far: Far, name: str) -> None:
    space = far.space()
    far.blocks.gated = {ref.id for ref in space.metarange(far.base).ranges[8:]}
    READS[name](far, space)
    assert far.blocks.two.is_set()


def test_the_first_page_of_a_difference_asks_for_little_more(far: Far) -> None:
    """Nobody knows how much is read, so little is fetched ahead at first."""

    def page(space: Keyspace) -> None:
        assert len(list(islice(diff.diff(space, far.base, far.ours), 5))) == 5

    alone = far.asked(lambda: page(far.space(ahead=False)))
    beside = far.asked(lambda: page(far.space()))
    assert len(beside) <= len(alone) + 2


def test_nothing_outside_of_a_prefix_is_fetched(far: Far) -> None:
    prefix, beyond = b"0016/", b"00160"
    refs = far.space().metarange(far.base).ranges
    inside = {ref.id for ref in refs if ref.min_key < beyond and ref.max_key >= prefix}
    assert 0 < len(inside) < len(refs) / 3
    listed = (prefix, b"/", b"", 1_000)
    for read in (
        lambda: list(merge.differences(far.space(), far.base, far.ours, far.theirs, b"", prefix)),
        lambda: list(reader.scan(far.space(), far.base, prefix=prefix)),
        lambda: list_page(
            reader.cursor(far.space(), far.base, folders=Folders(prefix, b"/")), *listed
        ),
    ):
        asked = set(map(name_of, far.asked(read)))
        assert asked & {ref.id for ref in refs} <= inside


def test_a_fetch_that_fails_is_met_by_the_reader_and_does_not_stay(far: Far) -> None:
    space = far.space()
    refs = space.metarange(far.base).ranges
    far.blocks.fails = refs[4].id
    assert list(reader.scan(space, far.base)) == RECORDS and not far.blocks.fails
    far.blocks.delete(f"{NAMESPACE}/_lakefs/{refs[5].id}")
    with pytest.raises(Gone, match=refs[5].id):
        list(reader.scan(far.space(), far.base))


def test_a_folder_that_is_shared_gets_no_copies_ahead(far: Far) -> None:
    alone = far.asked(lambda: READS["merge"](far, far.space(ahead=False, shared=True)))
    beside = far.asked(lambda: READS["merge"](far, far.space(shared=True)))
    assert sorted(beside) == sorted(alone)


def test_a_merge_fetches_only_the_ranges_that_it_compares(far: Far) -> None:
    """Of one region: the destination was written with other ends, and one record changed."""
    space = far.space()
    longer = space._replace(breaks=BreakParameters(raggedness=697))
    every = [*RECORDS[:-1], (RECORDS[-1][0], value(-1))]
    theirs = writer.write(longer, every)
    ours = apply.apply(space, far.base, [(RECORDS[0][0], value(-2))]).metarange_id
    asked = far.asked(lambda: merge.merge(far.space(), far.base, ours, theirs))
    refs = {ref.id for tree in (far.base, theirs) for ref in space.metarange(tree).ranges}
    assert len(refs) > 30 and len(refs.intersection(map(name_of, asked))) < 6


def test_few_keys_of_many_ranges_bring_no_whole_files(far: Far) -> None:
    keys = [ref.min_key for ref in far.space().metarange(far.base).ranges]
    bytes_of = []
    for ahead in (False, True):
        space = far.space(ahead=ahead)
        far.blocks.bytes = 0
        assert len(reader.get_many(space, far.base, keys)) == len(keys)
        far.close()
        bytes_of.append(far.blocks.bytes)
    assert bytes_of[0] == bytes_of[1]


def test_what_is_fetched_ahead_fits_into_the_folder(far: Far) -> None:
    """Else the files evict each other before they are read."""
    longest = max(ref.size for ref in far.space().metarange(far.base).ranges)
    alone = far.asked(lambda: READS["merge"](far, far.space(ahead=False, budget=8 * longest)))
    beside = far.asked(lambda: READS["merge"](far, far.space(budget=8 * longest)))
    assert len(beside) <= len(alone)


@pytest.fixture
def threads() -> Iterator[FetchThreads]:
    found = FetchThreads(threads=1, seconds=0.05)
    yield found
    found.close()


class Hanging:
    """A fetch that hangs until `go`."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.seen: list[str] = []

    def __call__(self, address: str) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE_SECONDS)
        self.seen.append(address)
        raise Unavailable("no answer")


def test_a_file_is_fetched_once_and_few_wait(threads: FetchThreads) -> None:
    fetch = Hanging()
    for address in ("a", "a", "b", "c", "d", "e"):
        threads.begin(address, fetch)
    fetch.go.set()
    threads.close()
    assert fetch.seen == ["a", "b", "c", "d"]
    threads.begin("f", fetch)  # the process ends
    assert not threads.wait("f")


def test_a_reader_waits_for_no_file_that_waits_itself(threads: FetchThreads) -> None:
    fetch = Hanging()
    threads.begin("a", fetch)
    assert fetch.begun.wait(PATIENCE_SECONDS)
    threads.begin("b", fetch)
    assert not threads.wait("b")
    fetch.go.set()
    threads.close()
    assert fetch.seen == ["a"]


def test_readers_wait_once_for_threads_that_hang() -> None:
    fetches = [Hanging(), Hanging()]
    threads = FetchThreads(threads=2, seconds=0.05)
    for address, fetch in zip("ab", fetches, strict=True):
        threads.begin(address, fetch)
        assert fetch.begun.wait(PATIENCE_SECONDS)
    began = time.perf_counter()
    assert not threads.wait("a")
    assert time.perf_counter() - began >= 0.05
    threads.begin("a", fetches[1])  # it runs still
    assert not any(threads.wait(address) for address in "abababab" * 100)
    assert time.perf_counter() - began < 800 * 0.05 / 2
    for fetch in fetches:
        fetch.go.set()
    threads.close()
    assert [fetch.seen for fetch in fetches] == [["a"], ["b"]]


def test_what_waits_is_withdrawn_before_a_rest_and_may_be_asked_for_again(
    threads: FetchThreads,
) -> None:
    """What hangs is waited for once, and not forever."""
    fetch, again = Hanging(), Hanging()
    threads.begin("a", fetch)
    assert fetch.begun.wait(PATIENCE_SECONDS)
    threads.begin("b", fetch)
    rest([threads], 0.01)
    rest([threads], PATIENCE_SECONDS)
    assert not fetch.seen
    threads.begin("c", again)
    fetch.go.set()
    assert again.begun.wait(PATIENCE_SECONDS)
    threads.begin("b", again)
    again.go.set()
    threads.close()
    assert (fetch.seen, again.seen) == (["a"], ["c", "b"])


def test_at_rest_no_write_is_under_way() -> None:
    """Of a commit that has failed, say."""
    write, writes = Hanging(), WriteThreads(1)
    writes.begin(lambda: write("a"))
    assert write.begun.wait(PATIENCE_SECONDS)
    withdrawn = writes.begin(lambda: write("b"))
    resting = threading.Thread(target=rest, args=([writes], PATIENCE_SECONDS))
    resting.start()
    with pytest.raises(CancelledError):
        withdrawn()
    assert resting.is_alive() and not write.seen
    write.go.set()
    resting.join()
    assert write.seen == ["a"]
    writes.close()


def test_a_long_range_is_left_to_its_reader(far: Far) -> None:
    space = far.space()
    first, second = space.metarange(far.base).ranges[:2]
    long = replace(first, size=1 << 30)
    asked = far.asked(lambda: space.store.expect(NAMESPACE, [long, second]))
    assert list(map(name_of, asked)) == [second.id]
