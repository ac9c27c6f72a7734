"""Bodies that are counted and hashed: short and long, broken off, and without a thread."""

import hashlib
import random
import threading
from collections.abc import Iterator

import pytest

from graveler.block.bodies import MeasuredBody

MIB = 1024 * 1024


def some_chunks(seed: int, size: int) -> list[bytes]:
    """Chunks of various lengths, empty ones among them, of about `size` bytes."""
    chance = random.Random(seed)
    chunks: list[bytes] = []
    while sum(map(len, chunks)) < size:
        chunks.append(chance.randbytes(chance.choice((0, 1, 1_000, 65_536, 300_000))))
    return chunks


def hashers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "md5"]


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 5 * MIB])
def test_every_body_has_its_size_and_its_md5(size: int) -> None:
    chunks = some_chunks(size, size)
    body = MeasuredBody(chunks)
    assert list(body) == chunks
    whole = b"".join(chunks)
    assert (body.size, body.checksum) == (len(whole), hashlib.md5(whole).hexdigest())
    assert hashers() == []


def test_the_checksum_is_that_of_the_bytes_read_so_far() -> None:
    body, digest = MeasuredBody(some_chunks(1, 4 * MIB)), hashlib.md5()
    for chunk in body:
        digest.update(chunk)
        assert body.checksum == digest.hexdigest()


def test_a_body_that_fails_or_is_left_ends_its_thread() -> None:
    def failing() -> Iterator[bytes]:
        yield from some_chunks(2, 3 * MIB)
        raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        list(MeasuredBody(failing()))
    assert hashers() == []
    reading = iter(MeasuredBody(some_chunks(3, 4 * MIB)))
    for _ in range(12):
        next(reading)
    del reading
    assert hashers() == []


def test_a_system_that_starts_no_thread_hashes_in_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    chunks = some_chunks(4, 3 * MIB)
    body = MeasuredBody(chunks)
    assert list(body) == chunks
    assert body.checksum == hashlib.md5(b"".join(chunks)).hexdigest()
