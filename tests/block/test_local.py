"""The local folder driver keeps the contract, and what the contract does not know of folders."""

import ctypes
import errno
import gc
import os
import stat
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from graveler.block import disk
from graveler.block.adapter import CREATE, Blocks, ObjectHead, Part
from graveler.block.file_reads import Chunks
from graveler.block.files import Files
from graveler.block.folders import Temporary
from graveler.block.layout import FilePath
from graveler.block.local import LocalBlocks
from graveler.block.open_files import OpenFile
from graveler.block.retry import retrying_blocks
from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt, GravelerError, Invalid, NotFound, StorageFull
from graveler.core.requests import Counts, RetryPolicy, counted_blocks
from tests.block.stores import open_count, opened
from tests.support.block_suite import BlockSuite, content

DATA = "data/0123456789abcdefghij/klmnopqrstuv01234567"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "blocks"


@pytest.fixture
def blocks(root: Path) -> LocalBlocks:
    return opened(root)


class TestLocalBlocks(BlockSuite):
    bucket = "local://suite"
    presigns = True
    presigns_parts = False
    keeps_classes = False


class TestRetryingLocalBlocks(BlockSuite):
    bucket = "local://suite"
    presigns = True
    presigns_parts = False
    keeps_classes = False

    @pytest.fixture
    def blocks(self, root: Path) -> Blocks:
        return retrying_blocks(opened(root), SystemClock(), RetryPolicy())


class TestObservedLocalBlocks(BlockSuite):
    bucket = "local://suite"
    presigns = True
    presigns_parts = False
    keeps_classes = False

    @pytest.fixture
    def blocks(self, root: Path) -> Blocks:
        return counted_blocks(opened(root), Counts())


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


