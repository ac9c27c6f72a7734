"""CRC-64/NVME, which S3 calls CRC64NVME, without a library.

    generator   P = x^64 + 0xAD93D23594C93659, bits reflected, initial and final value all ones

Bytes are one integer: bit i is the coefficient of degree N - 1 - i of a polynomial of N bits.  The
loop over bytes is slow in Python, so a piece is made short first.  For a degree n, x^n is congruent
modulo P to polynomials of lower degree.  So all terms of degree n and more are replaced by terms of
lower degree, with one shift and one exclusive or for each term of such a polynomial.  The long ones
below have few terms, which a search has found; a remainder, of degree below 64, has more.  The
degrees are such that each makes the piece shorter by a third or more.  A piece of 256 KiB is
reduced to about 100 bytes, and a table does the rest.  A longer piece takes less time for a byte,
so small pieces are collected.

Pure.  For checksums.py.
"""

from functools import cache
from typing import Final

_REFLECTED: Final = 0x9A6C9329AC4BC9B5  # the generator without x^64, its bits reversed
_ALL: Final = 0xFFFFFFFFFFFFFFFF
_WORD: Final = 64
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
    return tuple(n for n in reversed(range(_WORD)) if polynomial >> n & 1)


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
        return self._crc.to_bytes(_WORD // 8, "big")

    def _take(self) -> None:
        self._crc = extend(self._crc, b"".join(self._held))
        self._held, self._held_length = [], 0


def extend(crc: int, raw: bytes) -> int:
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
        while (count := min(bits - degree, degree - highest) & ~7) >= _WORD:
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
