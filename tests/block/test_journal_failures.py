"""A journal on a disk that fails or is full: no file that was answered is lost, no file that was
removed or replaced comes back, and nothing stays open."""

import errno
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
        monkeypatch.setattr(disk, "_sync_of_file_systems", lambda: self._sync)
        monkeypatch.setattr(disk, "_is_trusted", lambda _: True)

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
