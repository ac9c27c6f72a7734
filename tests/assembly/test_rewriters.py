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

from graveler.assembly import rewriter, rewriters
from graveler.assembly.rewriters import RewriterProcesses, Timeouts, cores
from graveler.block.local import LocalBlocks
from graveler.committed import apply, reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace, Rewrite, Rewritten, unchecked
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import Clock, SystemClock, SystemIds
from graveler.core.errors import Unavailable
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
        objects = folder / "objects"
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.processes = RewriterProcesses(
            objects,
            clock,
            synced=False,
            processes=processes,
            timeouts=timeouts,
        )
        self.blocks = LocalBlocks(objects, clock=SystemClock(), ids=SystemIds(), synced=False)
        store = SstRangeStore(StoredFiles(self.blocks), is_near=True, rewriters=self.processes)
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


def test_processes_that_have_nothing_to_do_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, timeouts=Timeouts(idle=0.2))
    _watch(world, monkeypatch)
    world.commit()
    until(lambda: not world.pids and not _threads(), "the processes have ended")
    world.commit()
    world.close()


def test_a_system_that_starts_no_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    broken = RewriterProcesses(Path("/x"), SystemClock(), synced=False, processes=2)
    rewrite = Rewrite(reader.ranges(world.space, world.base)[0], [], False)
    begun = broken.begin(NAMESPACE, BREAKS, rewrite)
    assert begun is not ABSENT and begun.result(unchecked) is ABSENT
    assert broken.begin(NAMESPACE, BREAKS, rewrite) is ABSENT  # not again at once
    broken.close()


def test_a_commit_tries_no_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    world = World(tmp_path)
    tries: list[object] = []

    def fail(*command: Any, **_: Any) -> None:
        tries.append(command)
        raise FileNotFoundError

    monkeypatch.setattr(rewriters.subprocess, "Popen", fail)
    world.commit()
    assert 1 <= len(tries) <= 2  # one for each thread
    world.close()


def test_a_process_of_another_version_leaves_the_work_here(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.commit()
    monkeypatch.setattr(rewriter, "__version__", "another")
    ref = reader.ranges(world.space, world.base)[0]
    begun = world.processes.begin(NAMESPACE, BREAKS, Rewrite(ref, [], False))
    assert begun is not ABSENT and begun.result(unchecked) is ABSENT


def test_a_process_that_does_not_start_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, timeouts=Timeouts(pause=0.0))
    _watch(world, monkeypatch)
    _fail_once(monkeypatch, MemoryError())
    world.commit()
    world.commit()
    assert len(world.pids) == 2
    world.close()


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


def test_processes_that_hang_are_killed_though_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, clock, hung, rewrite = _stopped(tmp_path, monkeypatch)
    for _ in range(4):  # as by commits that failed before they asked for the results
        assert world.processes.begin(NAMESPACE, BREAKS, rewrite) is not ABSENT

    def is_over() -> bool:
        clock.sleep(Timeouts().hang + 1)
        world.processes.begin(NAMESPACE, BREAKS, rewrite)
        return not world.pids & hung

    until(is_over, "the processes that hung have ended")
    world.close()


def test_who_waits_for_a_process_that_hangs_kills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, clock, hung, rewrite = _stopped(tmp_path, monkeypatch)
    begun = [world.processes.begin(NAMESPACE, BREAKS, rewrite) for _ in range(8)]
    first = begun[0]
    assert first is not ABSENT
    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(first.result, unchecked)]

        def is_over() -> bool:
            clock.sleep(1)
            if waiting[-1].done():  # the process may have begun a little later
                waiting.append(pool.submit(first.result, unchecked))
            return not world.pids & hung

        until(is_over, "the processes that hung have ended")
    # For a while nothing is given to processes, not even what waited already.
    assert all(each is not ABSENT and each.result(unchecked) is ABSENT for each in begun)
    assert world.processes.begin(NAMESPACE, BREAKS, rewrite) is ABSENT
    assert len(world.started) == len(hung) == 2
    world.close()


def test_a_process_that_the_system_does_not_end_is_killed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, clock, stopped, rewrite = _stopped(tmp_path, monkeypatch)
    kills: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(type(world.started[0]), "kill", lambda process: kills.append(process.pid))

        def are_killed() -> bool:
            world.processes.begin(NAMESPACE, BREAKS, rewrite)
            clock.sleep(Timeouts().hang + 1)
            return len(kills) == 2

        until(are_killed, "both were killed")
        for _ in range(5):
            clock.sleep(Timeouts().pause + 1)
            assert world.processes.begin(NAMESPACE, BREAKS, rewrite) is ABSENT
        assert set(kills) == stopped and len(kills) == 2
        assert 1 <= len(caplog.records) <= 2
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
    world.close()


def test_what_nobody_wants_is_done_by_no_process(world: World) -> None:
    world.commit()
    stopped = world.pids
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    refs = reader.ranges(world.space, world.base)[:3]
    first, second, third = (
        world.processes.begin(NAMESPACE, BREAKS, Rewrite(ref, [(ref.min_key, value(9))], False))
        for ref in refs
    )
    assert first is not ABSENT and second is not ABSENT and third is not ABSENT
    third.abandon()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    assert first.result(unchecked) is not ABSENT and second.result(unchecked) is not ABSENT
    rewrite = Rewrite(refs[2], [(refs[2].min_key, value(9))], False)
    again = world.processes.begin(NAMESPACE, BREAKS, rewrite)
    assert again is not ABSENT and again.result(unchecked) is not ABSENT  # it did not exist


