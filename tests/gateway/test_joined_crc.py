"""The CRC that follows from those of the pieces is the CRC of the joined bytes."""

import random
import zlib
from collections.abc import Callable

import google_crc32c
import pytest

from graveler.http.checksums import GENERATORS, crc_of_pieces, extend_crc64
from tests import draws

CRCS: dict[str, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc32c": google_crc32c.value,
    "crc64nvme": lambda raw: extend_crc64(0, raw),
}


@pytest.mark.parametrize("algorithm", CRCS)
def test_the_crc_of_joined_pieces_is_that_of_their_bytes(algorithm: str) -> None:
    seed = draws.seed()
    draw, crc = random.Random(seed), CRCS[algorithm]
    for _ in range(40):
        lengths = draw.choices(
            (0, 1, 2, 3, 7, 8, 64, 1_000, draw.randrange(20_000)), k=draw.randrange(8)
        )
        pieces = [draw.randbytes(length) for length in lengths]
        known = [(crc(piece), len(piece)) for piece in pieces]
        assert crc_of_pieces(GENERATORS[algorithm], known) == crc(b"".join(pieces)), lengths
        raw = b"".join(pieces)
        if raw:
            known[draw.randrange(len(known))] = (draw.randrange(1 << 32) ^ 1 << 31, 3)
            assert crc_of_pieces(GENERATORS[algorithm], known) != crc(raw), lengths


@pytest.mark.parametrize("algorithm", CRCS)
def test_the_order_and_the_lengths_of_pieces_matter(algorithm: str) -> None:
    generator, crc = GENERATORS[algorithm], CRCS[algorithm]
    one, other = (crc(b"one"), 3), (crc(b"other"), 5)
    assert crc_of_pieces(generator, [one, other]) == crc(b"oneother")
    assert crc_of_pieces(generator, [other, one]) == crc(b"otherone") != crc(b"oneother")
    assert crc_of_pieces(generator, [one, (other[0], 6)]) != crc(b"oneother")
    assert crc_of_pieces(generator, []) == crc(b"") == 0


@pytest.mark.parametrize("algorithm", CRCS)
def test_lengths_of_many_digits(algorithm: str) -> None:
    """A piece with the CRC 0 only multiplies the CRC before it, so it may be cut anywhere."""
    seed = draws.seed()
    draw, generator = random.Random(seed), GENERATORS[algorithm]
    size = 5 << 40
    first, half = draw.randrange(1, 1 << 32), draw.randrange(size)
    whole = crc_of_pieces(generator, [(first, 0), (0, size)])
    assert crc_of_pieces(generator, [(first, 0), (0, half), (0, size - half)]) == whole
    assert crc_of_pieces(generator, [(first, 0), (0, size - 1)]) != whole
