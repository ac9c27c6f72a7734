"""The local folder driver under crashes, threads, and a system that refuses."""

import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graveler.block.adapter import CREATE
from graveler.block.folders import SharedSync, translated
from graveler.block.layout import TEMPORARY, UPLOADS
from graveler.block.local import LocalBlocks
from graveler.core import limits
from graveler.core.clock import SystemIds
from graveler.core.errors import (
    Conflict,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    StorageFull,
    Unavailable,
)
from tests.block.stores import opened, opened_below
from tests.support.block_suite import content
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "blocks"


@pytest.fixture
def blocks(root: Path) -> LocalBlocks:
    return opened(root)


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


_CHILD = """
import sys
from pathlib import Path
from graveler.block.adapter import CREATE
from graveler.block.local import LocalBlocks
from graveler.core.clock import SystemClock, SystemIds
blocks = LocalBlocks(Path(sys.argv[1]), clock=SystemClock(), ids=SystemIds())
print("ready", flush=True)
for number in range(100_000):
    key = f"local://lake/{sys.argv[2]}/{number % 7}/{number}"
    chunks = [key.encode()] * (10_000 if number % 3 == 0 else 1)
    blocks.put(key, iter(chunks), CREATE)
    print(number, flush=True)
"""


_FORK = """
import gc, os, sys, traceback
from pathlib import Path
from graveler.block.local import LocalBlocks
from graveler.core.clock import SystemClock, SystemIds

def ended(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def forked(work):
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child

stores = [LocalBlocks(Path(sys.argv[1]), clock=SystemClock(), ids=SystemIds())]

def write(name):
    stores[0].put(f"local://lake/{name}", [name.encode()])

def leave():
    stores.clear()
    gc.collect()

write("parent")
ended(forked(leave))
write("parent again")
go, told = os.pipe()

def outlive(name):
    os.close(told)
    write(name)
    assert os.read(go, 1) == b""  # the parent has left the store, and closes its end
    write(f"{name} again")
    leave()

children = [forked(lambda: outlive("first")), forked(lambda: outlive("second"))]
leave()
os.close(told)
for child in children:
    ended(child)
stores.append(LocalBlocks(Path(sys.argv[1]), clock=SystemClock(), ids=SystemIds()))
for name in ("parent", "parent again", "first", "first again", "second", "second again"):
    body = b"".join(stores[0].get(f"local://lake/{name}").chunks)
    assert body == name.encode()
print("whole")
"""


