"""What a ref expression may look like."""

import random

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.refs.resolve import Expression, Modifier, parse


@pytest.mark.parametrize(
    ("text", "base", "modifiers"),
    [
        ("main", "main", []),
        ("v1.0", "v1.0", []),
        ("a/b", "a/b", []),
        ("ä", "ä", []),
        ("0" * 64, "0" * 64, []),
        ("main~", "main", [("~", 1)]),
        ("main~0", "main", [("~", 0)]),
        ("main~007", "main", [("~", 7)]),
        ("main~3", "main", [("~", 3)]),
        ("main^", "main", [("^", 1)]),
        ("main^0", "main", [("^", 0)]),
        ("main^2", "main", [("^", 2)]),
        ("main~~", "main", [("~", 1), ("~", 1)]),
        ("main^^2~4", "main", [("^", 1), ("^", 2), ("~", 4)]),
        ("main~2^2~1", "main", [("~", 2), ("^", 2), ("~", 1)]),
        ("main@", "main", [("@", 1)]),
        ("main@~1", "main", [("@", 1), ("~", 1)]),
        ("main$", "main", [("$", 1)]),
        ("main~10000000", "main", [("~", 10_000_000)]),
    ],
)
def test_well_formed(text: str, base: str, modifiers: list[tuple[str, int]]) -> None:
    assert parse(text) == Expression(base, tuple(Modifier(*each) for each in modifiers))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~1",
        "^",
        "@",
        "$",
        "main^x",
        "main~x",
        "main~1x",
        "main~-1",
        "main~ 1",
        "main~+1",
        "main~\u0661",
        "main~10000001",
        "main~" + "9" * 900,
        "main@1",
        "main@@",
        "main~1@",
        "main@{1}",
        "main$1",
        "main$$",
        "main$~1",
        "main~1$",
        "main@$",
        "a b",
        "a\tb",
        "a\0b",
        "a\x7fb",
        "a%20b",
        "a\ud800",
        "main\n",
        " main",
        "m" * 1_025,
        "main" + "~" * (limits.ref_modifier_count_max + 1),
    ],
)
def test_malformed_ones_are_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid, match=r"^ref "):
        parse(text)


def test_as_many_modifiers_as_allowed() -> None:
    assert len(parse("main" + "~" * limits.ref_modifier_count_max).modifiers) == 100


def test_any_text_is_parsed_or_refused() -> None:
    for seed in range(3_000):
        chance = random.Random(seed)
        text = "".join(chance.choices("ab0129~^@$%/. -\n\u00e9", k=chance.randint(0, 12)))
        try:
            found = parse(text)
        except Invalid:
            continue
        assert found.base and text.startswith(found.base), f"{seed=} {text=}"
        written = "".join(kind + str(number) for kind, number in found.modifiers)
        again = parse(found.base + written.replace("@1", "@").replace("$1", "$"))
        assert again == found, f"{seed=} {text=}"
