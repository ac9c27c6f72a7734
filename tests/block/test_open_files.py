"""Files that stay open: fewer calls of the system, and never the bytes of a name that is gone."""

import errno
import os
import random
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from graveler.block.adapter import FileChunks
from graveler.block.file_reads import Chunks
from graveler.block.local import LocalBlocks
from graveler.block.open_files import (
    OBJECTS_KEPT_MAX,
    TABLES_KEPT_MAX,
    OpenFile,
    OpenFiles,
    OpenTable,
    OpenTables,
    kept_max,
)
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, NotFound
from tests.block.stores import open_count
from tests.support.block_suite import content
from tests.support.clockwork import TickingClock

ADDRESS = "local://lake/a/b"
TABLE = f"local://lake/ns/_lakefs/{7:064x}"


def opened(root: Path) -> LocalBlocks:
    return LocalBlocks(root, clock=SystemClock(), ids=SystemIds())


@pytest.fixture
def blocks(tmp_path: Path) -> LocalBlocks:
    blocks = opened(tmp_path)
    blocks.put(ADDRESS, [b"first"])
    return blocks


def test_a_second_read_opens_nothing(blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch) -> None:
    assert content(blocks, ADDRESS) == b"first"

    def refused(*_arguments: object, **_named: object) -> int:
        raise AssertionError("a file was opened")

    monkeypatch.setattr(os, "open", refused)
    assert content(blocks, ADDRESS) == b"first"
    assert blocks.read(ADDRESS, 1, 3) == b"irs"
    assert blocks.head(ADDRESS).size == 5


@pytest.mark.parametrize("other_process", [False, True])
def test_what_was_removed_is_not_found(
    blocks: LocalBlocks, tmp_path: Path, other_process: bool
) -> None:
    assert content(blocks, ADDRESS) == b"first"
    (opened(tmp_path) if other_process else blocks).delete(ADDRESS)
    with pytest.raises(NotFound):
        blocks.get(ADDRESS)


@pytest.mark.parametrize("other_process", [False, True])
def test_what_was_replaced_is_read_anew(
    blocks: LocalBlocks, tmp_path: Path, other_process: bool
) -> None:
    before = blocks.head(ADDRESS)
    (opened(tmp_path) if other_process else blocks).put(ADDRESS, [b"second"])
    assert content(blocks, ADDRESS) == b"second"
    assert blocks.head(ADDRESS).etag != before.etag


def test_an_open_body_is_read_to_its_end_after_its_object_was_removed(
    blocks: LocalBlocks,
) -> None:
    body = blocks.get(ADDRESS)
    blocks.delete(ADDRESS)
    assert b"".join(body.chunks) == b"first"


@pytest.mark.parametrize(
    "change",
    [lambda blocks: blocks.delete(ADDRESS), lambda blocks: blocks.put(ADDRESS, [b"second"])],
)
def test_what_is_gone_takes_no_room(
    blocks: LocalBlocks, tmp_path: Path, change: Callable[[LocalBlocks], object]
) -> None:
    content(blocks, ADDRESS)
    assert open_count(tmp_path) == 1
    change(blocks)
    assert open_count(tmp_path) == 0


def test_few_files_stay_open(blocks: LocalBlocks, tmp_path: Path) -> None:
    kept = kept_max(OBJECTS_KEPT_MAX)
    for number in range(kept + 10):
        blocks.put(f"{ADDRESS}{number}", [b"%d" % number])
        assert content(blocks, f"{ADDRESS}{number}") == b"%d" % number
    assert open_count(tmp_path) == kept


def test_a_low_limit_of_open_files_keeps_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert kept_max(OBJECTS_KEPT_MAX) == 32
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert kept_max(OBJECTS_KEPT_MAX) == 128
    assert kept_max(TABLES_KEPT_MAX) == 2_048


def test_a_file_that_is_removed_while_it_is_opened_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"first")
    files = OpenFiles(8)

    def removed_after() -> int:
        descriptor = os.open(path, os.O_RDONLY)
        path.unlink()
        files.forget("a")  # as the remover does, before the file is kept
        return descriptor

    file, _ = files.open("a", removed_after)
    assert os.pread(file.descriptor, 5, 0) == b"first"
    del file
    assert open_count(tmp_path) == 0


def test_the_file_that_was_read_longest_ago_leaves_first(tmp_path: Path) -> None:
    files = OpenFiles(2)
    opened_names: list[str] = []

    def opened_file(name: str) -> int:
        opened_names.append(name)
        (tmp_path / name).touch()
        return os.open(tmp_path / name, os.O_RDONLY)

    for name in "abacab":
        files.open(name, partial(opened_file, name))
    assert opened_names == ["a", "b", "c", "b"]


