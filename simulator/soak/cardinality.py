"""Counts distinct numbers approximately, in a few kilobytes (HyperLogLog).

For tests only.
"""

import math

_BITS = 14
_REGISTERS = 1 << _BITS
_MASK = (1 << 64) - 1


class DistinctCount:
    """A counter with an error of about 1 % (one standard deviation)."""

    def __init__(self) -> None:
        self._longest = bytearray(_REGISTERS)

    def add(self, number: int) -> None:
        """Count a number of 64 bits, if it is new."""
        mixed = _mixed(number)
        at, rest = mixed >> (64 - _BITS), mixed & ((1 << (64 - _BITS)) - 1)
        zeros = 64 - _BITS - rest.bit_length() + 1
        if zeros > self._longest[at]:
            self._longest[at] = zeros

    def estimate(self) -> int:
        """The estimated number of distinct numbers."""
        total = sum(2.0**-each for each in self._longest)
        found = 0.7213 / (1 + 1.079 / _REGISTERS) * _REGISTERS**2 / total
        empty = self._longest.count(0)
        if found <= 2.5 * _REGISTERS and empty:
            found = _REGISTERS * math.log(_REGISTERS / empty)
        return round(found)


def _mixed(number: int) -> int:
    """A 64-bit hash in which every bit depends on every bit of the number (splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31
