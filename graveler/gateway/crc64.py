"""CRC-64/NVME, which S3 calls CRC64NVME, without a library.

    generator   P = x^64 + 0xAD93D23594C93659, bits reflected, initial and final value all ones

Bytes are one integer: bit i is the coefficient of degree N - 1 - i of a polynomial of N bits.  The
loop over bytes is slow in Python, so a piece is made short first.  For a degree n, x^n is congruent
modulo P to a polynomial of degree below 64.  So all terms of degree n and more are replaced by
terms of lower degree, with one shift and one exclusive or for each bit of that polynomial.  The
degrees below halve the piece each time, and were chosen because x^n has few bits there.  A piece of
256 KiB is reduced to about 100 bytes, and a table does the rest.

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
_POWERS: Final = (
    (1_054_538, 0x20988020D0001205),
    (453_145, 0x41014340830344D),
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
    for degree, shifts in _shifts():
        # Terms of degree `degree` and more are the first bits; their replacements lie behind them.
        while (count := min(bits - degree, degree - _WORD) & ~7) >= _WORD:
            first = number & ((1 << count) - 1)
            product = 0
            for shift in shifts:
                product ^= first << shift
            number = (number >> count) ^ (product << (degree - _WORD + 1 - count))
            bits -= count
    return number, bits


@cache
def _shifts() -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Degrees, and the reversed positions of the bits of x^n."""
    return tuple(
        (degree, tuple(_WORD - 1 - bit for bit in range(_WORD) if power >> bit & 1))
        for degree, power in _POWERS
    )


@cache
def _table() -> tuple[int, ...]:
    """The state after each byte, from state 0."""
    return tuple(map(_of_byte, range(256)))


def _of_byte(byte: int) -> int:
    state = byte
    for _ in range(8):
        state = (state >> 1) ^ (_REFLECTED if state & 1 else 0)
    return state
