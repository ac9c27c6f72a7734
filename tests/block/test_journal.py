"""The journal of small files: what was answered outlives a loss of power, and nothing comes back
that was removed or replaced."""

import errno
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from graveler.block import disk, journal
from graveler.block.adapter import CREATE, Blocks, NewObject, ObjectHead, Update
from graveler.block.journal import Segment, SmallFile, check, decode, encode
from graveler.block.layout import JOURNAL, TEMPORARY, FilePath
from graveler.block.local import LocalBlocks
from graveler.block.small_files import SMALL_BYTES
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import (
    AlreadyExists,
    Corrupt,
    GravelerError,
    NotFound,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
)
from tests.block import stores
from tests.support.block_suite import BlockSuite, content

STEM = "local://lake/ns/data/0123456789abcdefghij/"


opened = partial(stores.opened, journaled=True)


def address(number: int) -> str:
    return f"{STEM}{number:020}"


def segments(root: Path) -> list[Path]:
    folder = root / JOURNAL
    return sorted(folder.iterdir()) if folder.exists() else []


def placed(root: Path) -> list[Path]:
    return sorted((root / "lake").rglob("0000*"))


class Disk:
    """A disk under a loss of power: it keeps of each segment what was synced last, and nothing of
    files that were not synced themselves."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.kept: dict[str, bytes] = {}
        sync, sync_data, sync_files = os.fsync, os.fdatasync, disk.sync_files

        def kept_data(descriptor: int) -> None:
            sync_data(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            kept = self.kept.get(path.name, b"")
            with path.open("rb") as segment:
                segment.seek(len(kept))
                self.kept[path.name] = kept + segment.read()

        def kept_file(descriptor: int) -> None:
            sync(descriptor)
            self._inodes.add(os.fstat(descriptor).st_ino)

        def kept_all(*arguments: object) -> None:
            sync_files(*arguments)  # type: ignore[arg-type]
            self._inodes |= {path.stat().st_ino for path in placed(root)}

        self._inodes: set[int] = set()
        monkeypatch.setattr(os, "fdatasync", kept_data)
        monkeypatch.setattr(os, "fsync", kept_file)
        monkeypatch.setattr(journal, "sync_files", kept_all)

    def lose_power(self) -> None:
        """Leave only what was synced."""
        for thread in threading.enumerate():
            if thread.name == "checkpoint":  # not in the middle of one
                thread.join()
        for path in placed(self.root):
            if path.stat().st_ino not in self._inodes:
                path.unlink()
        for path in segments(self.root):
            path.write_bytes(self.kept.get(path.name, b""))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


@pytest.fixture
def blocks(root: Path) -> Iterator[LocalBlocks]:
    blocks = opened(root)
    yield blocks
    blocks.close()


class TestJournaledBlocks(BlockSuite):
    bucket = "local://suite"
    presigns = True
    presigns_parts = False
    keeps_classes = False

    @pytest.fixture
    def blocks(self, root: Path) -> Blocks:
        return opened(root)


class TestRecords:
    FILES = tuple(
        SmallFile(FilePath(("lake", "é" * number), f"n{number}"), 10**18 + number, b"\0x" * number)
        for number in range(4)
    )
    STORED = b"GRVJ\x01" + b"".join(map(encode, FILES))

    def test_every_prefix_gives_the_files_that_are_whole_in_it(self) -> None:
        ends = [5 + len(b"".join(map(encode, self.FILES[:count]))) for count in range(5)]
        for length in range(len(self.STORED) + 1):
            whole = sum(end <= length for end in ends) - 1
            assert list(decode(self.STORED[:length])) == list(self.FILES[: max(0, whole)]), length

    def test_a_changed_byte_is_damage_and_gives_no_other_file(self) -> None:
        ends = [5 + len(b"".join(map(encode, self.FILES[:count]))) for count in range(5)]
        for at in range(5, len(self.STORED)):
            damaged = bytearray(self.STORED)
            damaged[at] ^= 0x41
            hit = sum(end <= at for end in ends) - 1
            with pytest.raises(Corrupt, match=f"damaged record: at={ends[hit]} "):
                check(bytes(damaged))
            assert list(decode(bytes(damaged))) == [*self.FILES[:hit], *self.FILES[hit + 1 :]], at

    def test_what_a_crash_tears_from_the_end_is_no_damage(self) -> None:
        for length in range(len(self.STORED)):
            check(self.STORED[:length])
            check(self.STORED[:length] + bytes(len(self.STORED) - length))
        check(self.STORED + b"\0" * 4096)
        assert list(decode(self.STORED + b"\0" * 4096)) == list(self.FILES)

    def test_a_record_in_the_bytes_of_an_object_is_no_record(self) -> None:
        """Neither if the object's own record is damaged, nor if a crash tore the end of it."""
        forged = SmallFile(FilePath(("other", "data"), "file"), 1, b"chosen by the author")
        author = SmallFile(FilePath(("own", "data"), "file"), 2, encode(forged) + b"x" * 2_000)
        behind = SmallFile(FilePath(("own", "data"), "next"), 3, b"next")
        stored = bytearray(b"GRVJ\x01" + encode(author) + encode(behind))
        stored[200] ^= 1
        assert list(decode(bytes(stored))) == [behind]
        with pytest.raises(Corrupt, match="records_before=0 records_behind=1 "):
            check(bytes(stored))
        torn = b"GRVJ\x01" + encode(behind) + encode(author)
        torn = torn[:-600] + bytes(600)
        check(torn)
        assert list(decode(torn)) == [behind]

    def test_a_segment_of_a_later_release_is_not_read(self, root: Path) -> None:
        (root / JOURNAL).mkdir(parents=True)
        (root / JOURNAL / "1").write_bytes(b"GRVJ\x02")
        with pytest.raises(Corrupt, match="later release"):
            opened(root)

    def test_records_without_their_header_are_damage(self, root: Path) -> None:
        """A record is answered after a sync that covers the header too."""
        (root / JOURNAL).mkdir(parents=True)
        segment = root / JOURNAL / "1"
        segment.write_bytes(bytes(5) + self.STORED[5:])
        with pytest.raises(Corrupt, match="damaged header: header=0000000000"):
            opened(root)
        assert segment.exists()
        segment.write_bytes(bytes(5) + self.STORED[5:-1][:10])  # no record is whole
        opened(root).close()
        assert not segment.exists()


