"""Globs against a naive matcher, and on patterns that make backtracking matchers slow."""

import random

import pytest

from graveler.globs import matches


def naive(pattern: str, text: str) -> bool:
    """By definition, with a table over prefixes."""
    row = [True] + [False] * len(text)
    for character in pattern:
        after = [row[0] and character == "*"]
        for position, letter in enumerate(text):
            if character == "*":
                after.append(row[position + 1] or after[position])
            else:
                after.append(row[position] and character in ("?", letter))
        row = after
    return row[-1]


@pytest.mark.parametrize(
    ("pattern", "text", "matched"),
    [
        ("main", "main", True),
        ("main", "mainly", False),
        ("*", "", True),
        ("?", "", False),
        ("", "", True),
        ("", "a", False),
        ("release-*", "release-", True),
        ("release-*", "release", False),
        ("*-?", "a-b", True),
        ("*-?", "a-bc", False),
        ("a**b", "ab", True),
        ("[a]", "a", False),
        ("[a]", "[a]", True),
        ("a.c", "abc", False),
        ("ü?", "üß", True),
    ],
)
def test_a_pattern_and_a_text(pattern: str, text: str, matched: bool) -> None:
    assert matches(pattern, text) is matched
    assert naive(pattern, text) is matched


def test_random_patterns_match_as_the_definition_says() -> None:
    chance = random.Random(1)
    matched = 0
    for _ in range(5_000):
        pattern = "".join(chance.choices("ab*?", k=chance.randrange(9)))
        text = "".join(chance.choices("abc", weights=(5, 5, 1), k=chance.randrange(9)))
        assert matches(pattern, text) is naive(pattern, text), (pattern, text)
        matched += matches(pattern, text)
    assert 500 < matched < 4_500


def test_a_text_is_looked_at_once() -> None:
    class Counted(str):
        steps = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            for character in str(self):
                Counted.steps += 1
                yield character

    text = Counted("a" * 255)
    for pattern in ("*a" * 100 + "b", "a*" * 100 + "b", "*?" * 100 + "b", "?*" * 127 + "b"):
        Counted.steps = 0
        assert not matches(pattern, text)
        assert Counted.steps <= len(text)
