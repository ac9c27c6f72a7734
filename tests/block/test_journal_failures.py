"""A journal on a disk that fails or is full: no file that was answered is lost, no file that was
removed or replaced comes back, and nothing stays open."""

import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from graveler.block import disk, journal
from graveler.block.adapter import CREATE, NewObject, ObjectHead, Target
from graveler.block.journal import Journal
from graveler.block.layout import JOURNAL, FilePath, owned, place
from graveler.block.local import LocalBlocks
from graveler.block.open_files import OpenFile
from graveler.core.errors import NotFound, Unavailable
from tests.block import stores
from tests.block.test_journal import address, placed, segments
from tests.support.block_suite import content

opened = partial(stores.opened, journaled=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blocks"


@pytest.fixture
def blocks(root: Path) -> Iterator[LocalBlocks]:
    yield opened(root)  # nothing closes it: it ends as by a kill


def place_of(number: int) -> FilePath:
    return place(owned(address(number)))


def journal_of(blocks: LocalBlocks) -> Journal:
    return blocks._files._journal


def once(function: Callable[..., int], of: Callable[[int], bool]) -> Callable[..., int]:
    """`function`, which fails the first time that it is called for a descriptor `of` this kind."""
    left = [True]

    def failing(descriptor: int, *data: bytes) -> int:
        if left and of(descriptor):
            left.clear()
            raise OSError(errno.EIO, "injected")
        return function(descriptor, *data)

    return failing


def is_segment(descriptor: int) -> bool:
    return f"{JOURNAL}/0" in os.readlink(f"/proc/self/fd/{descriptor}")


def is_journal_folder(descriptor: int) -> bool:
    return os.readlink(f"/proc/self/fd/{descriptor}").endswith(JOURNAL)


class WriteBack:
    """A file system whose background write fails.  As Linux does, it reports that once for each
    descriptor that was open then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._failures = 0
        self._seen: dict[int, int] = {}
        make = journal.Folders.make

        def noted(folders: journal.Folders, names: tuple[str, ...]) -> int:
            descriptor = make(folders, names)
            self._seen[descriptor] = self._failures
            return descriptor

        monkeypatch.setattr(journal.Folders, "make", noted)
        monkeypatch.setattr(disk, "sync_of_file_systems", lambda: self._sync)
        monkeypatch.setattr(disk, "is_trusted", lambda _: True)

    def fail(self) -> None:
        self._failures += 1

    def _sync(self, descriptor: int) -> int:
        seen, self._seen[descriptor] = self._seen[descriptor], self._failures
        return -1 if seen < self._failures else 0


def test_a_loss_is_one_of_all_segments_that_were_open(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_system = WriteBack(monkeypatch)
    blocks = opened(root)
    blocks.put(address(1), [b"one"], CREATE)
    gate = threading.Event()
    sync_files = journal.sync_files

    def later(*arguments: object) -> None:
        assert gate.wait(60)
        sync_files(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(journal, "sync_files", later)
    journal_of(blocks)._segments[0].is_retired = True
    blocks.put(address(2), [b"two"], CREATE)  # in the second segment
    file_system.fail()
    gate.set()
    for number in (1, 2):
        with pytest.raises(Unavailable):
            blocks.delete(address(number))
    assert len(segments(root)) == 2
    for path in placed(root):
        path.write_bytes(b"")  # what the disk has
    again = opened(root)
    assert [content(again, address(number)) for number in (1, 2)] == [b"one", b"two"]


@pytest.mark.parametrize("is_short", [False, True], ids=["a failed sync", "a full disk"])
def test_a_file_that_was_withdrawn_does_not_come_back(
    root: Path, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch, is_short: bool
) -> None:
    blocks.put(address(1), [b"one"], CREATE)
    write = os.write

    def short(descriptor: int, data: bytes) -> int:
        if is_segment(descriptor):
            return write(descriptor, data[: len(data) * 2 // 3])  # two of three records
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        if is_short:
            patched.setattr(os, "write", short)
        else:
            patched.setattr(os, "fdatasync", once(os.fdatasync, is_segment))
        files = [NewObject(address(number), (b"%d" % number * 200,)) for number in (2, 3, 4)]
        assert all(isinstance(head, ObjectHead) for head in blocks.create_many(files))
    blocks.delete_all([Target(address(2))])
    blocks.put(address(3), [b"newer"])
    again = opened(root)
    with pytest.raises(NotFound):
        again.head(address(2))
    assert [content(again, address(n)) for n in (1, 3, 4)] == [b"one", b"newer", b"4" * 200]


def test_a_file_of_one_segment_is_held_while_another_segment_is_removed(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks.put(address(1), [b"one"], CREATE)
    gate = threading.Event()
    monkeypatch.setattr(journal, "sync_files", lambda *_: gate.wait(60))
    kept = journal_of(blocks)
    first = kept._segments[0]
    first.is_retired = True
    blocks.put(address(2), [b"two"], CREATE)  # in the second segment

    class Places(set[FilePath]):
        """Those of the first segment, which is removed as soon as somebody has looked at them."""

        def __contains__(self, _: object) -> bool:
            gate.set()
            for thread in kept._checkpoints:
                thread.join()
            return False

    first.places = Places(first.places)
    assert kept.holds(place_of(2))
    assert first not in kept._segments


def test_a_failed_sync_of_the_folder_of_segments_is_not_repeated(
    root: Path, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports the loss once; the name of the segment may be there after a loss of
    power."""
    blocks.put(address(1), [b"one"], CREATE)
    (segment,) = segments(root)
    stored = segment.read_bytes()
    monkeypatch.setattr(os, "fsync", once(os.fsync, is_journal_folder))
    for _ in range(2):
        with pytest.raises(Unavailable):
            blocks.delete(address(1))
    segment.write_bytes(stored)
    again = opened(root)
    assert content(again, address(1)) == b"one"


def test_segments_that_cannot_begin_leave_nothing(
    root: Path, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        if is_journal_folder(descriptor):
            raise OSError(errno.EIO, "injected")

    blocks.put(address(0), iter([b"x"]), CREATE)  # with syncs of its own: makes the folders
    monkeypatch.setattr(os, "fsync", failing)
    before = stores.open_count(root)
    for number in range(1, 20):
        blocks.put(address(number), [b"x"], CREATE)
    assert stores.open_count(root) == before
    assert segments(root) == []


def test_a_withdrawal_keeps_its_folder_open(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may drop the folders that are kept open at any time."""
    blocks.put(address(1), [b"one"], CREATE)
    small = blocks._files._small
    folder_of = small._folder

    def dropping(names: tuple[str, ...]) -> OpenFile:
        folder = folder_of(names)
        small._open.clear()
        return folder

    monkeypatch.setattr(small, "_folder", dropping)
    monkeypatch.setattr(os, "fdatasync", once(os.fdatasync, is_segment))
    blocks.put(address(2), [b"two"], CREATE)
    assert content(blocks, address(2)) == b"two"


def test_a_lost_segment_is_told_with_what_to_do(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocks.put(address(1), [b"one"], CREATE)

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(journal, "sync_files", failing)
    with caplog.at_level(logging.ERROR), pytest.raises(Unavailable):
        blocks.delete(address(1))
    (told,) = caplog.messages
    assert "1 small files cannot be deleted or replaced" in told and "started again" in told


MOUNTS = """
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:44 / /mnt/crypt rw shared:7 - fuse.gocryptfs /crypt rw
31 22 0:45 / /mnt/host rw - 9p host rw
broken line
"""


@pytest.mark.parametrize(
    ("device", "kind"),
    [((254, 0), "ext4"), ((0, 44), "fuse.gocryptfs"), ((0, 45), "9p"), ((9, 9), "")],
)
def test_the_kind_of_a_file_system(device: tuple[int, int], kind: str) -> None:
    assert disk.kind_of(MOUNTS, *device) == kind


@pytest.mark.parametrize(
    ("release", "kind", "is_whole"),
    [
        ("5.8.0", "ext4", True),
        ("6.18.44-generic", "xfs", True),
        ("6.1.0", "", True),
        ("6.1.0", "virtiofs", True),
        ("5.4.0-100-generic", "ext4", False),
        ("4.18.0-553.el8", "xfs", False),
        ("6.1.0", "fuse.gocryptfs", False),
        ("6.1.0", "fuse", False),
        ("6.1.0", "fuseblk", False),
        ("5.15.90.1-microsoft-standard-WSL2", "9p", False),
        ("strange", "ext4", False),
    ],
)
def test_where_one_call_syncs_all(release: str, kind: str, is_whole: bool) -> None:
    assert disk.is_whole_sync(release, kind) == is_whole


def test_where_one_call_does_not_sync_all_each_file_is_synced(
    root: Path, blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = os.uname()
    old = os.uname_result((system.sysname, system.nodename, "5.4.0-100-generic", "", ""))
    monkeypatch.setattr(os, "uname", lambda: old)
    disk.is_trusted.cache_clear()
    monkeypatch.setattr(disk, "is_trusted", disk.is_trusted.__wrapped__)
    blocks.put(address(1), [b"one"], CREATE)
    synced = stores.synced_paths(monkeypatch)
    blocks.delete(address(1))
    folder = root / "lake/ns/data"
    assert any(path.startswith(str(folder)) and path.endswith("01") for path in synced)