class TestLossOfPower:
    def test_what_was_answered_comes_back(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        heads = {
            number: blocks.put(address(number), [b"%d" % number, b"x" * number], CREATE)
            for number in range(30)
        }
        power.lose_power()
        assert placed(root) == []
        again = opened(root)
        for number, head in heads.items():
            assert content(again, address(number)) == b"%d" % number + b"x" * number
            assert again.head(address(number))[:3] == head[:3]
        assert segments(root) == []
        power.lose_power()  # the replay has synced what it wrote
        assert len(placed(root)) == 30

    def test_each_answer_was_synced(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        for number in range(3):
            blocks.put(address(number), [b"x"], CREATE)
            (stored,) = power.kept.values()
            assert len(list(decode(stored))) == number + 1

    def test_a_small_file_has_no_sync_of_its_own(
        self, blocks: LocalBlocks, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks.put(address(1), [b"x"], CREATE)
        syncs: list[str] = []
        monkeypatch.setattr(os, "fsync", lambda _: syncs.append("file"))
        monkeypatch.setattr(os, "fdatasync", lambda _: syncs.append("segment"))
        blocks.put(address(2), [b"x"], CREATE)
        assert syncs == ["segment"]
        syncs.clear()
        blocks.put(address(3), [b"x" * SMALL_BYTES], CREATE)
        blocks.put(address(4), iter([b"x"]), CREATE)
        assert syncs == ["file", "file"] * 2

    def test_a_replay_may_be_repeated(self, root: Path) -> None:
        blocks = opened(root)
        for number in range(3):
            blocks.put(address(number), [b"%d" % number], CREATE)
        (segment,) = segments(root)
        stored = segment.read_bytes()
        for _ in range(2):
            segment.write_bytes(stored)
            again = opened(root)
            assert [content(again, address(number)) for number in range(3)] == [b"0", b"1", b"2"]
            assert segments(root) == []
        again.put(address(9), [b"9"], CREATE)
        assert segments(root)[0].name > segment.name

    def test_what_was_removed_stays_removed(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        for number in range(3):
            blocks.put(address(number), [b"%d" % number], CREATE)
        blocks.delete(address(1))
        blocks.put(address(3), [b"3"], CREATE)
        power.lose_power()
        again = opened(root)
        with pytest.raises(NotFound):
            again.head(address(1))
        assert [content(again, address(number)) for number in (0, 2, 3)] == [b"0", b"2", b"3"]

    @pytest.mark.parametrize("is_update", [False, True])
    def test_what_was_replaced_stays_replaced(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, is_update: bool
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        head = blocks.put(address(1), [b"first"], CREATE)
        newer = (Update(head.etag),) if is_update else ()
        blocks.put(address(1), [b"second"], *newer)
        power.lose_power()
        assert content(opened(root), address(1)) == b"second"

    def test_a_name_that_was_removed_and_given_again_has_its_last_bytes(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        for body in (b"first", b"second", b"third"):
            blocks.put(address(1), [body], CREATE)
            if body != b"third":
                blocks.delete(address(1))
        power.lose_power()
        assert content(opened(root), address(1)) == b"third"

    def test_a_refused_creation_changes_nothing(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        blocks.put(address(1), [b"first"], CREATE)
        with pytest.raises(AlreadyExists):
            blocks.put(address(1), [b"second"], CREATE)
        power.lose_power()
        assert content(opened(root), address(1)) == b"first"


class TestCheckpoints:
    def test_segments_go_once_their_files_are_synced(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        seen: set[str] = set()
        body = b"x" * (SMALL_BYTES - 10)
        for number in range(270):  # 18 MB; a segment has 16 MiB
            blocks.put(address(number), [b"%9d" % number, body], CREATE)
            names = {path.name for path in segments(root)}
            assert len(names) <= 3
            seen |= names
        assert len(seen) >= 2
        power.lose_power()
        again = opened(root)
        for number in range(270):
            assert content(again, address(number)) == b"%9d" % number + body

    def test_a_close_leaves_no_segment(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        blocks.put(address(1), [b"x"], CREATE)
        assert len(segments(root)) == 1
        blocks.close()
        blocks.close()
        assert segments(root) == []
        blocks.put(address(2), [b"y"], CREATE)  # with syncs of its own
        assert segments(root) == []
        power.lose_power()
        assert [content(opened(root), address(number)) for number in (1, 2)] == [b"x", b"y"]

    def test_a_segment_whose_files_cannot_be_synced_stays(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks = opened(root)
        blocks.put(address(1), [b"x"], CREATE)
        with monkeypatch.context() as patched:
            patched.setattr(journal, "sync_files", _failing)
            with pytest.raises(Unavailable):
                blocks.delete(address(1))
        with pytest.raises(Unavailable):  # a second sync would not report what the first has lost
            blocks.delete(address(1))
        assert content(blocks, address(1)) == b"x" and len(segments(root)) == 1
        again = opened(root)
        assert content(again, address(1)) == b"x" and segments(root) == []
        again.delete(address(1))

    def test_a_system_without_a_sync_of_file_systems(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk, "sync_of_file_systems", lambda: None)
        blocks = opened(root)
        for number in range(2):
            blocks.put(address(number), [b"x"], CREATE)
        synced = stores.synced_paths(monkeypatch)
        blocks.close()
        files = placed(root)
        assert {str(path) for path in (*files, files[0].parent)} < synced

    def test_a_failing_sync_of_the_file_system_is_reported(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            disk.sync_files("/", -1, ())


class TestFailures:
    @pytest.mark.parametrize("name", ["write", "fdatasync"])
    def test_a_failed_segment_takes_no_more_and_the_file_is_synced_itself(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        blocks.put(address(1), [b"1"], CREATE)
        (before,) = segments(root)
        calls: list[int] = []
        inner: Callable[..., int] = getattr(os, name)

        def failing(descriptor: int, *data: bytes) -> int:
            if os.readlink(f"/proc/self/fd/{descriptor}") == str(before):
                calls.append(descriptor)
                raise OSError(errno.EIO, "injected")
            return inner(descriptor, *data)

        monkeypatch.setattr(os, name, failing)
        for number in (2, 3):
            blocks.put(address(number), [b"%d" % number], CREATE)
        assert len(calls) == 1
        power.lose_power()
        again = opened(root)
        assert [content(again, address(n)) for n in (1, 2, 3)] == [b"1", b"2", b"3"]

    def test_a_file_that_can_neither_be_synced_nor_removed_has_an_unknown_outcome(
        self, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks.put(address(1), [b"1"], CREATE)
        unlink = os.unlink

        def refusing(path: str, *, dir_fd: int | None = None) -> None:
            if path.startswith("0000"):
                raise OSError(errno.EIO, "injected")
            unlink(path, dir_fd=dir_fd)

        with monkeypatch.context() as patched, pytest.raises(OutcomeUnknown):
            patched.setattr(os, "fdatasync", _failing)
            patched.setattr(os, "unlink", refusing)
            blocks.put(address(2), [b"2"], CREATE)

    def test_no_room_leaves_nothing_and_is_over_once_there_is_room(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        blocks.put(address(1), [b"1"], CREATE)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        try:
            for number in (2, 3):
                with pytest.raises(StorageFull):
                    blocks.put(address(number), [b"22"], CREATE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [path.name[-1] for path in placed(root)] == ["1"]
        assert [path for path in (root / TEMPORARY).rglob("*") if path.is_file()] == []
        blocks.put(address(2), [b"2"], CREATE)
        again = opened(root)
        assert [content(again, address(number)) for number in (1, 2)] == [b"1", b"2"]

    def test_a_folder_that_was_removed_is_made_again(self, blocks: LocalBlocks, root: Path) -> None:
        blocks.put(address(1), [b"1"], CREATE)
        (path,) = placed(root)
        path.unlink()
        path.parent.rmdir()
        blocks.put(address(2), [b"2"], CREATE)
        assert content(blocks, address(2)) == b"2"


def test_a_store_without_syncs_replays_what_an_earlier_process_left(root: Path) -> None:
    opened(root).put(address(1), [b"one"], CREATE)
    (file,) = placed(root)
    file.write_bytes(b"")  # as a loss of power may leave it
    blocks = LocalBlocks(root, clock=SystemClock(), ids=SystemIds(), journaled=True, synced=False)
    assert (content(blocks, address(1)), segments(root)) == (b"one", [])
    blocks.put(address(2), [b"two"], CREATE)
    assert segments(root) == []


class TestMany:
    """Creations of many: one sync for all, and what holds for one holds for each."""

    def test_what_was_answered_comes_back(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        heads = created(blocks, range(30))
        power.lose_power()
        assert placed(root) == []
        again = opened(root)
        for number, head in enumerate(heads):
            assert isinstance(head, ObjectHead)
            assert content(again, address(number)) == b"%d" % number
            assert again.head(address(number))[:3] == head[:3]

    def test_small_files_share_one_sync(
        self, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        large = (b"x" * SMALL_BYTES,)
        blocks.create_many([NewObject(address(98), (b"x",)), NewObject(address(99), large)])
        syncs: list[str] = []
        monkeypatch.setattr(os, "fsync", lambda _: syncs.append("file"))
        monkeypatch.setattr(os, "fdatasync", lambda _: syncs.append("segment"))
        created(blocks, range(1, 20))
        assert syncs == ["segment"]
        blocks.create_many([NewObject(address(20), large)])
        assert syncs == ["segment", "file", "file"]

    def test_a_refused_creation_changes_nothing(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        blocks.put(address(1), [b"first"], CREATE)
        kinds = [type(result) for result in created(blocks, range(3))]
        assert kinds == [ObjectHead, AlreadyExists, ObjectHead]
        power.lose_power()
        again = opened(root)
        assert [content(again, address(n)) for n in range(3)] == [b"0", b"first", b"2"]

    @pytest.mark.parametrize("name", ["write", "fdatasync"])
    def test_a_segment_that_fails_leaves_files_with_syncs_of_their_own(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        created(blocks, [0])
        (before,) = segments(root)
        inner: Callable[..., int] = getattr(os, name)

        def failing(descriptor: int, *data: bytes) -> int:
            if os.readlink(f"/proc/self/fd/{descriptor}") == str(before):
                raise OSError(errno.EIO, "injected")
            return inner(descriptor, *data)

        monkeypatch.setattr(os, name, failing)
        assert all(isinstance(head, ObjectHead) for head in created(blocks, range(1, 5)))
        power.lose_power()
        again = opened(root)
        assert [content(again, address(n)) for n in range(5)] == [b"%d" % n for n in range(5)]

    def test_files_that_can_neither_be_synced_nor_removed_have_an_unknown_outcome(
        self, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        created(blocks, [0])
        unlink = os.unlink

        def refusing(path: str, *, dir_fd: int | None = None) -> None:
            if path == address(2).rpartition("/")[2]:
                raise OSError(errno.EIO, "injected")
            unlink(path, dir_fd=dir_fd)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", _failing)
            patched.setattr(os, "unlink", refusing)
            kinds = [type(result) for result in created(blocks, range(1, 4))]
        assert kinds == [ObjectHead, OutcomeUnknown, ObjectHead]

    def test_no_room_leaves_nothing_and_is_over_once_there_is_room(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        created(blocks, [1])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        try:
            results = created(blocks, range(10, 13))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [type(result) for result in results] == [StorageFull] * 3
        assert [path.name[-2:] for path in placed(root)] == ["01"]
        assert [path for path in (root / TEMPORARY).rglob("*") if path.is_file()] == []
        created(blocks, range(10, 13))
        again = opened(root)
        assert [content(again, address(n)) for n in (1, 10, 11, 12)] == [b"1", b"10", b"11", b"12"]

    def test_a_folder_that_was_removed_is_made_again(self, blocks: LocalBlocks, root: Path) -> None:
        created(blocks, [1])
        (path,) = placed(root)
        path.unlink()
        path.parent.rmdir()
        created(blocks, [2, 3])
        assert [content(blocks, address(n)) for n in (2, 3)] == [b"2", b"3"]

    def test_what_was_removed_stays_removed(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power = Disk(root, monkeypatch)
        blocks = opened(root)
        created(blocks, range(3))
        blocks.delete(address(1))
        power.lose_power()
        again = opened(root)
        with pytest.raises(NotFound):
            again.head(address(1))
        assert [content(again, address(number)) for number in (0, 2)] == [b"0", b"2"]


def created(blocks: Blocks, numbers: Iterable[int]) -> Sequence[ObjectHead | GravelerError]:
    return blocks.create_many([NewObject(address(number), (b"%d" % number,)) for number in numbers])


_CHILD = """
import sys
from pathlib import Path
from tests.block.test_journal import address, opened
from graveler.block.adapter import CREATE
blocks = opened(Path(sys.argv[1]))
for number in range(100_000):
    blocks.put(address(number), [b"%d" % number], CREATE)
    print(number, flush=True)
"""
_CHILD_OF_MANY = """
import sys
from pathlib import Path
from tests.block.test_journal import created, opened
blocks = opened(Path(sys.argv[1]))
for first in range(0, 100_000, 20):
    created(blocks, range(first, first + 20))
    print(*range(first, first + 20), sep=chr(10), flush=True)
"""


@pytest.mark.parametrize("survived", [1, 40])
@pytest.mark.parametrize("program", [_CHILD, _CHILD_OF_MANY], ids=["one", "many"])
def test_a_kill_and_the_loss_of_all_unsynced_files(root: Path, survived: int, program: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    answered = [child.stdout.readline() for _ in range(survived)]
    child.send_signal(signal.SIGKILL)
    answered += child.stdout.readlines()
    child.stdout.close()
    child.wait()
    for path in placed(root):
        path.write_bytes(b"")  # as some file systems leave a file that was not synced
    blocks = opened(root)
    for line in answered:
        if line.endswith(b"\n"):
            assert content(blocks, address(int(line))) == line.strip()


def _failing(*_arguments: object) -> None:
    raise OSError(errno.EIO, "injected")


def test_a_segment_leaves_no_cycle_after_its_checkpoint(tmp_path: Path) -> None:
    blocks = LocalBlocks(tmp_path, clock=SystemClock(), ids=SystemIds(), journaled=True)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(3):
            blocks.put("local://bucket/a", [b"a"], CREATE)
            blocks.delete("local://bucket/a")  # a checkpoint comes first
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, Segment)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    blocks.close()
    assert left == []
