"""The MD5 of bytes on their way: with and without a thread, from pieces and through buffers."""

import io
from collections.abc import Callable
from hashlib import md5

import pytest

from graveler.client.digest import Digest, Pipeline
from tests.waiting import until

LENGTHS = (0, 1, 131_071, 131_072, 131_073, 262_145, (4 << 20) - 1, 4 << 20, (5 << 20) + 7)


def content(length: int) -> bytes:
    """Bytes of which no two pieces are the same."""
    return b"".join(number.to_bytes(4, "big") for number in range(length // 4 + 1))[:length]


@pytest.mark.parametrize("length", LENGTHS)
def test_what_is_taken_is_hashed_and_handed_out(length: int) -> None:
    whole, taken = content(length), bytearray()
    source = io.BytesIO(whole)
    with Digest(length) as digest:
        while piece := digest.take(source.readinto):
            taken += piece
        assert digest.hexdigest() == md5(whole).hexdigest()
    assert taken == whole


@pytest.mark.parametrize("length", LENGTHS)
def test_buffers_are_used_again(length: int) -> None:
    seen: set[int] = set()
    source = io.BytesIO(content(length))

    def read_into(buffer: memoryview) -> int:
        seen.add(id(buffer.obj))
        kept.append(buffer.obj)  # so that no other buffer gets the same id
        return source.readinto(buffer)

    kept: list[object] = []
    with Digest(length) as digest:
        while digest.take(read_into):
            pass
    assert len(seen) <= 16 and len(kept) == -(-length // (1 << 17)) + 1


def test_a_content_that_is_longer_than_it_was_said_is_not_read_in_bytes() -> None:
    source = io.BytesIO(content(4_096))
    with Digest(0) as digest:
        assert len(digest.take(source.readinto)) == 4_096


def test_pieces_and_buffers_mix_in_order() -> None:
    whole = content(6 << 20)
    source = io.BytesIO(whole[1_000_000:])
    with Digest(len(whole)) as digest:
        digest.update(whole[:1_000_000])
        while digest.take(source.readinto):
            pass
        assert digest.hexdigest() == md5(whole).hexdigest()


@pytest.mark.parametrize("length", [10, 5 << 20])
def test_a_buffer_that_could_not_be_filled_is_free_again(length: int) -> None:
    def broken(buffer: memoryview) -> int:
        raise OSError("reset")

    with Digest(length) as digest:
        for _ in range(20):
            with pytest.raises(OSError, match="reset"):
                digest.take(broken)
        assert digest.take(io.BytesIO(b"abc").readinto) == b"abc"
        assert digest.hexdigest() == md5(b"abc").hexdigest()


@pytest.mark.parametrize("length", [10, 8 << 20])
def test_an_error_of_the_use_ends_the_pieces(length: int) -> None:
    """Also if it comes in the second thread, and while the caller waits for a free buffer."""
    used: list[int] = []

    def use(piece: bytes | memoryview) -> None:
        used.append(len(piece))
        if len(used) == 2:
            raise OSError(28, "No space left on device")

    def taken() -> None:
        with Pipeline(use, length) as pieces:
            while pieces.take(lambda buffer: len(buffer)):
                pass

    with pytest.raises(OSError, match="No space left"):
        taken()
    assert len(used) == 2


@pytest.mark.parametrize("length", [10, 8 << 20])
def test_nothing_is_read_after_an_error(length: int) -> None:
    def use(piece: bytes | memoryview) -> None:
        raise OSError(28, "No space left on device")

    def fails(read_into: Callable[[memoryview], int]) -> bool:
        try:
            pieces.take(read_into)
        except OSError as error:
            return error.errno == 28
        return False

    with pytest.raises(KeyError), Pipeline(use, length) as pieces:
        until(lambda: fails(len), "the error")
        for _ in range(40):  # more often than there are buffers
            assert fails(lambda _: pytest.fail("it was read"))
        raise KeyError


def test_an_error_of_the_last_piece_is_raised_at_the_end() -> None:
    def use(piece: bytes | memoryview) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"), Pipeline(use, 8 << 20) as pieces:
        pieces.add(b"a")
    with (
        pytest.raises(KeyError),  # what the caller raised goes first
        Pipeline(use, 8 << 20) as pieces,
    ):
        pieces.add(b"a")
        raise KeyError


def test_all_is_used_when_the_block_ends() -> None:
    used: list[bytes] = []
    with Pipeline(lambda piece: used.append(bytes(piece)), 8 << 20) as pieces:
        for number in range(100):
            pieces.add(b"%d" % number)
    assert used == [b"%d" % number for number in range(100)]
