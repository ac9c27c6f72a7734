"""CRC-64/NVME without a library, and the CRC of joined pieces from their CRCs.  Pure.

The aws cli sends CRC-64/NVME by default from its version 2 on.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

_REFLECTED: Final = 0x9A6C9329AC4BC9B5  # the generator without x^64, its bits reversed
_ALL: Final = 0xFFFFFFFFFFFFFFFF
_CRC64_BITS: Final = 64
_PIECE_LENGTH_MAX: Final = 256 * 1024
_TABLE_BITS: Final = 1_024  # a shorter piece is left to the table

# Degrees n, and x^n modulo P.
_REMAINDERS: Final = (
    (282_936, 0x4631065112031),
    (127_554, 0xA544028018087641),
    (63_550, 0x848C584182640801),
    (31_805, 0x8AE24057008047),
    (17_190, 0x5225904009A02A91),
    (7_468, 0x8C828906FA40009),
    (4_657, 0x94530B96104C059),
    (1_903, 0x882C2AA40A80E003),
    (1_046, 0x9D11C08004D0C0AF),
    (510, 0x2D10539A81221223),
)


def _degrees(polynomial: int) -> tuple[int, ...]:
    """The degrees of its terms, the highest first."""
    return tuple(n for n in reversed(range(_CRC64_BITS)) if polynomial >> n & 1)


# Degrees n, and the degrees of the terms of a polynomial that x^n is congruent to modulo P.
_CONGRUENCES: Final = (
    (1_315_786, (368_897, 226_873, 20_099, 0)),
    (871_968, (269_549, 124_955, 107_064, 0)),
    (597_203, (153_516, 97_343, 66_087, 0)),
    *((degree, _degrees(remainder)) for degree, remainder in _REMAINDERS),
)


class Crc64:
    """The CRC of bytes that come in pieces, as `hashlib` has digests."""

    def __init__(self) -> None:
        self._crc = 0
        self._held: list[bytes] = []
        self._held_length = 0

    def update(self, piece: bytes, /) -> None:
        """Add the next bytes."""
        self._held.append(piece)
        self._held_length += len(piece)
        if self._held_length >= _PIECE_LENGTH_MAX:
            self._take()

    def digest(self) -> bytes:
        """The CRC of the bytes so far, in 8 bytes."""
        self._take()
        return self._crc.to_bytes(_CRC64_BITS // 8, "big")

    def _take(self) -> None:
        self._crc = extend_crc64(self._crc, b"".join(self._held))
        self._held, self._held_length = [], 0


def extend_crc64(crc: int, raw: bytes) -> int:
    """The CRC of bytes of which the first have `crc`, and the rest is `raw`; 0 begins one."""
    state = crc ^ _ALL
    for at in range(0, len(raw), _PIECE_LENGTH_MAX):
        state = _extended(state, raw[at : at + _PIECE_LENGTH_MAX])
    return state ^ _ALL


def _extended(state: int, piece: bytes) -> int:
    """The state after a piece."""
    bits = len(piece) * 8
    if bits >= _TABLE_BITS:
        # The state counts as if it were added to the first bytes.
        number, bits = _reduced(int.from_bytes(piece, "little") ^ state, bits)
        piece, state = number.to_bytes(bits // 8, "little"), 0
    table = _table()
    for byte in piece:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


def _reduced(number: int, bits: int) -> tuple[int, int]:
    """A congruent polynomial of fewer bits, and how many: a multiple of 8, as before."""
    for degree, (highest, *others) in _CONGRUENCES:
        # Terms of degree `degree` and more are the first bits; their replacements lie behind them.
        while (count := min(bits - degree, degree - highest) & ~7) >= _CRC64_BITS:
            first = number & ((1 << count) - 1)
            product = first
            for other in others:
                product ^= first << (highest - other)
            number = (number >> count) ^ (product << (degree - highest - count))
            bits -= count
    return number, bits


@cache
def _table() -> tuple[int, ...]:
    """The state after each byte, from state 0."""
    return tuple(map(_of_byte, range(256)))


def _of_byte(byte: int) -> int:
    state = byte
    for _ in range(8):
        state = (state >> 1) ^ (_REFLECTED if state & 1 else 0)
    return state


# ---- joined pieces -------------------------------------------------------------------------------


class Generator(NamedTuple):
    """A generator of degree `width`.  `reflected`: its terms below that degree."""

    width: int
    reflected: int


GENERATORS: Final[Mapping[str, Generator]] = {
    "crc32": Generator(32, 0xEDB88320),
    "crc32c": Generator(32, 0x82F63B78),
    "crc64nvme": Generator(64, 0x9A6C9329AC4BC9B5),
}


def crc_of_pieces(generator: Generator, pieces: Iterable[tuple[int, int]]) -> int:
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