def test_a_process_that_starts_during_the_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, timeouts=Timeouts(stop=0.2))
    begins, is_closed, start = threading.Event(), threading.Event(), subprocess.Popen

    def late(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        begins.set()
        assert is_closed.wait(PATIENCE_SECONDS)
        process = start(["sleep", str(PATIENCE_SECONDS)], **options)
        world.started.append(process)
        return process

    monkeypatch.setattr(rewriters.subprocess, "Popen", late)
    rewrite = Rewrite(reader.ranges(world.space, world.base)[0], [], False)
    begun = world.processes.begin(NAMESPACE, BREAKS, rewrite)
    assert begins.wait(PATIENCE_SECONDS)
    world.close()
    is_closed.set()
    assert begun is not ABSENT and begun.result(unchecked) is ABSENT
    until(lambda: bool(world.started) and not world.pids, "the process has ended")


def test_a_process_whose_answer_nobody_reads_ends_quietly(world: World) -> None:
    ref = reader.ranges(world.space, world.base)[0]
    command = [sys.executable, "-m", "graveler.assembly.rewriter"]
    objects = str(world.folder / "objects")
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, objects, ""], stdin=pipe, stdout=pipe, stderr=pipe) as alone:
        assert alone.stdin and alone.stdout and alone.stderr
        alone.stdout.close()
        rewrite = Rewrite(ref, [(ref.min_key, value(9))], False)
        rewriter.send(alone.stdin, rewriter.encoded(NAMESPACE, BREAKS, rewrite))  # type: ignore[arg-type]
        assert alone.stderr.read() == b""
        assert alone.wait() == 0


def test_a_check_ends_the_wait_for_a_process(world: World) -> None:
    world.commit()
    stopped = world.pids
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) > 25:  # to open and to hand over ranges takes fewer
            raise Unavailable("deadline")

    with pytest.raises(Unavailable, match="deadline"):
        apply.apply(world.space._replace(check=check), world.base, CHANGES)
    assert world.pids == stopped and len(stopped) == 2  # nobody waited until they were killed
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)


def test_a_close_ends_processes_that_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, timeouts=Timeouts(stop=0.5))
    _watch(world, monkeypatch)
    world.commit()
    ref = reader.ranges(world.space, world.base)[0]
    for pid in world.pids:
        os.kill(pid, signal.SIGSTOP)
    waiting = [world.processes.begin(NAMESPACE, BREAKS, Rewrite(ref, [], False)) for _ in range(5)]
    world.close()
    until(lambda: not world.pids, "the processes have ended")
    assert all(each is not ABSENT and each.result(unchecked) is ABSENT for each in waiting)


def test_a_range_that_exists_is_left_to_this_process(world: World) -> None:
    world.commit()  # stores all ranges
    ref = reader.ranges(world.space, world.base)[1]
    rewrite = Rewrite(ref, [(ref.min_key, value(9))], False)
    first = world.processes.begin(NAMESPACE, BREAKS, rewrite)
    assert first is not ABSENT
    done = first.result(unchecked)
    assert done is not ABSENT
    address = f"{NAMESPACE}/_lakefs/{done.refs[0].id}"
    version = world.blocks.head(address).version
    again = world.processes.begin(NAMESPACE, BREAKS, rewrite)
    assert again is not ABSENT and again.result(unchecked) is ABSENT
    assert world.blocks.head(address).version == version


def test_four_processes_that_are_killed_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, processes=4)
    _watch(world, monkeypatch)
    world.commit()
    ref = reader.ranges(world.space, world.base)[0]
    killed = world.pids
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    for _ in range(8):  # one at a time: each may meet a process that has ended
        begun = world.processes.begin(NAMESPACE, BREAKS, Rewrite(ref, [], False))
        assert begun is not ABSENT
        begun.result(unchecked)
    assert world.pids - killed
    world.close()


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("50000 100000\n", 1),
        ("100000 100000", 1),
        ("max 100000", cores(Path("/nowhere"))),
        ("", None),
    ],
)
def test_the_limit_of_a_container_counts(tmp_path: Path, limit: str, expected: int | None) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(limit)
    assert cores(quota) == (cores(Path("/nowhere")) if expected is None else expected)


def test_one_core_has_no_processes(world: World) -> None:
    alone = RewriterProcesses(Path("/x"), SystemClock(), synced=False, processes=1)
    assert (
        alone.begin(
            NAMESPACE, BREAKS, Rewrite(reader.ranges(world.space, world.base)[0], [], False)
        )
        is ABSENT
    )
    assert cores() >= 1


def test_after_the_end_nothing_begins(world: World) -> None:
    world.close()
    assert (
        world.processes.begin(
            NAMESPACE, BREAKS, Rewrite(reader.ranges(world.space, world.base)[0], [], False)
        )
        is ABSENT
    )


def test_modules_of_the_working_folder_are_not_imported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "xxhash.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(trap)
    world.commit()
    assert world.pids and not (tmp_path / "sprung").exists()


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
