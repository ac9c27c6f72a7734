"""Broken variants of production functions, put in place for a while.

A variant is an edit of a module's source.  The edited source is compiled beside the module, and the
code of each function that came out different is exchanged in place, so that every name that holds
the function sees the variant; afterwards the old code is put back.
"""

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple


class Edit(NamedTuple):
    """Replace `old`, which stands in the module once, by `new`."""

    module: str
    old: str
    new: str


@contextlib.contextmanager
def patched(edits: tuple[Edit, ...]) -> Iterator[None]:
    """Production code as edited; an edit may import more."""
    undo: list[tuple[FunctionType, CodeType]] = []
    added: list[tuple[ModuleType, str]] = []
    try:
        for name in dict.fromkeys(edit.module for edit in edits):
            module = importlib.import_module(f"graveler.{name}")
            variant = _variant(module, [edit for edit in edits if edit.module == name])
            undo += _exchanged(module, variant)
            for missing in vars(variant).keys() - vars(module).keys():
                setattr(module, missing, vars(variant)[missing])
                added.append((module, missing))
        yield
    finally:
        for function, code in undo:
            function.__code__ = code
        for module, name in added:
            delattr(module, name)


def _variant(module: ModuleType, edits: list[Edit]) -> ModuleType:
    source = inspect.getsource(module)
    for edit in edits:
        count = source.count(edit.old)
        assert count == 1, f"{edit.module} has {count} times: {edit.old!r}"
        source = source.replace(edit.old, edit.new)
    variant = ModuleType(module.__name__)
    exec(compile(source, f"{module.__file__} (edited)", "exec"), variant.__dict__)
    return variant


def _exchanged(module: ModuleType, variant: ModuleType) -> list[tuple[FunctionType, CodeType]]:
    old, new = _functions(module, module.__name__), _functions(variant, module.__name__)
    assert old.keys() == new.keys(), "an edit changes functions, it makes none"
    before = []
    for name, function in old.items():
        if _text(function.__code__) != _text(new[name].__code__):
            before.append((function, function.__code__))
            function.__code__ = new[name].__code__
    assert before, "the edit changes nothing"
    return before


def _functions(owner: object, module: str) -> dict[str, FunctionType]:
    found: dict[str, FunctionType] = {}
    for member in vars(owner).values():
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
