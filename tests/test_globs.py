"""Globs match what they say, and take no longer for hostile patterns."""

import random
import time
from collections.abc import Iterator
from itertools import product

import pytest

from graveler.core.globs import glob, matches
from tests import draws
from tests.auth import naive


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", [""], ["a"]),
        ("*", ["", "a", "a/b"], []),
        ("a", ["a"], ["", "aa", "A"]),
        ("a*", ["a", "ab"], ["", "ba"]),
        ("*a", ["a", "ba"], ["", "ab"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("?", ["a", "é", "\U0001f600"], ["", "ab"]),
        ("a?c*", ["abc", "a?cd"], ["ac", "abd"]),
        ("*a?b*a*", ["axba", "zaabaa"], ["aba", "axb"]),
        ("[ab]", ["[ab]"], ["a"]),
        ("a.c", ["a.c"], ["abc"]),
        ("*??", ["ab", "abc"], ["a"]),
        ("*a?c*", ["xxabcxx", "aacc", "é\U0001f600a\U0001f600c"], ["ac", "abxc", "cba"]),
    ],
)
def test_a_glob_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    assert all(glob(pattern).matches(text) for text in matching)
    assert not any(glob(pattern).matches(text) for text in others)


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


def test_random_globs_match_as_by_trying_everything() -> None:
    seed = draws.seed()
    chance = random.Random(seed)
    hits = 0
    for _ in range(20_000):
        pattern = "".join(chance.choices("ab*?", k=chance.randint(0, 8)))
        text = "".join(chance.choices("ab", k=chance.randint(0, 8)))
        hits += (found := glob(pattern).matches(text))
        assert found is naive.like(pattern, text), (pattern, text)
    assert hits > 1_000


def test_a_glob_reaches_and_covers_what_begins_with_a_text_as_by_trying_all_texts() -> None:
    rests = ["".join(each) for length in range(6) for each in product("abc", repeat=length)]
    seen = set()
    for pattern in map("".join, product("ab*?", repeat=4)):
        for head in ("", "a", "ab", "abba"):
            matching = [glob(pattern).matches(head + rest) for rest in rests]
            assert glob(pattern).reaches(head) is any(matching), (pattern, head)
            # A text that ends in no star covers nothing, even if nothing shorter is missing.
            ends = pattern.endswith("*")
            assert glob(pattern).covers(head) is (all(matching) and ends), (pattern, head)
            seen.add((any(matching), all(matching)))
    assert len(seen) == 3


def hostile() -> Iterator[tuple[str, str]]:
    """Patterns on which a matcher that tries again takes quadratic or exponential time."""
    text = "a" * 64_000
    for word in ("a", "?", "a?", "aa?b", "?" * 50 + "b", "a" * 600 + "?b"):
        for count in (1, 10, 1_000):
            yield "*" + (word + "*") * count, text
            yield "*" + (word + "*") * count + "b", text
    yield "a*" * 5_000, text
    yield "*" * 10_000, text


def test_hostile_patterns_take_no_time() -> None:
    begun = time.process_time()
    for pattern, text in hostile():
        glob(pattern).matches(text)
    assert time.process_time() - begun < 10
