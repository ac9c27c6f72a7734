"""Broken variants of production functions, put in place for a while.

A variant is an edit of one function, which module and qualified name tell.  The edited module is
compiled beside the module, and the code of each function that came out different is exchanged in
place, so that every name that holds the function sees the variant.  Afterwards the old code is put
back.
"""

import ast
import contextlib
import importlib
import inspect
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from tests.simulation import pieces


class Edit(NamedTuple):
    """Inside `function` (`name`, `Class.name` or `outer.inner`) replace the one piece `old` by
    `new`, as `pieces.py` says."""

    module: str
    function: str
    old: str
    new: str


@contextlib.contextmanager
def patched(edits: Sequence[Edit]) -> Iterator[None]:
    """Production code as edited."""
    undo: list[tuple[FunctionType, CodeType]] = []
    try:
        for name in dict.fromkeys(edit.module for edit in edits):
            module = importlib.import_module(f"graveler.{name}")
            variant = _variant(module, [edit for edit in edits if edit.module == name])
            undo += _exchanged(module, variant)
        yield
    finally:
        for function, code in undo:
            function.__code__ = code


def edited(source: str, edits: Sequence[Edit]) -> ast.Module:
    """The source with all edits, one after the other.  Raises `pieces.NoVariant`."""
    tree = ast.parse(source)
    for edit in edits:
        where = f"{edit.module}:{edit.function}"
        scope: ast.AST = tree
        for name in edit.function.split("."):
            scope = _defined(scope, name, where)
        try:
            pieces.replace(scope, edit.old, edit.new)
        except pieces.NoVariant as error:
            raise pieces.NoVariant(f"{where}: {error}") from None
    return ast.fix_missing_locations(tree)


def _defined(scope: ast.AST, name: str, where: str) -> ast.AST:
    """The function or class `name` of `scope`, which is not that of an inner one."""
    found, todo = [], list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
        elif node.name == name:
            found.append(node)
    if len(found) != 1:
        raise pieces.NoVariant(f"{where}: {name} is defined {len(found)} times")
    return found[0]


def _variant(module: ModuleType, edits: Sequence[Edit]) -> ModuleType:
    tree = edited(inspect.getsource(module), edits)
    variant = ModuleType(module.__name__)
    exec(compile(tree, f"{module.__file__} (edited)", "exec"), variant.__dict__)
    return variant


def _exchanged(module: ModuleType, variant: ModuleType) -> list[tuple[FunctionType, CodeType]]:
    old, new = _functions(module, module.__name__), _functions(variant, module.__name__)
    if old.keys() != new.keys():
        raise pieces.NoVariant("an edit changes functions, it makes none")
    before = []
    for name, function in old.items():
        if _text(function.__code__) != _text(new[name].__code__):
            before.append((function, function.__code__))
            function.__code__ = new[name].__code__
    if not before:
        raise pieces.NoVariant("the edit changes nothing")
    return before


def _functions(owner: object, module: str) -> dict[str, FunctionType]:
    found: dict[str, FunctionType] = {}
    for named in vars(owner).values():
        member = getattr(named, "endpoint", named)  # an operation of the API stands for its own
        if getattr(member, "__module__", None) != module:
            continue
        if isinstance(member, FunctionType):
            found[member.__qualname__] = member
        elif inspect.isclass(member):
            found |= _functions(member, module)
    return found


def _text(code: CodeType) -> tuple[object, ...]:
    consts = [_text(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return code.co_code, code.co_names, tuple(consts), code.co_varnames