class TestFiles:
    def test_our_own_objects_lie_where_their_address_says(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        for key in (f"ns/{DATA}", "ns/_lakefs/dummy", f"ns/_lakefs/{'ab' * 32}"):
            blocks.put(f"local://lake/{key}", [b"x"])
            assert (root / "lake" / key).read_bytes() == b"x"

    def test_files_are_for_their_owner_only(self, blocks: LocalBlocks, root: Path) -> None:
        blocks.put("local://lake/a/b", [b"x"])
        for path in root.rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0

    def test_names_at_and_over_the_limit(self, blocks: LocalBlocks) -> None:
        for segment in ("n" * 254, "é" * 127, "%" * 84):
            address = f"local://lake/{segment}/{segment}"
            blocks.put(address, [segment.encode()])
            assert content(blocks, address) == segment.encode()
        for segment in ("n" * 255, "é" * 128, "%" * 86, "n" * 256):
            with pytest.raises(Invalid, match="at most 254 bytes"):
                blocks.put(f"local://lake/{segment}", [b"x"])

    def test_what_lies_there_by_accident_is_no_object(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        blocks.put("local://lake/a/b", [b"x"])
        (root / "lake" / "a" / "stray").write_bytes(b"?")
        (root / "lake" / "%zz").mkdir()
        os.mkfifo(root / "lake" / "pipe%")
        found = blocks.list("local://lake/", "", 10)
        assert [line.address for line in found.lines] == ["local://lake/a/b"]
        for key in ("a/stray", "pipe", "%zz"):
            with pytest.raises(NotFound):
                blocks.get(f"local://lake/{key}")

    def test_a_body_that_is_dropped_lets_go_of_its_file(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        """While the object exists, its file stays open for others; so it is deleted first."""
        blocks.put("local://lake/a", [b"x" * 600_000])
        body = blocks.get("local://lake/a")
        next(body.chunks)
        before = open_count(root)
        blocks.delete("local://lake/a")
        assert open_count(root) == before
        del body
        assert open_count(root) == before - 1

    def test_a_copy_that_is_stopped_stores_nothing(self, blocks: LocalBlocks) -> None:
        class Stopped(Exception):
            pass

        def stop() -> None:
            raise Stopped

        blocks.put("local://lake/a", [b"x" * 600_000])
        with pytest.raises(Stopped):
            blocks.copy("local://lake/a", "local://lake/b", stop)
        assert [line.address for line in blocks.list("local://lake/", "", 5).lines] == [
            "local://lake/a"
        ]

    def test_no_verb_leaks_descriptors(self, blocks: LocalBlocks, root: Path) -> None:
        blocks.put("local://lake/a", [b"x"])
        blocks.head("local://lake/a")  # the file stays open
        before = open_count(root)
        for _ in range(10):
            blocks.put("local://lake/a", [b"x"])
            blocks.copy("local://lake/a", "local://lake/b")
            blocks.list("local://lake/", "", 1)
            blocks.head("local://lake/a")
            for failing in (
                lambda: blocks.put("local://lake/a", [b"x"], CREATE),
                lambda: blocks.get("local://lake/a", 5),
                lambda: blocks.get("local://lake/no/such"),
            ):
                with pytest.raises(GravelerError):
                    failing()
            blocks.delete("local://lake/b")
        assert open_count(root) == before

    def test_folders_removed_behind_our_back_are_made_again(
        self, blocks: LocalBlocks, root: Path
    ) -> None:
        blocks.put("local://lake/a/b", [b"1"])
        (root / "lake" / "a" / "b%").unlink()
        (root / "lake" / "a").rmdir()
        blocks.put("local://lake/a/b", [b"2"], CREATE)
        assert content(blocks, "local://lake/a/b") == b"2"


class TestLinks:
    """No link below the store is followed, wherever it stands."""

    @pytest.fixture
    def secret(self, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret%").write_bytes(b"secret")
        return outside

    def _refused(self, call: Callable[[], object]) -> None:
        with pytest.raises((Invalid, NotFound)):
            call()

    @pytest.mark.parametrize("where", ["bucket", "folder"])
    def test_linked_folders(
        self, blocks: LocalBlocks, root: Path, secret: Path, where: str
    ) -> None:
        blocks.put("local://lake/a/b", [b"x"])
        link, stem = {
            "bucket": (root / "evil", "local://evil/"),
            "folder": (root / "lake" / "evil", "local://lake/evil/"),
        }[where]
        link.symlink_to(secret)
        self._refused(lambda: blocks.get(stem + "secret"))
        self._refused(lambda: blocks.read(stem + "secret", 0, 6))
        self._refused(lambda: blocks.head(stem + "secret"))
        self._refused(lambda: blocks.copy(stem + "secret", "local://lake/c"))
        self._refused(lambda: blocks.put(stem + "new", [b"x"]))
        self._refused(lambda: blocks.copy("local://lake/a/b", stem + "new"))
        self._refused(lambda: blocks.delete(stem + "secret"))
        self._refused(lambda: blocks.list(stem, "", 5))
        assert names_below(secret) == {"secret%"}

    def test_a_folder_that_becomes_a_link_later(
        self, blocks: LocalBlocks, root: Path, secret: Path
    ) -> None:
        blocks.put("local://lake/a/secret", [b"mine"])
        (root / "lake" / "a").rename(root / "lake" / "b")
        (root / "lake" / "a").symlink_to(secret)
        self._refused(lambda: blocks.get("local://lake/a/secret"))
        self._refused(lambda: blocks.put("local://lake/a/secret", [b"x"]))
        assert (secret / "secret%").read_bytes() == b"secret"

    def test_a_system_that_does_not_tell_what_was_opened(
        self, blocks: LocalBlocks, root: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then folders are opened one at a time, and refuse the same links."""

        def untold(_path: str) -> str:
            raise OSError(errno.ENOENT, "injected")

        blocks.put("local://lake/a/b", [b"x"])
        (root / "lake" / "evil").symlink_to(secret)
        monkeypatch.setattr(os, "readlink", untold)
        before = open_count(root)
        blocks.put("local://lake/a/c", [b"y"], CREATE)
        assert content(blocks, "local://lake/a/b") + content(blocks, "local://lake/a/c") == b"xy"
        self._refused(lambda: blocks.get("local://lake/evil/secret"))
        self._refused(lambda: blocks.put("local://lake/evil/new", [b"x"]))
        gc.collect()
        assert open_count(root) == before + 2  # both files stay open

    def test_a_root_behind_a_link(self, root: Path) -> None:
        root.mkdir(parents=True)
        (root.parent / "linked").symlink_to(root)
        linked = opened(root.parent / "linked")
        linked.put("local://lake/a/b", [b"x"])
        assert content(opened(root), "local://lake/a/b") == b"x"
        assert content(linked, "local://lake/a/b") == b"x"

    def test_a_root_whose_link_changes_later(self, root: Path) -> None:
        """Uploads and objects stay in the folder that was opened."""
        root.mkdir(parents=True)
        link = root.parent / "linked"
        link.symlink_to(root)
        linked = opened(link)
        upload_id = linked.create_upload("local://lake/a/b")
        part = linked.put_part("local://lake/a/b", upload_id, 1, [b"x"])
        link.unlink()
        link.symlink_to(root.parent)
        page = linked.list_parts("local://lake/a/b", upload_id, 0, 10)
        assert [line.number for line in page.lines] == [1]
        linked.complete_upload("local://lake/a/b", upload_id, (part,))
        assert content(opened(root), "local://lake/a/b") == b"x"

    def test_a_linked_file(self, blocks: LocalBlocks, root: Path, secret: Path) -> None:
        blocks.put("local://lake/a", [b"x"])
        (root / "lake" / "evil%").symlink_to(secret / "secret%")
        self._refused(lambda: blocks.get("local://lake/evil"))
        found = blocks.list("local://lake/", "", 5)
        assert [line.address for line in found.lines] == ["local://lake/a"]
        blocks.put("local://lake/evil", [b"replaced, not followed"])
        assert (secret / "secret%").read_bytes() == b"secret"


def test_parts_are_joined_without_a_copy_in_the_process(blocks: LocalBlocks) -> None:
    address, body = f"local://suite/{DATA}", os.urandom(5 << 20)
    upload = blocks.create_upload(address)
    parts = tuple(blocks.put_part(address, upload, number, [body]) for number in (1, 2))
    tracemalloc.start()
    try:
        blocks.complete_upload(address, upload, parts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limits.chunk_length_bytes // 2
    assert content(blocks, address) == body * 2


def test_one_call_at_a_time_joins_an_upload(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late one would put other parts over an object that was answered."""
    address = f"local://suite/{DATA}"
    upload = blocks.create_upload(address)
    old = blocks.put_part(address, upload, 1, [b"old"])
    begun, gate, answers = threading.Event(), threading.Event(), list[object]()
    join = Files.join

    def held(pieces: Iterable[Chunks]) -> Iterator[Chunks]:
        for piece in pieces:
            begun.set()
            assert gate.wait(60)
            yield piece

    def late(files: Files, place: FilePath, pieces: Iterable[Chunks], where: str) -> ObjectHead:
        return join(files, place, held(pieces), where)

    def complete(part: Part) -> None:
        try:
            answers.append(blocks.complete_upload(address, upload, (part,)))
        except GravelerError as error:
            answers.append(error)

    monkeypatch.setattr(Files, "join", late)
    first = threading.Thread(target=complete, args=(old,))
    first.start()
    assert begun.wait(60)
    new = blocks.put_part(address, upload, 1, [b"new"])
    second = threading.Thread(target=complete, args=(new,))
    second.start()
    second.join(0.2)
    assert second.is_alive() and answers == []
    gate.set()
    first.join(60)
    second.join(60)
    assert len(answers) == 2
    head, refused = sorted(answers, key=lambda each: isinstance(each, GravelerError))
    assert isinstance(refused, NotFound), answers
    assert isinstance(head, ObjectHead) and content(blocks, address) == b"old"


def test_what_the_kernel_does_not_copy_is_read_and_written(tmp_path: Path) -> None:
    """A file of another file system, and one that can only be read."""
    source = Path("/proc/version")
    text = source.read_bytes()
    chunks = Chunks(OpenFile(os.open(source, os.O_RDONLY)), "version")
    chunks.at, chunks.end = 1, len(text)
    with (tmp_path / "target").open("wb") as target:
        chunks.append_to(Temporary(target.fileno(), -1, ""))
    assert (tmp_path / "target").read_bytes() == text[1:]


def test_a_file_that_is_shorter_than_it_was_is_not_appended(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"123")
    chunks = Chunks(OpenFile(os.open(tmp_path / "short", os.O_RDONLY)), "short")
    chunks.end = 4
    with (tmp_path / "target").open("wb") as target, pytest.raises(Corrupt):
        chunks.append_to(Temporary(target.fileno(), -1, ""))


def test_a_disk_that_is_full_ends_a_join(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"123")
    chunks = Chunks(OpenFile(os.open(tmp_path / "source", os.O_RDONLY)), "source")
    chunks.end = 3
    with Path("/dev/full").open("wb") as target, pytest.raises(StorageFull):
        chunks.append_to(Temporary(target.fileno(), -1, ""))


def test_a_long_body_is_stored_where_the_system_cannot_begin_to_flush(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = disk.beginning_of_flushes()
    pieces = [bytes([number]) * (1 << 20) for number in range(40)]
    for number, is_known in enumerate((True, False)):
        if not is_known:
            monkeypatch.setattr(disk, "beginning_of_flushes", lambda: None)
        blocks, address = opened(root), f"local://lake/{number}"
        blocks.put(address, pieces)
        assert content(blocks, address) == b"".join(pieces)
    if begin is not None:
        with (root / "file").open("wb") as file:
            file.write(bytes(1 << 20))
            file.flush()
            assert begin(file.fileno(), ctypes.c_int64(0), ctypes.c_int64(1 << 20), 2) == 0