def test_a_table_is_opened_once_and_asked_nothing_else(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks.put(TABLE, [b"0123456789"])
    assert blocks.read(TABLE, 2, 3) == b"234"

    asked: list[object] = []
    with monkeypatch.context() as patched:
        for name in ("open", "fstat", "stat"):
            patched.setattr(os, name, lambda *arguments, **_: asked.append(arguments))
        parts = [blocks.read(TABLE, *part) for part in ((0, 4), (-4, 2), (8, 100), (5, 0))]
    assert parts == [b"0123", b"67", b"89", b""]
    assert asked == []


def test_a_table_that_is_removed_is_closed_at_once(blocks: LocalBlocks, tmp_path: Path) -> None:
    blocks.put(TABLE, [b"first"])
    assert blocks.read(TABLE, 0, 3) == b"fir"
    assert open_count(tmp_path) == 1
    blocks.delete(TABLE)
    assert open_count(tmp_path) == 0
    with pytest.raises(NotFound):
        blocks.read(TABLE, 0, 5)
    blocks.put(TABLE, [b"other blocks"])
    assert blocks.read(TABLE, 0, 5) == b"other"
    blocks.copy(TABLE, TABLE)  # a new version of the same bytes
    assert open_count(tmp_path) == 0
    assert blocks.read(TABLE, 0, 12) == b"other blocks"
    assert open_count(tmp_path) == 0  # it was read whole, so it is not needed again


def test_only_tables_are_read_without_a_look_at_their_name(tmp_path: Path) -> None:
    blocks = opened(tmp_path)
    other = opened(tmp_path)
    for address in (ADDRESS, "local://lake/ns/_lakefs/marker", f"local://lake/ns/x/{7:064x}"):
        for text in (b"first", b"second"):
            other.put(address, [text])
            assert blocks.read(address, 0, 10) == text
        other.delete(address)
        with pytest.raises(NotFound):
            blocks.read(address, 0, 10)


def test_a_folder_in_place_of_a_table_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "lake" / "ns" / "_lakefs" / f"{7:064x}").mkdir(parents=True)
    with pytest.raises(NotFound):
        opened(tmp_path).read(TABLE, 0, 5)


def test_a_table_that_was_cut_off_is_corrupt(blocks: LocalBlocks, tmp_path: Path) -> None:
    blocks.put(TABLE, [b"0123456789"])
    assert blocks.read(TABLE, 0, 1) == b"0"
    os.truncate(tmp_path / "lake" / "ns" / "_lakefs" / f"{7:064x}", 5)
    with pytest.raises(Corrupt):
        blocks.read(TABLE, 3, 4)


def _table(folder: Path, name: str) -> OpenTable:
    (folder / name).write_bytes(name.encode())
    return OpenTable(os.open(folder / name, os.O_RDONLY), name)


def test_few_tables_stay_open(tmp_path: Path) -> None:
    tables = OpenTables(3, TickingClock())
    for name in "abc":
        tables.keep(_table(tmp_path, name))
    borrowed = tables.get("a")
    assert borrowed is not None
    for name in "defghdef":
        tables.keep(_table(tmp_path, name))
        assert open_count(tmp_path) <= 4  # one is borrowed
    assert tables.get("a") is None
    assert borrowed.read(0, 1) == b"a"  # who has it reads on
    del borrowed
    assert open_count(tmp_path) == 3


def test_tables_that_were_not_read_for_a_minute_are_closed(tmp_path: Path) -> None:
    """So a store that is written steadily holds no more and more files."""
    clock = TickingClock()
    tables = OpenTables(1_000, clock)
    for number in range(200):
        tables.keep(_table(tmp_path, f"{number}"))
        assert tables.get("0") is not None  # is read all the time
        clock.sleep(1.0)
        if number % 10 == 9:
            assert open_count(tmp_path) < 90
    assert tables.get("199") is not None
    assert tables.get("100") is None


def test_a_table_that_is_removed_while_it_is_opened_is_not_kept(tmp_path: Path) -> None:
    tables = OpenTables(3, TickingClock())
    table = _table(tmp_path, "a")
    (tmp_path / "a").unlink()
    tables.forget("a")  # as the remover does, before the table is kept
    tables.keep(table)
    assert tables.get("a") is None
    assert table.read(0, 1) == b"a"


def test_the_system_sends_a_file_to_a_socket_until_it_is_full(blocks: LocalBlocks) -> None:
    sent = random.Random(3).randbytes(8 * 1024 * 1024)
    blocks.put(ADDRESS, [sent])
    chunks = blocks.get(ADDRESS, 3, len(sent) - 2).chunks
    assert isinstance(chunks, FileChunks)
    received = bytearray()
    with _pair() as (near, far):
        with pytest.raises(BlockingIOError):
            while chunks.send_to(near, 1024 * 1024):
                pass
        while len(received) < len(sent) - 5:
            received += far.recv(1024 * 1024)
            with suppress(BlockingIOError):
                chunks.send_to(near, 1_000_000)
        assert chunks.send_to(near, 1) == 0
        assert received == sent[3:-2]
        assert list(chunks) == []


def test_a_file_that_the_system_does_not_send_is_read_and_written() -> None:
    path = "/proc/self/status"  # no file system with a store on a disk
    chunks = Chunks(OpenFile(os.open(path, os.O_RDONLY)), path)
    chunks.end = 10
    with _pair() as (near, far):
        assert chunks.send_to(near, 4) == 4
        assert chunks.send_to(near, 100) == 6
        assert Path(path).read_bytes().startswith(far.recv(100))


def test_a_file_that_lost_bytes_while_it_is_sent_is_corrupt(
    tmp_path: Path, blocks: LocalBlocks
) -> None:
    chunks = blocks.get(ADDRESS).chunks
    assert isinstance(chunks, FileChunks)
    (file,) = (each for each in tmp_path.rglob("*") if each.is_file() and each.stat().st_size == 5)
    os.truncate(file, 2)
    with _pair() as (near, far):
        assert chunks.send_to(near, 100) == 2
        with pytest.raises(Corrupt):
            chunks.send_to(near, 100)
        far.close()
        os.truncate(file, 5)
        with pytest.raises(ConnectionError):
            chunks.send_to(near, 100)


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENOTCONN])
def test_an_error_of_the_network_is_not_one_of_the_file(
    blocks: LocalBlocks, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, "injected")

    chunks = blocks.get(ADDRESS).chunks
    assert isinstance(chunks, FileChunks)
    monkeypatch.setattr(os, "sendfile", fail)
    with _pair() as (near, _), pytest.raises(ConnectionError):
        chunks.send_to(near, 100)


class _Near:
    """A socket that does not block."""

    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        self.descriptor = raw.fileno()


@contextmanager
def _pair() -> Iterator[tuple[_Near, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield _Near(near), far
