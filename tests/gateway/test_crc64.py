"""CRC-64/NVME is that of its definition, bit by bit, for any bytes in any pieces."""

import platform
import random
import subprocess
import sys

import pytest

from graveler.http.checksums import _CONGRUENCES, Crc64, extend_crc64
from tests import draws

GENERATOR = 1 << 64 | 0xAD93D23594C93659


def by_bits(raw: bytes) -> int:
    """The CRC by its definition: a division of polynomials."""
    state = (1 << 64) - 1
    for byte in raw:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (int(f"{GENERATOR & (1 << 64) - 1:064b}"[::-1], 2)
                                    if state & 1 else 0)  # fmt: skip
    return state ^ ((1 << 64) - 1)


def power(exponent: int) -> int:
    """x^exponent modulo the generator."""
    result = 1
    for bit in f"{exponent:b}":
        square = 0
        for at in range(64):
            if result >> at & 1:
                square ^= 1 << 2 * at
        square <<= bit == "1"
        for at in range(128, 63, -1):
            if square >> at & 1:
                square ^= GENERATOR << (at - 64)
        result = square
    return result


def test_the_published_check_value() -> None:
    assert extend_crc64(0, b"123456789") == by_bits(b"123456789") == 0xAE8B14860A799888
    assert extend_crc64(0, b"") == 0


def test_the_congruences_are_those_of_the_generator() -> None:
    for degree, terms in _CONGRUENCES:
        replaced = 0
        for term in terms:
            replaced ^= power(term)
        assert power(degree) == replaced
        assert list(terms) == sorted(terms, reverse=True)


@pytest.mark.parametrize("length", [1, 7, 8, 127, 128, 129, 300, 1_000, 5_000])
def test_long_and_short_bytes_have_the_crc_of_their_bits(length: int) -> None:
    seed = draws.seed()
    raw = random.Random(seed).randbytes(length)
    assert extend_crc64(0, raw) == by_bits(raw)
    assert extend_crc64(0, bytes(length)) == by_bits(bytes(length))


@pytest.mark.parametrize("length", [65_536, 262_143, 262_144, 262_145, 524_288, 700_001])
def test_pieces_of_any_length_give_the_same_crc(length: int) -> None:
    """Small pieces meet other congruences than large ones."""
    seed = draws.seed()
    draw = random.Random(seed)
    raw = draw.randbytes(length)
    whole, by_piece, at = extend_crc64(0, raw), 0, 0
    collected = Crc64()
    while at < length:
        end = at + draw.choice((1, 63, 100, 127, 4_000, 70_000))
        by_piece = extend_crc64(by_piece, raw[at:end])
        collected.update(raw[at:end])
        if draw.random() < 0.1:
            assert collected.digest() == by_piece.to_bytes(8, "big")
        at = end
    assert whole == by_piece == int.from_bytes(collected.digest(), "big")
    assert extend_crc64(0, raw[:-1] + bytes([raw[-1] ^ 1])) != whole


# Counts the pages that the kernel clears while one thread computes the CRC of 16 MiB.
_FAULTS = """
import resource
from graveler.cli.support import host
from graveler.http.checksums import Crc64

host.share_heap()  # as a service does

faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
pieces = [b"x" * (1 << 20)] * 16
warm = Crc64()
warm.update(pieces[0])
before, crc = faults(), Crc64()
for piece in pieces:
    crc.update(piece)
crc.digest()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about the allocator of glibc")
def test_pieces_share_their_memory() -> None:
    """Else each of the 64 pieces would meet more than 100 fresh pages."""
    command = [sys.executable, "-c", _FAULTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 16
