"""The local folder driver under crashes, threads, and a system that refuses."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.block.adapter import CREATE
from graveler.block.folders import SharedSync, translated
from graveler.block.layout import TEMPORARY, UPLOADS
from graveler.block.local import LocalBlocks
from graveler.core import limits
from graveler.core.clock import SystemIds
from graveler.core.errors import GravelerError, Invalid, NotFound, Refused, StorageFull, Unavailable
from tests.block.stores import opened
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
