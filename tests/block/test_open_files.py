"""Files that stay open: fewer calls of the system, and never the bytes of a name that is gone."""

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from graveler.block.adapter import FileChunks
from graveler.block.local import LocalBlocks
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, NotFound
from tests.support.block_suite import content

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


def test_a_table_that_was_cut_off_is_corrupt(blocks: LocalBlocks, tmp_path: Path) -> None:
    blocks.put(TABLE, [b"0123456789"])
    assert blocks.read(TABLE, 0, 1) == b"0"
    os.truncate(tmp_path / "lake" / "ns" / "_lakefs" / f"{7:064x}", 5)
    with pytest.raises(Corrupt):
        blocks.read(TABLE, 3, 4)


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
