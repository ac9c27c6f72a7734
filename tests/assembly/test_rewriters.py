"""The processes that rewrite ranges: real ones, which end, are killed, and do not start."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graveler.assembly import rewriters
from graveler.assembly.rewriters import RewriterProcesses, Timeouts
from graveler.block.local import LocalBlocks
from graveler.committed import apply, reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace, Rewrite, Rewritten, unchecked
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import Clock, SystemClock, SystemIds
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, Absent, BreakParameters, Change, Record
from tests.committed.stores import value
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS, until

PATIENT = Timeouts(hang=PATIENCE_SECONDS)
SYSTEM = SystemClock()
NAMESPACE = "local://bench/repository"
BREAKS = BreakParameters(raggedness=100, salt=b"s")
RECORDS: list[Record] = [(b"k%05d" % number, value(number % 7)) for number in range(5_000)]
CHANGES: list[Change] = [
    (key, TOMBSTONE if number % 3 else value(8)) for number, (key, _) in enumerate(RECORDS[::50])
]


class World:
    """A store in a folder, and its processes.  `started`: all that ever were."""

    def __init__(
        self,
        folder: Path,
        *,
        processes: int = 2,
        timeouts: Timeouts = PATIENT,
        clock: Clock = SYSTEM,
    ) -> None:
        scratch = folder / "scratch"
        scratch.mkdir()
        objects = folder / "objects"
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.processes = RewriterProcesses(
            objects,
            scratch,
            clock,
            synced=False,
            processes=processes,
            timeouts=timeouts,
        )
        self.blocks = LocalBlocks(objects, clock=SystemClock(), ids=SystemIds(), synced=False)
        store = SstRangeStore(
            StoredFiles(self.blocks, scratch), is_near=True, rewriters=self.processes
        )
        self.space = Keyspace(store, NAMESPACE, BREAKS)
        self.base = writer.write(self.space, RECORDS)

    @property
    def pids(self) -> set[int]:
        """The processes that run."""
        return {each.pid for each in self.started if each.poll() is None}

    def commit(self) -> MetarangeId:
        """Change every range; the result is checked."""
        done = apply.apply(self.space, self.base, CHANGES)
        alone = Keyspace(MemoryRangeStore(), NAMESPACE, BREAKS)
        assert writer.write(alone, RECORDS) == self.base
        assert apply.apply(alone, self.base, CHANGES) == done
        found = list(reader.scan(self.space, done.metarange_id))
        assert found == list(reader.scan(alone, done.metarange_id))
        return done.metarange_id

    def close(self) -> None:
        self.processes.close()
        self.blocks.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    _watch(made, monkeypatch)
    yield made
    made.close()


def _watch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def note(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*command, **options)
        world.started.append(process)
        return process

    monkeypatch.setattr(rewriters.subprocess, "Popen", note)


def _stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[World, TickingClock, set[int], Rewrite]:
    """A world with the usual times by a clock of its own, its two processes, which hang, and work
    for them."""
    clock = TickingClock()
    world = World(folder, timeouts=Timeouts(), clock=clock)
    _watch(world, monkeypatch)
    world.commit()
    stopped = world.pids
    assert len(stopped) == 2
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    return world, clock, stopped, Rewrite(reader.ranges(world.space, world.base)[0], [], False)


def _threads() -> int:
    return sum(each.name == "rewriter" for each in threading.enumerate())


def test_two_processes_share_a_commit(world: World) -> None:
    world.commit()
    assert len(world.pids) == 2
    world.commit()  # the same processes again
    assert len(world.pids) == 2
    world.close()
    assert not world.pids


def test_a_rewrite_has_the_result_of_this_process(world: World) -> None:
    ref = reader.ranges(world.space, world.base)[1]
    inside = [change for change in CHANGES if ref.min_key <= change[0] <= ref.max_key]
    rewrite = Rewrite(ref, inside, False)
    begun = world.processes.begin(NAMESPACE, BREAKS, rewrite)
    assert begun is not ABSENT
    done = begun.result(unchecked)
    assert done == apply.rewritten(world.space, rewrite)
    assert done is not ABSENT
    assert (done.changed, done.removed) == (
        sum(new is not TOMBSTONE for _, new in inside),
        sum(new is TOMBSTONE for _, new in inside),
    )


def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost(world: World) -> None:
    world.commit()
    killed = world.pids
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    world.commit()
    world.commit()
    assert len(world.pids - killed) == 2


def test_a_process_that_meets_an_error_answers_that_it_is_not_done(world: World) -> None:
    ref = reader.ranges(world.space, world.base)[0]
    missing = ref.__class__(ref.id[::-1], ref.min_key, ref.max_key, ref.size, ref.count)  # type: ignore[arg-type]
    begun = world.processes.begin(NAMESPACE, BREAKS, Rewrite(missing, [], False))
    assert (
        begun is not ABSENT and begun.result(unchecked) is not ABSENT
    )  # without changes, nothing is read
    begun = world.processes.begin(
        NAMESPACE, BREAKS, Rewrite(missing, [(ref.min_key, value(9))], False)
    )
    assert begun is not ABSENT and begun.result(unchecked) is ABSENT
    world.commit()  # and it works on
    assert len(world.pids) == 2


def _fail_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the next answer of a process raise an error where it is read."""
    read, left = rewriters.decoded, [error]

    def decoded(answer: bytes) -> Rewritten | Absent:
        if left:
            raise left.pop()
        return read(answer)

    monkeypatch.setattr(rewriters, "decoded", decoded)


@pytest.mark.parametrize("error", [MemoryError(), subprocess.SubprocessError(), EOFError()])
def test_no_error_leaves_a_commit_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world.commit()
    _fail_once(monkeypatch, error)
    world.commit()
    world.commit()
    assert len(world.pids) == 2


def test_a_process_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, clock, hung, _ = _stopped(tmp_path, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(world.commit)

        def is_over() -> bool:
            clock.sleep(Timeouts().hang + 1)
            return committing.done()

        until(is_over, "the commit is made here")
        committing.result()
    until(lambda: not world.pids & hung, "the processes that hung have ended")
    clock.sleep(Timeouts().pause + 1)
    world.commit()
    assert len(world.pids) == 2
    world.close()


_PARENT = """
import sys
from pathlib import Path
from tests.assembly.test_rewriters import World, _threads
world = World(Path(sys.argv[1]))
world.commit()
print(_threads(), flush=True)
sys.stdin.read()
"""


def test_the_processes_of_a_killed_service_end(tmp_path: Path) -> None:
    service = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert service.stdout is not None
    assert service.stdout.readline() == "2\n"
    service.kill()
    service.communicate(timeout=PATIENCE_SECONDS)  # until nobody has its standard error any more
