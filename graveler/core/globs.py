"""Globs: `*` matches any number of characters, `?` exactly one, everything else itself.

    repository/*/object/a?c*      words: "repository/", "/object/a?c", ""
                                  the first at the start, the last at the end, the others
                                  in between, each as early as it can be

A word without `?` is placed by `str.find`; one with `?` by bits, one for each character of the
text.  The time grows linearly with the text, and with the pattern.  No regular expression is made
from what users write.
"""

from functools import lru_cache
from typing import Final, NamedTuple

_SEARCH_WEIGHT: Final = 300  # of a word with `?`, in a long text


class Glob(NamedTuple):
    """A pattern, split at its stars.  Without a star there is one word."""

    words: tuple[str, ...]

    def matches(self, text: str) -> bool:
        """Whether the whole text has the pattern."""
        first, last = self.words[0], self.words[-1]
        if len(self.words) == 1:
            return len(text) == len(first) and _is_at(first, text, 0)
        end = len(text) - len(last)
        if end < len(first) or not _is_at(first, text, 0) or not _is_at(last, text, end):
            return False
        at = len(first)
        for word in self.words[1:-1]:
            place = _find(word, text, at, end)
            if place < 0:
                return False
            at = place + len(word)
        return True

    @property
    def weight(self) -> int:
        """How long a match takes, where 1 is one without a search for a word with `?`."""
        return 1 + _SEARCH_WEIGHT * sum("?" in word for word in self.words[1:-1])

    def covers(self, head: str) -> bool:
        """Whether every text that begins with `head` has the pattern, because it ends in a star."""
        return len(self.words) > 1 and not self.words[-1] and self.matches(head)

    def reaches(self, head: str) -> bool:
        """Whether at least one text that begins with `head` has the pattern."""
        first = self.words[0]
        shared = min(len(first), len(head))
        can_go_on = len(self.words) > 1 or len(head) <= len(first)
        return can_go_on and _is_at(first[:shared], head, 0)


@lru_cache(maxsize=4_096)
def glob(pattern: str) -> Glob:
    """The glob of a pattern."""
    return Glob(tuple(pattern.split("*")))


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text has the pattern."""
    return glob(pattern).matches(text)


def _is_at(word: str, text: str, at: int) -> bool:
    if "?" not in word:
        return text.startswith(word, at)
    return all(
        letter in ("?", char) for letter, char in zip(word, text[at : at + len(word)], strict=True)
    )


def _find(word: str, text: str, start: int, end: int) -> int:
    """The first place of `word` in text[start:end]; -1 if there is none."""
    if "?" not in word:
        return text.find(word, start, end)
    count = end - start - len(word) + 1  # places where the word may begin
    if count <= 0:
        return -1
    begins = (1 << count) - 1  # bit n: the word may begin n characters behind the start
    for number, char in enumerate(word):
        if char != "?":
            begins &= _places(text, char) >> start + number
            if not begins:
                return -1
    return start + (begins & -begins).bit_length() - 1


@lru_cache(maxsize=1_024)
def _places(text: str, char: str) -> int:
    """Where a text has a character: bit n stands for its character n."""
    return int(text[::-1].translate(_Bits({ord(char): "1"})), 2)


class _Bits(dict[int, str]):
    """A table that translates every other character to 0."""

    def __missing__(self, key: int) -> str:
        self[key] = "0"
        return "0"