class TestCrash:
    @pytest.mark.parametrize("survived", [3, 10, 31])
    def test_b1_a_killed_process_leaves_whole_objects_only(self, root: Path, survived: int) -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(root), "run"], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        answered = [child.stdout.readline() for _ in range(survived)]
        child.send_signal(signal.SIGKILL)
        answered += child.stdout.readlines()
        child.stdout.close()
        child.wait()
        numbers = {int(line) for line in answered[1:] if line.endswith(b"\n")}
        assert len(numbers) >= survived - 1

        blocks = opened(root)
        assert names_below(root / TEMPORARY) == set()
        lines = blocks.list("local://lake/", "", 10_000).lines
        found = {int(line.address.rpartition("/")[2]): line for line in lines}
        assert numbers <= set(found)
        assert len(found) <= len(numbers) + 1
        for number, line in found.items():
            whole = line.address.encode() * (10_000 if number % 3 == 0 else 1)
            assert content(blocks, line.address) == whole

    def test_temporary_files_of_the_living_stay(self, root: Path) -> None:
        first = opened(root)

        def body() -> Iterator[bytes]:
            yield b"first half, "
            opened(root).put("local://lake/other", [b"x"])
            yield b"second half"

        first.put("local://lake/a", body())
        assert content(first, "local://lake/a") == b"first half, second half"
        assert names_below(root / TEMPORARY) == set()

    @pytest.mark.parametrize("moment", ["mkdir", "flock"])
    def test_a_process_that_starts_takes_the_folder_of_another_before_it_is_locked(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, moment: str
    ) -> None:
        blocks, module = opened(root), {"mkdir": os, "flock": fcntl}[moment]
        real, started = getattr(module, moment), list[LocalBlocks]()

        def interrupted(*where: object, **options: object) -> None:
            if moment == "mkdir":
                real(*where, **options)
            if len(tuple((root / TEMPORARY).glob("*"))) == 1 and not started:
                monkeypatch.setattr(module, moment, real)
                started.append(opened(root))
                assert list((root / TEMPORARY).iterdir()) == []
            if moment == "flock":
                real(*where, **options)

        monkeypatch.setattr(module, moment, interrupted)
        blocks.put("local://lake/a", [b"1"])
        assert started and content(blocks, "local://lake/a") == b"1"

    def test_a_folder_that_is_never_locked_is_given_up(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(descriptor: int, operation: int) -> None:
            raise BlockingIOError(errno.EWOULDBLOCK, "injected")

        blocks = opened(root)
        with monkeypatch.context() as patched:
            patched.setattr(fcntl, "flock", refused)
            with pytest.raises(Unavailable, match="try again"):
                blocks.put("local://lake/a", [b"1"])
        assert len(os.listdir(root / TEMPORARY)) == limits.conditional_round_count_max
        blocks.put("local://lake/a", [b"1"])
        assert content(blocks, "local://lake/a") == b"1"
        assert len(opened_below(root / TEMPORARY)) == 1

    def test_a_file_system_without_locks_is_named_at_once(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(descriptor: int, operation: int) -> None:
            raise OSError(errno.ENOLCK, "no locks here")

        blocks = opened(root)
        monkeypatch.setattr(fcntl, "flock", refused)
        with pytest.raises(GravelerError, match="no locks here"):
            blocks.put("local://lake/a", [b"1"])
        assert os.listdir(root / TEMPORARY) == []
        assert opened_below(root / TEMPORARY) == []

    def test_a_process_and_its_fork_write_whoever_ends_first(self, root: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK, str(root)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "whole\n", "")
        assert list((root / TEMPORARY).iterdir()) == []

    def test_b1_bytes_are_synced_before_the_name_and_the_name_before_the_answer(
        self, blocks: LocalBlocks, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[tuple[str, str]] = []
        sync, link = os.fsync, os.link

        def noted_sync(descriptor: int) -> None:
            kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
            steps.append(("sync", kind))
            sync(descriptor)

        def noted_link(*places: str, **folders: int) -> None:
            steps.append(("link", "file"))
            link(*places, **folders)  # type: ignore[arg-type]

        blocks.put("local://lake/a/b", [b"1"])
        monkeypatch.setattr(os, "fsync", noted_sync)
        monkeypatch.setattr(os, "link", noted_link)
        blocks.put("local://lake/a/c", [b"2"], CREATE)
        assert steps == [("sync", "file"), ("link", "file"), ("sync", "folder")]
        steps.clear()
        blocks.put("local://lake/x/y/c", [b"3"], CREATE)
        # Both folders that got a new folder are synced, then the one that got the name.
        assert steps == [
            ("sync", "file"),
            ("sync", "folder"),
            ("sync", "folder"),
            ("link", "file"),
            ("sync", "folder"),
        ]

    def test_a_folder_that_cannot_be_synced_leaves_the_outcome_unknown(
        self, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks.put("local://lake/a", [b"1"])
        sync = os.fsync

        def failing(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EIO, "injected")
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(OutcomeUnknown):
            blocks.put("local://lake/b", [b"2"], CREATE)


class Killed(BaseException):
    """The process dies."""


class TestUploads:
    ADDRESS = "local://lake/joined"

    def test_a_kill_while_parts_are_removed_leaves_no_part_of_an_upload(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unlink = os.unlink
        left: list[int] = []

        def dying(path: str, *, dir_fd: int | None = None) -> None:
            if path == "address" or path.isdecimal():
                left[0] -= 1
                if not left[0]:
                    raise Killed
            unlink(path, dir_fd=dir_fd)

        for at in (1, 2, 3):
            address = f"{self.ADDRESS}{at}"
            blocks = opened(root)
            upload = blocks.create_upload(address)
            parts = tuple(blocks.put_part(address, upload, n, [b"%d" % n]) for n in (1, 2))
            left[:] = [at]
            with monkeypatch.context() as patched, pytest.raises(Killed):
                patched.setattr(os, "unlink", dying)
                blocks.complete_upload(address, upload, parts)
            again = opened(root)
            assert content(again, address) == b"12"
            with pytest.raises(NotFound):
                again.complete_upload(address, upload, parts)
            assert list((root / UPLOADS).iterdir()) == []

    def test_a_part_that_is_sent_while_its_upload_is_discarded_leaves_nothing(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        upload = blocks.create_upload(self.ADDRESS)

        def body() -> Iterator[bytes]:
            yield b"first half, "
            blocks.abort_upload(self.ADDRESS, upload)
            yield b"second half"

        with pytest.raises(NotFound, match="upload not found"):
            blocks.put_part(self.ADDRESS, upload, 1, body())
        assert list((root / UPLOADS).iterdir()) == []
        assert names_below(root / TEMPORARY) == set()

    def test_uploads_that_are_never_finished_go_after_a_week(self, root: Path) -> None:
        """A process that died before it recorded the upload's id leaves one."""
        clock = TickingClock()

        def process() -> LocalBlocks:
            return LocalBlocks(root, clock=clock, ids=SystemIds())

        blocks = process()
        left, used = (blocks.create_upload(self.ADDRESS) for _ in range(2))
        (root / UPLOADS / ("0" * 20)).mkdir()  # a part was to come, when its upload was discarded
        os.utime(root / UPLOADS / ("0" * 20), ns=(clock.now_ns(), clock.now_ns()))
        (root / UPLOADS / "no upload").mkdir()
        clock.sleep(limits.multipart_upload_seconds)
        part = blocks.put_part(self.ADDRESS, used, 1, [b"one"])
        recent = process().create_upload(self.ADDRESS)
        assert len(list((root / UPLOADS).iterdir())) == 5
        clock.sleep(limits.stale_upload_seconds - limits.multipart_upload_seconds + 60)
        last = blocks.create_upload(self.ADDRESS)
        kept = {path.name for path in (root / UPLOADS).iterdir()}
        assert kept == {used, recent, last, "no upload"} and left not in kept
        blocks.complete_upload(self.ADDRESS, used, (part,))
        assert content(blocks, self.ADDRESS) == b"one"

    def test_a_join_beside_another_one_finds_no_upload_and_not_wrong_parts(
        self, blocks: LocalBlocks, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = blocks.create_upload(self.ADDRESS)
        parts = (blocks.put_part(self.ADDRESS, upload, 1, [b"one"]),)
        open_ = os.open
        joined: list[int] = []

        def overtaken(path: str, flags: int, *more: int, dir_fd: int | None = None) -> int:
            if path == "1" and not joined:
                joined.append(1)
                opened(root).complete_upload(self.ADDRESS, upload, parts)
            return open_(path, flags, *more, dir_fd=dir_fd)

        with monkeypatch.context() as patched, pytest.raises(NotFound):
            patched.setattr(os, "open", overtaken)
            blocks.complete_upload(self.ADDRESS, upload, parts)
        assert joined and content(blocks, self.ADDRESS) == b"one"

    def test_parts_that_cannot_be_removed_do_not_fail_a_join(
        self, blocks: LocalBlocks, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = blocks.create_upload(self.ADDRESS)
        parts = (blocks.put_part(self.ADDRESS, upload, 1, [b"one"]),)
        rename = os.rename

        def refusing(source: str, target: str, **folders: int) -> None:
            if UPLOADS in source:
                raise OSError(errno.EACCES, "injected")
            rename(source, target, **folders)

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", refusing)
            blocks.complete_upload(self.ADDRESS, upload, parts)
            with pytest.raises(Refused):
                blocks.abort_upload(self.ADDRESS, upload)
        assert content(blocks, self.ADDRESS) == b"one"


class TestThreads:
    def test_b1_syncs_are_shared_but_none_that_began_too_early(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shared = SharedSync()
        begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
        finished: list[str] = []

        def slow(descriptor: int) -> None:
            begun.release()
            go_on.acquire()

        def sync(name: str) -> None:
            shared.sync(0)
            finished.append(name)

        def started(name: str) -> threading.Thread:
            thread = threading.Thread(target=sync, args=(name,))
            thread.start()
            return thread

        monkeypatch.setattr(os, "fsync", slow)
        first = started("first")
        begun.acquire()
        late = [started(f"late {number}") for number in range(5)]
        while shared.waiting < 5:
            pass
        go_on.release()
        begun.acquire()  # a second sync has begun, for all who came during the first
        first.join()
        assert finished == ["first"]
        go_on.release()
        for thread in late:
            thread.join()
        assert len(finished) == 6
        assert not begun.acquire(blocking=False)

    def test_many_writers_in_one_folder(self, blocks: LocalBlocks) -> None:
        failures: list[BaseException] = []

        def write(writer: int) -> None:
            try:
                for number in range(40):
                    address = f"local://lake/shared/{writer}-{number}"
                    blocks.put(address, [address.encode()], CREATE)
                    assert content(blocks, address) == address.encode()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(blocks.list("local://lake/shared/", "", 1_000).lines) == 320

    def test_b1_readers_see_one_whole_version(self, blocks: LocalBlocks) -> None:
        address = "local://lake/turning"
        blocks.put(address, [b"0" * 300_000])
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(60):
                    blocks.put(address, [b"%d" % (number % 10) * 1_000] * 300)
            finally:
                done.set()

        writer = threading.Thread(target=write)
        writer.start()
        while not done.is_set():
            body = content(blocks, address)
            assert len(body) == 300_000
            assert len(set(body)) == 1
        writer.join(PATIENCE_SECONDS)

    def test_b2_creators_in_two_stores_of_one_folder(self, root: Path) -> None:
        stores = (opened(root), opened(root))
        winners = 0
        for store in stores * 2:
            try:
                store.put("local://lake/one", [b"x"], CREATE)
                winners += 1
            except Conflict:
                pass
        assert winners == 1


class TestRefusalsOfTheSystem:
    def test_no_room(self, blocks: LocalBlocks, root: Path) -> None:
        blocks.put("local://lake/a", [b"before"])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StorageFull):
                blocks.put("local://lake/a", [b"x" * 60_000] * 3)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert content(blocks, "local://lake/a") == b"before"
        assert names_below(root) == {"lake/a%"}

    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (errno.ENOSPC, StorageFull),
            (errno.EDQUOT, StorageFull),
            (errno.EACCES, Refused),
            (errno.EROFS, Refused),
            (errno.EIO, Unavailable),
            (errno.EMFILE, Unavailable),
            (errno.ENOENT, NotFound),
            (errno.ELOOP, Invalid),
        ],
    )
    def test_each_error_has_its_kind(self, number: int, kind: type[GravelerError]) -> None:
        with (
            pytest.raises(kind, match="address=local://lake/a") as raised,
            translated("local://lake/a"),
        ):
            raise OSError(number, os.strerror(number))
        assert isinstance(raised.value.__cause__, OSError)

    def test_a_read_only_folder_can_be_read(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name) / "blocks"
            opened(root).put("local://lake/a", [b"x"])
            folders = [Path(name), root, *(path for path in root.rglob("*") if path.is_dir())]
            for folder in folders:
                folder.chmod(0o555)
            (root / "lake" / "a%").chmod(0o444)

            def check() -> None:
                store = opened(root)
                assert content(store, "local://lake/a") == b"x"
                with pytest.raises(Refused, match="address=local://lake/b"):
                    store.put("local://lake/b", [b"x"])
                with pytest.raises(Refused):
                    store.delete("local://lake/a")

            try:
                in_a_child_without_rights(check)
            finally:
                for folder in folders:
                    folder.chmod(0o700)


def in_a_child_without_rights(check: Callable[[], None]) -> None:
    """Nothing is read-only for the superuser, so somebody else must look."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            check()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    ended: list[int] = []

    def has_ended() -> bool:
        process, status = os.waitpid(child, os.WNOHANG)
        ended.extend([os.waitstatus_to_exitcode(status)] if process else [])
        return bool(process)

    try:
        until(has_ended, "the child has ended")
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == [0]
