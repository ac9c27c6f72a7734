"""Parses ref expressions: the texts by which users name commits.

    expression  =  base  modifiers            main   v1.0   4f1c…(an id or a unique prefix of one)
    modifier    =  ~[n]   n first parents back (1 without a number)            main~3
                |  ^[n]   the n-th parent; ^0 is the commit itself              main^2
                |  @      the branch's head, without uncommitted changes        main@   main@~1
                |  $      the branch with its uncommitted changes               main$
    `@` may stand once, directly behind the base; `$` must be the only modifier.

Parsing looks nothing up; `resolve` finds the names.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple, cast

from graveler import limits
from graveler.errors import Invalid

ModifierKind = Literal["~", "^", "@", "$"]

_MODIFIER = re.compile(r"([~^@$])([0-9]*)", re.ASCII)
_FORBIDDEN = re.compile(r"[\s%\x00-\x1f\x7f\ud800-\udfff]")
_KEPT = 1_024  # expressions
_NUMBER_LENGTH_MAX = len(str(limits.ref_distance_max))


class Modifier(NamedTuple):
    """One modifier of an expression.  `number` has no meaning for `@` and `$`."""

    kind: ModifierKind
    number: int


class Expression(NamedTuple):
    """A base name and its modifiers, in order."""

    base: str
    modifiers: tuple[Modifier, ...] = ()


@lru_cache(maxsize=_KEPT)
def parse(text: str) -> Expression:
    """The parts of `text`.  Recent results are cached.  Raises `Invalid`, which names the ref, if
    `text` is malformed."""
    if len(text) > limits.ref_length_max:
        raise Invalid(
            f"ref is too long: at most {limits.ref_length_max} characters: length={len(text)}"
        )
    if _FORBIDDEN.search(text):
        raise _malformed(text, "it must have no white space, no control character and no '%'")
    cut = re.search(r"[~^@$]", text)
    base = text[: cut.start()] if cut else text
    if not base:
        raise _malformed(text, "it must begin with a branch, a tag or a commit id")
    modifiers = _modifiers(text, len(base))
    _check_order(text, modifiers)
    return Expression(base, modifiers)


def _modifiers(text: str, start: int) -> tuple[Modifier, ...]:
    modifiers: list[Modifier] = []
    at = start
    while at < len(text):
        match = _MODIFIER.match(text, at)
        if match is None:
            raise _malformed(text, "a modifier is ~, ^, @ or $, and ~ and ^ may have a number")
        kind = cast(ModifierKind, match[1])
        if len(modifiers) == limits.ref_modifier_count_max:
            raise _malformed(text, f"at most {limits.ref_modifier_count_max} modifiers")
        modifiers.append(Modifier(kind, _number(text, kind, match[2])))
        at = match.end()
    return tuple(modifiers)


def _number(text: str, kind: ModifierKind, digits: str) -> int:
    if not digits:
        return 1
    if kind in "@$":
        raise _malformed(text, f"'{kind}' takes no number")
    # Check the length first: converting a huge number of digits is slow.
    if len(digits.lstrip("0")) > _NUMBER_LENGTH_MAX or int(digits) > limits.ref_distance_max:
        raise _malformed(text, f"a modifier's number is at most {limits.ref_distance_max}")
    return int(digits)


def _check_order(text: str, modifiers: tuple[Modifier, ...]) -> None:
    kinds = [modifier.kind for modifier in modifiers]
    if "$" in kinds and len(kinds) > 1:
        raise _malformed(text, "'$' must be the only modifier")
    if "@" in kinds[1:]:
        raise _malformed(text, "'@' must come once, directly after the name")


def _malformed(text: str, rule: str) -> Invalid:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return Invalid(f"ref invalid: {rule}: ref={shown!r}")
