"""Pieces of Python source: found by structure, and replaced.

A piece is source text: one expression, or statements that follow each other.  Layout, comments and
the place in the file do not count.  In a piece these placeholders stand for something else:

    ...                        any expression; as a statement: any statements, or none;
                               as an argument of a call: any arguments, or none
    __name__                   as `...`, and the replacement repeats what was found
    *__name__                  in a call: any arguments, or none, and the replacement repeats them
    __old__                    in the replacement: everything that was found

A placeholder that stands twice must stand for the same.
"""

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent
from typing import NamedTuple

Found = Mapping[str, object]
_PLACEHOLDER = re.compile(r"__[a-z_]+__")
_IGNORED = frozenset(("ctx", "kind", "type_comment"))


class NoVariant(Exception):
    """The edit makes no variant: its piece does not stand exactly once where it is looked for, the
    edit changes nothing, or it is not a valid one.

    No `AssertionError`: a test that expects one of a variant must not pass without the variant.
    """


class _Arguments(NamedTuple):
    """What a placeholder for arguments stands for."""

    args: list[ast.expr]
    keywords: list[ast.keyword]


class _Match(NamedTuple):
    """Elements `first` to `last` (not included) of a list, or a single node without a list."""

    holder: ast.AST
    field: str
    first: int
    last: int
    found: Found


def replace(scope: ast.AST, old: str, new: str) -> None:
    """Replace the one piece `old` inside `scope` by `new`; an empty `new` removes statements.

    Raises `NoVariant`.
    """
    before, after = ast.parse(dedent(old)).body, ast.parse(dedent(new)).body
    pattern, result = before[0], after[0] if len(after) == 1 else None
    if len(before) == 1 and isinstance(pattern, ast.Expr) and isinstance(result, ast.Expr):
        match = _only(list(_expressions(scope, pattern.value)), old)
        _put(match, [_filled(result.value, match.found)])
        return
    match = _only(list(_statements(scope, before)), old)
    filled = _filled_list(after, match.found)
    _put(match, filled or [ast.Pass()])


def _only(matches: Sequence[_Match], old: str) -> _Match:
    if len(matches) != 1:
        raise NoVariant(f"found {len(matches)} times: {dedent(old)!r}")
    return matches[0]


def _put(match: _Match, nodes: Sequence[ast.AST]) -> None:
    value = getattr(match.holder, match.field)
    if isinstance(value, list):
        value[match.first : match.last] = nodes
    else:
        setattr(match.holder, match.field, nodes[0])


# ---- find ----------------------------------------------------------------------------------------


def _expressions(scope: ast.AST, pattern: ast.expr) -> Iterator[_Match]:
    for holder in ast.walk(scope):
        for field, value in ast.iter_fields(holder):
            for number, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.expr):
                    found = _node(pattern, node, {})
                    if found is not None:
                        found = {**found, "__old__": node}
                        yield _Match(holder, field, number, number + 1, found)


def _statements(scope: ast.AST, patterns: list[ast.stmt]) -> Iterator[_Match]:
    for holder in ast.walk(scope):
        for field, value in ast.iter_fields(holder):
            if not (isinstance(value, list) and value and isinstance(value[0], ast.stmt)):
                continue
            for first in range(len(value)):
                last = first + len(patterns)
                found = _list(patterns, value[first:last], {})
                if found is not None:
                    yield _Match(
                        holder, field, first, last, {**found, "__old__": value[first:last]}
                    )


def _node(pattern: object, node: object, found: Found) -> Found | None:
    """What the placeholders stand for if `node` is as `pattern` says, else None."""
    name = _placeholder(pattern) if isinstance(pattern, ast.expr) else ""
    if name:
        return _bound(name, node, found) if isinstance(node, ast.expr) else None
    if not isinstance(pattern, ast.AST):
        return found if repr(pattern) == repr(node) else None
    if type(pattern) is not type(node):
        return None
    left: Found | None = found
    for field, part in ast.iter_fields(pattern):
        if left is None or field in _IGNORED or (isinstance(pattern, ast.Call) and field != "func"):
            continue
        other = getattr(node, field)
        left = _list(part, other, left) if isinstance(part, list) else _node(part, other, left)
    if left is not None and isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        return _call(pattern, node, left)
    return left


def _list(patterns: Sequence[ast.AST], nodes: Sequence[ast.AST], found: Found) -> Found | None:
    if not patterns:
        return None if nodes else found
    name = _rest(patterns[0])
    if not name:
        left = _node(patterns[0], nodes[0], found) if nodes else None
        return None if left is None else _list(patterns[1:], nodes[1:], left)
    for count in range(len(nodes) + 1):
        left = _bound(name, list(nodes[:count]), found)
        left = None if left is None else _list(patterns[1:], nodes[count:], left)
        if left is not None:
            return left
    return None


