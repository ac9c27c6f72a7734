"""JSON bodies: what is accepted, and the place and the rule that a refusal names."""

from typing import Annotated, Literal

import pytest
from msgspec import UNSET, Meta, UnsetType, field

from graveler.api.answers import WHOLE, Integer, Pairs
from graveler.api.input import body_reader, may_lack
from graveler.api.operation import Body
from graveler.core.errors import Invalid


class Part(Body, frozen=True):
    """A part."""

    number: Annotated[int, Meta(ge=1, le=9)]


class Thing(Body, frozen=True):
    """A thing."""

    name: str
    kind: Literal["small", "large"] = "small"
    is_new: bool = field(default=False, name="new")
    count: Integer = 0
    pairs: Pairs = field(default_factory=dict)
    parts: Annotated[tuple[Part, ...], Meta(max_length=2)] = ()
    code: Annotated[str, Meta(pattern="^[a-z]{2}$" + WHOLE)] = "aa"
    note: Annotated[str, Meta(min_length=1, max_length=3)] = "n"
    first: Part | UnsetType = UNSET
    sides: dict[str, Literal["left", "right"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name == "never":
            raise Invalid("name invalid: it must be another")


READ = body_reader(Thing)


def test_defaults_stand_for_what_is_absent() -> None:
    assert READ(b'{"name": "a"}') == Thing("a")


def test_unknown_fields_are_ignored() -> None:
    assert READ(b'{"name": "a", "more": {"x": [null]}}') == Thing("a")


@pytest.mark.parametrize("name", ["kind", "new", "count", "pairs", "parts", "code", "first"])
def test_null_for_an_optional_field_means_that_it_is_absent(name: str) -> None:
    assert READ(b'{"name": "a", "%s": null}' % name.encode()) == Thing("a")


def test_an_integer_may_have_a_point() -> None:
    body = READ(b'{"name": "a", "count": 3.0, "parts": [{"number": 2.0}], "more": 1.5}')
    assert body == Thing("a", count=3, parts=(Part(2),))


def test_a_body_may_lack_if_all_fields_are_optional() -> None:
    class Options(Body, frozen=True):
        """Options."""

        force: bool = False

    assert may_lack(Options)
    assert not may_lack(Thing)


@pytest.mark.parametrize(
    ("raw", "where", "rule"),
    [
        ("{}", "/name", 'property "name" is missing'),
        ('{"name": null}', "/name", 'property "name" is missing'),
        ('{"name": 7}', "/name", "value must be a string"),
        ('{"name": "a", "kind": "huge"}', "/kind", 'one of the allowed values ["large", "small"]'),
        ('{"name": "a", "kind": 1}', "/kind", "value must be a string"),
        ('{"name": "a", "new": "no"}', "/new", "value must be a boolean"),
        ('{"name": "a", "new": 1}', "/new", "value must be a boolean"),
        ('{"name": "a", "count": true}', "/count", "value must be an integer"),
        ('{"name": "a", "count": 1.5}', "/count", "value must be an integer"),
        ('{"name": "a", "count": 1e300}', "/count", "number must be at most 9223372036854775807"),
        ('{"name": "a", "count": -1e30}', "/count", "must be at least -9223372036854775808"),
        ('{"name": "a", "count": 9223372036854775808}', "/count", "at most 9223372036854775807"),
        ('{"name": "a", "pairs": []}', "/pairs", "value must be an object"),
        ('{"name": "a", "pairs": {"j": "", "k": 1}}', "/pairs/k", "value must be a string"),
        ('{"name": "a", "pairs": {"k": null}}', "/pairs/k", "value must be a string"),
        ('{"name": "a", "parts": {}}', "/parts", "value must be an array"),
        ('{"name": "a", "parts": [{}]}', "/parts/0/number", 'property "number" is missing'),
        ('{"name": "a", "parts": [{"number": 1}, {"number": 10}]}', "/parts/1/number", "most 9"),
        ('{"name": "a", "parts": [null]}', "/parts/0", "value must be an object"),
        (
            '{"name": "a", "parts": [{"number": 1}, {"number": 1}, {"number": 1}]}',
            "/parts",
            "array must have at most 2 items",
        ),
        ('{"name": "a", "code": "abc"}', "/code", 'the regular expression "^[a-z]{2}$"'),
        ('{"name": "a", "code": "ab\\n"}', "/code", 'the regular expression "^[a-z]{2}$"'),
        ('{"name": "a", "note": ""}', "/note", "string must have at least 1 characters"),
        ('{"name": "a", "note": "long"}', "/note", "string must have at most 3 characters"),
        ('{"name": "a", "first": {"number": 0}}', "/first/number", "number must be at least 1"),
        (
            '{"name": "a", "sides": {"a": "left", "b": "up"}}',
            "/sides/b",
            'one of the allowed values ["left", "right"]',
        ),
        ("[]", "/", "value must be an object"),
        ("null", "/", "value must be an object"),
    ],
)
def test_a_refusal_names_the_place_and_the_rule(raw: str, where: str, rule: str) -> None:
    with pytest.raises(Invalid) as refusal:
        READ(raw.encode())
    start = "request body has an error: doesn't match schema #/components/schemas/Thing: Error at "
    assert str(refusal.value).startswith(f'{start}"{where}": ')
    assert rule in str(refusal.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"x": ' + b"[" * 100_000,
        b"{} x",
        b"NaN",
    ],
)
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid, match="request body has an error: it must be JSON"):
        READ(raw)


def test_the_rules_of_a_type_hold_at_the_first_and_at_the_second_look() -> None:
    for raw in (b'{"name": "never"}', b'{"name": "never", "new": null}'):
        with pytest.raises(Invalid, match="it must be another"):
            READ(raw)
