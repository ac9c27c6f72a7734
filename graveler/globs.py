"""Globs: patterns in which `*` stands for any text and `?` for any one character.

Every other character stands for itself; no character escapes another.  A match takes a step for
each character of the text, whatever the pattern is: the states of the matcher are the bits of one
number.  So no pattern makes a match slow.  Pure; every module may import this.
"""

from functools import lru_cache
from typing import Final, NamedTuple

_COMPILED_COUNT_MAX: Final = 4_096


class _Automaton(NamedTuple):
    """Bit n of a state: the first n characters of the pattern, not counting `*`, have matched.

    `accepts`: for a character, the bits of the positions that it can move on.  `anything`: the same
    for a character that the pattern does not contain.  `loops`: the bits that any character keeps,
    because a `*` stands there.  `end`: the bit of a whole match.
    """

    accepts: dict[str, int]
    anything: int
    loops: int
    end: int


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == text
    accepts, anything, loops, end = _compiled(pattern)
    state = 1
    for character in text:
        state = (state & accepts.get(character, anything)) << 1 | state & loops
        if not state:
            return False
    return bool(state & end)


@lru_cache(_COMPILED_COUNT_MAX)
def _compiled(pattern: str) -> _Automaton:
    anything = loops = 0
    places: dict[str, int] = {}
    bit = 1
    for character in pattern:
        if character == "*":
            loops |= bit
            continue
        if character == "?":
            anything |= bit
        else:
            places[character] = places.get(character, 0) | bit
        bit <<= 1
    accepts = {character: bits | anything for character, bits in places.items()}
    return _Automaton(accepts, anything, loops, bit)