def _call(pattern: ast.Call, node: ast.Call, found: Found) -> Found | None:
    """Keywords are told apart by their names, not by their order."""
    named = {keyword.arg: keyword for keyword in node.keywords}
    left: Found | None = found
    for keyword in pattern.keywords:
        other = named.pop(keyword.arg, None)
        left = None if left is None or other is None else _node(keyword.value, other.value, left)
    place = _rest_place(pattern)
    if left is None or (named and place is None):
        return None
    if place is None:
        return _list(pattern.args, node.args, left)
    after = len(pattern.args) - place - 1
    last = len(node.args) - after
    if last < place:
        return None
    fixed = _list(
        [*pattern.args[:place], *pattern.args[place + 1 :]],
        [*node.args[:place], *node.args[last:]],
        left,
    )
    rest = _Arguments(node.args[place:last], list(named.values()))
    return None if fixed is None else _bound(_rest_name(pattern.args[place]), rest, fixed)


def _bound(name: str, value: object, found: Found) -> Found | None:
    if name == "...":
        return found
    if name in found:
        return found if _text(found[name]) == _text(value) else None
    return {**found, name: value}


def _text(value: object) -> str:
    if isinstance(value, _Arguments):
        return _text([*value.args, *(keyword.value for keyword in value.keywords)])
    if isinstance(value, list):
        return "\n".join(_text(node) for node in value)
    assert isinstance(value, ast.AST)
    return ast.unparse(value)


# ---- placeholders --------------------------------------------------------------------------------


def _placeholder(node: ast.AST) -> str:
    """The name of a placeholder for one expression, else ''."""
    if isinstance(node, ast.Constant) and node.value is ...:
        return "..."
    is_name = isinstance(node, ast.Name) and _PLACEHOLDER.fullmatch(node.id)
    return node.id if is_name and isinstance(node, ast.Name) else ""


def _rest(node: ast.AST) -> str:
    """The name of a placeholder for any number of statements, else ''."""
    return _placeholder(node.value) if isinstance(node, ast.Expr) else ""


def _rest_name(argument: ast.expr) -> str:
    """The name of a placeholder for any number of arguments, else ''."""
    if isinstance(argument, ast.Starred):
        return _placeholder(argument.value)
    return "..." if _placeholder(argument) == "..." else ""


def _rest_place(call: ast.Call) -> int | None:
    """Where the placeholder for any number of arguments stands; there is one at most."""
    places = [number for number, argument in enumerate(call.args) if _rest_name(argument)]
    if len(places) > 1:
        raise NoVariant(f"two placeholders for arguments: {ast.unparse(call)}")
    return places[0] if places else None


# ---- replace -------------------------------------------------------------------------------------


def _filled(node: ast.AST, found: Found) -> ast.AST:
    """A copy with what was found in place of the placeholders."""
    value = found.get(_placeholder(node))
    if value is not None:
        if not isinstance(value, ast.expr):
            raise NoVariant(f"no single expression: {ast.unparse(node)}")
        return _as(value, getattr(node, "ctx", ast.Load()))
    filled = copy.copy(node)
    for field, part in ast.iter_fields(node):
        if isinstance(part, ast.AST):
            setattr(filled, field, _filled(part, found))
        elif isinstance(part, list):
            setattr(filled, field, _filled_list(part, found))
    if isinstance(filled, ast.Call):
        filled.keywords += _keywords(node, found)
    return filled


def _keywords(node: ast.AST, found: Found) -> list[ast.keyword]:
    """Those that a placeholder for arguments brings into a call."""
    values = [found.get(_rest_name(argument)) for argument in getattr(node, "args", ())]
    return [each for value in values if isinstance(value, _Arguments) for each in value.keywords]


def _filled_list(nodes: Sequence[object], found: Found) -> list[ast.AST]:
    filled: list[ast.AST] = []
    for node in nodes:
        if not isinstance(node, ast.AST):
            filled.append(node)  # a name of `global` or `nonlocal`, or an absent default
            continue
        value = found.get(_rest(node) or (_rest_name(node) if isinstance(node, ast.expr) else ""))
        if isinstance(value, list):
            filled += value
        elif isinstance(value, _Arguments):
            filled += value.args
        else:
            filled.append(_filled(node, found))
    return filled


def _as(node: ast.expr, context: ast.expr_context) -> ast.expr:
    filled = copy.deepcopy(node)
    if isinstance(filled, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List)):
        filled.ctx = context
    return filled
