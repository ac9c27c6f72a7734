"""Who waits for which sync, and what a sync that fails means."""

import threading
from collections.abc import Callable

import pytest

from graveler.core.clock import SystemClock
from graveler.core.errors import Unavailable
from graveler.kv.group_commit import GroupCommit, SyncCounts
from tests.support.kv_suite import in_threads
from tests.waiting import PATIENCE_SECONDS


class Gate:
    """A sync that goes through only when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.error: Exception | None = None
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error


class Bench:
    def __init__(self, sync: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.counts = SyncCounts()
        self.group = GroupCommit(self.lock, sync, SystemClock(), self.counts)
        self.answered: list[bytes] = []
        self.failed: list[bytes] = []

    def write(self, key: bytes) -> None:
        with self.lock:
            self._wait(key, self.group.record([key]))

    def read(self, key: bytes) -> None:
        with self.lock:
            self._wait(b"read " + key, self.group.cover(key))

    def start(self, call: Callable[[bytes], None], key: bytes) -> threading.Thread:
        thread = threading.Thread(target=call, args=(key,))
        thread.start()
        return thread

    def _wait(self, name: bytes, number: int) -> None:
        try:
            self.group.wait(number)
            self.answered.append(name)
        except Unavailable:
            self.failed.append(name)


def test_no_answer_before_the_sync_that_covers_it() -> None:
    gate = Gate()
    bench = Bench(gate)
    first = bench.start(bench.write, b"a")
    assert gate.begun.acquire(timeout=PATIENCE_SECONDS)
    others = [bench.start(bench.write, b"b"), bench.start(bench.read, b"a")]
    while len(bench.group.pending) < 2:
        threading.Event().wait(0.001)
    bench.read(b"c")  # durable: no wait
    assert bench.answered == [b"read c"]
    gate.may_end.release()
    first.join(PATIENCE_SECONDS)
    assert gate.begun.acquire(timeout=PATIENCE_SECONDS)  # b came too late for the first sync
    assert b"b" not in bench.answered
    assert b"a" in bench.answered
    assert set(bench.group.pending) == {b"b"}
    gate.may_end.release()
    for thread in others:
        thread.join(PATIENCE_SECONDS)
    assert sorted(bench.answered) == [b"a", b"b", b"read a", b"read c"]
    assert bench.group.pending == {}
    assert (bench.counts.writes, bench.counts.syncs) == (2, 2)


def test_a_range_waits_for_its_rows_only() -> None:
    bench = Bench(lambda: None)
    with bench.lock:
        numbers = [bench.group.record([key]) for key in (b"a", b"b", b"c")]
        assert bench.group.cover_range(b"a", b"c") == numbers[1]
        assert bench.group.cover_range(b"a", b"d") == numbers[2]
        assert bench.group.cover_range(b"d", b"e") == 0
        bench.group.close()
        assert bench.group.cover_range(b"a", b"d") == 0


def test_a_row_written_again_stays_pending() -> None:
    gate = Gate()
    bench = Bench(gate)
    writers = [bench.start(bench.write, b"a")]
    assert gate.begun.acquire(timeout=PATIENCE_SECONDS)
    with bench.lock:
        first = bench.group.cover(b"a")
    writers.append(bench.start(bench.write, b"a"))
    while bench.group.pending[b"a"] == first:
        threading.Event().wait(0.001)
    gate.may_end.release()
    assert gate.begun.acquire(timeout=PATIENCE_SECONDS)
    assert b"a" in bench.group.pending
    gate.may_end.release()
    for thread in writers:
        thread.join(PATIENCE_SECONDS)
    assert bench.group.pending == {}


def test_a_sync_that_fails_is_final_for_all_that_wait_on_it() -> None:
    gate = Gate()
    bench = Bench(gate)
    threads = [bench.start(bench.write, b"a")]
    assert gate.begun.acquire(timeout=PATIENCE_SECONDS)
    threads += [bench.start(bench.write, b"b"), bench.start(bench.read, b"a")]
    while len(bench.group.pending) < 2:
        threading.Event().wait(0.001)
    gate.error = OSError("no")
    gate.may_end.release()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    bench.write(b"c")
    bench.read(b"b")
    bench.read(b"d")
    assert sorted(bench.failed) == [b"a", b"b", b"c", b"read a", b"read b"]
    assert bench.answered == [b"read d"]
    assert gate.calls == 1
    assert bench.counts.writes == 0
    assert bench.group.failure is gate.error


def test_a_refused_write_ends_every_wait() -> None:
    bench = Bench(lambda: None)
    with bench.lock:
        number = bench.group.record([b"a"])
        bench.group.record([b"b"])
        bench.group.refuse([b"b"], OSError("full"))
        bench.group.refuse([b"b"], OSError("later"))
        with pytest.raises(Unavailable) as raised:
            bench.group.wait(number)
    assert str(raised.value.__cause__) == "full"


def test_a_refused_write_leaves_the_marks_as_they_were() -> None:
    bench = Bench(lambda: None)
    with bench.lock:
        number = bench.group.record([b"a"])
        bench.group.record([b"a", b"b"])
        bench.group.refuse([b"a", b"b"], OSError("full"))
        assert bench.group.pending == {b"a": number}
        bench.group.wait(bench.group.cover(b"b"))


def test_sixteen_writers_share_slow_syncs() -> None:
    def sync() -> None:
        threading.Event().wait(0.04)

    bench = Bench(sync)

    def write() -> None:
        for _ in range(10):
            bench.write(b"%d" % threading.get_ident())

    in_threads(*[write] * 16)
    assert bench.counts.writes == 16 * 10
    assert bench.counts.writes / bench.counts.syncs >= 8
    assert bench.group.pending == {}
