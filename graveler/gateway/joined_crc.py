"""The CRC of bytes that were joined, from the CRCs of the pieces and their lengths.

    crc(A B) = crc(A) · x^(8 · |B|) + crc(B)     modulo the generator

A CRC is a remainder of a division of polynomials over GF(2), so it is linear.  The equation also
holds for a CRC whose initial and final value are all ones, because the ones of A and B cancel out.
All three CRCs of S3 are such.

A CRC is an integer with its bits reflected: the highest bit is the coefficient of x^0.  The bytes
are not needed.  Pure.  For object_checksums.py.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple


class Generator(NamedTuple):
    """A generator of degree `width`.  `reflected`: its terms below that degree."""

    width: int
    reflected: int


GENERATORS: Final[Mapping[str, Generator]] = {
    "crc32": Generator(32, 0xEDB88320),
    "crc32c": Generator(32, 0x82F63B78),
    "crc64nvme": Generator(64, 0x9A6C9329AC4BC9B5),
}


def joined(generator: Generator, pieces: Iterable[tuple[int, int]]) -> int:
    """The CRC of the pieces, one after the other; a piece is a CRC and a length in bytes.

    Cost: for each piece a multiplication, and for each new length up to one more for each binary
    digit of the length.
    """
    crc = 0
    powers: dict[int, int] = {}
    for piece, length in pieces:
        if length not in powers:
            powers[length] = _power(generator, 8 * length)
        crc = _product(generator, crc, powers[length]) ^ piece
    return crc


def _power(generator: Generator, exponent: int) -> int:
    """x^exponent modulo the generator."""
    power = 1 << (generator.width - 1)
    for at in range(exponent.bit_length()):
        if exponent >> at & 1:
            power = _product(generator, power, _squared(generator, at))
    return power


@cache
def _squared(generator: Generator, times: int) -> int:
    """x, squared `times` times, modulo the generator."""
    if not times:
        return 1 << (generator.width - 2)
    root = _squared(generator, times - 1)
    return _product(generator, root, root)


def _product(generator: Generator, one: int, other: int) -> int:
    """The product of two remainders, modulo the generator."""
    width, reflected = generator
    product = 0
    for at in reversed(range(width)):
        if one >> at & 1:
            product ^= other
        other = (other >> 1) ^ (reflected if other & 1 else 0)  # times x
    return product
