"""Finds code that decides by the text of an error.

The text of an error is its `str`, `repr` or `args`, its place in an f-string, or a variable that
holds one of these.  A decision is a comparison or a search: `==`, `in`, `startswith`, `partition`,
a match of a pattern.  Splitting a text at white space or at a newline, for display, decides
nothing.
"""

import ast
from collections.abc import Iterator

_SEARCHES = {
    "startswith", "endswith", "find", "index", "partition", "rpartition", "split", "removeprefix",
    "removesuffix", "match", "search", "fullmatch", "findall", "count",
}  # fmt: skip
_KINDS = ("Error", "Exception", "BaseException")


def findings(tree: ast.AST) -> Iterator[int]:
    """The lines of a module that decide by the text of an error."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_function(function)


def _in_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    errors = set(_errors(function))
    texts: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_text(node.value, errors, texts):
            texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(function):
        if any(_is_text(part, errors, texts) for part in _decided_by(node)):
            yield node.lineno  # type: ignore[attr-defined]


def _errors(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The names of the function that hold errors."""
    for argument in function.args.args + function.args.kwonlyargs:
        kind = ast.unparse(argument.annotation) if argument.annotation else ""
        if any(word.strip().endswith(_KINDS) for word in kind.split("|")):
            yield argument.arg
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def _decided_by(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in _SEARCHES:
            return []
        cut = [ast.unparse(each) for each in node.args] in ([], ["'\\n'"])
        return [] if cut else [node.func.value, *node.args]
    return []


def _is_text(node: ast.expr, errors: set[str], texts: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in texts
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("str", "repr") and _is_error(node.args, errors)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _is_text(node.func.value, errors, texts)  # such as str(error).lower()
    if isinstance(node, ast.JoinedStr):
        return any(
            _is_error([part.value], errors)
            for part in node.values
            if isinstance(part, ast.FormattedValue)
        )
    if isinstance(node, ast.Subscript):
        return _is_text(node.value, errors, texts)
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("args", "error")
        and (node.attr == "error" or _is_error([node.value], errors))
    )


def _is_error(nodes: list[ast.expr], errors: set[str]) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], ast.Name) and nodes[0].id in errors
